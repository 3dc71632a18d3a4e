"""External agents as subagents: what they say and do is recorded as of our own."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import ExternalConfig
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import PartDelta, PermissionAsked, TaskCancelled
from asyncagents.llm.scripted import say
from asyncagents.remote.acp.agents import MOST_TEXT
from asyncagents.remote.acp.opening import BEGUN_ANEW, load_text
from asyncagents.testing.acp_agent import Act
from asyncagents.testing.inside import inside
from tests.support.acp_agent import ALLOWED, ExternalStage, launching, open_external_stage, scripted
from tests.support.delegation import RequestScript, launch_agent, wait_for_task_end, wait_until_quiet
from tests.support.wait import wait_until

CALL = {"toolCallId": "c1", "title": "make all", "kind": "execute", "rawInput": {"command": "make all"}}
BEGIN = Act(update={"sessionUpdate": "tool_call", "status": "in_progress", **CALL})
DONE = Act(
    update={
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c1",
        "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "built"}}],
    }
)
PLAN = Act(
    update={
        "sessionUpdate": "plan",
        "entries": [{"content": "Look", "priority": "high", "status": "in_progress"}],
    }
)
MAKE: RequestScript = launching("make")
BUILD = {"make": [BEGIN, Act(ask=CALL), DONE]}


async def answer_of(stage: ExternalStage) -> tuple[AssistantMessage, list[Part]]:
    entry = (await stage.at.runtime.messages(await stage.child()))[-1]
    assert isinstance(entry.info, AssistantMessage)
    return entry.info, [part for part in entry.parts if isinstance(part, ReasoningPart | TextPart | ToolPart)]


async def texts_of(stage: ExternalStage) -> list[str]:
    _, parts = await answer_of(stage)
    return [part.text for part in parts if isinstance(part, TextPart)]


async def call_of(stage: ExternalStage) -> ToolPart:
    _, parts = await answer_of(stage)
    (call,) = [part for part in parts if isinstance(part, ToolPart)]
    return call


async def until_child_says(stage: ExternalStage, text: str) -> None:
    await stage.at.listener.until(PartDelta, lambda event: event.delta == text)


@pytest.mark.spec("X-03")
async def test_text_thoughts_calls_and_todos_are_recorded_in_order(tmp_path: Path) -> None:
    acts = [Act(think="Hm."), Act(say="I"), Act(say=" build."), BEGIN, DONE, PLAN, Act(say="Built.")]
    usage = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}
    async with open_external_stage(tmp_path, scripted({"look": acts}, usage=usage)) as stage:
        await stage.at.prompt("go")
        message, parts = await answer_of(stage)
        todos = await inside(stage.at.runtime).store.todos(await stage.child())
        task = await stage.task()
    assert [type(part).__name__ for part in parts] == ["ReasoningPart", "TextPart", "ToolPart", "TextPart"]
    assert [part.text for part in parts if isinstance(part, TextPart)] == ["I build.", "Built."]
    (call,) = [part for part in parts if isinstance(part, ToolPart)]
    assert isinstance(call.state, ToolCompleted)
    assert (call.tool, call.state.title, call.state.output) == ("external:execute", "make all", "built")
    assert (message.provider_id, message.model_id, message.finish) == ("acp", "ext", "stop")
    assert (message.tokens.input, message.tokens.output) == (10, 2)
    assert todos == (Todo(id="todo_1", content="Look", status="in_progress", priority="high"),)
    assert (task.status, task.result) == ("completed", "I build.\nBuilt.")
    assert stage.prompts == ["look"]


@pytest.mark.spec("X-03")
async def test_a_huge_input_and_output_of_a_call_are_shortened(tmp_path: Path) -> None:
    huge = {"type": "content", "content": {"type": "text", "text": "o" * 2_000_000}}
    shown = {"toolCallId": "c1", "kind": "k" * 1_000, "status": "completed", "content": [huge]}
    given = {"command": "i" * 2_000_000, "lines": ["i" * 2_000_000]}
    act = Act(update={"sessionUpdate": "tool_call", "title": "Make", "rawInput": given, **shown})
    async with open_external_stage(tmp_path, scripted({"look": [act]})) as stage:
        await stage.at.prompt("go")
        call = await call_of(stage)

    assert isinstance(call.state, ToolCompleted)
    assert len(str(call)) < 500_000
    assert "characters left out" in call.state.output
    assert "characters left out" in call.state.input["command"]


@pytest.mark.spec("X-03")
async def test_an_agent_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    flood = Act(say="on and on " * (MOST_TEXT // 9), chunks=200)
    async with open_external_stage(tmp_path, scripted({"look": [flood]})) as stage:
        await stage.at.prompt("go")
        task = await stage.task()

    assert task.status == "error"
    assert "wrote more than 10,000,000 characters, so it was ended" in (task.error or "")
    assert 0 < len(task.result or "") <= MOST_TEXT


@pytest.mark.spec("X-03")
async def test_the_reported_cost_is_that_of_the_step(tmp_path: Path) -> None:
    costs = [Act(update=_cost(0.5)), Act(say="A.")], [Act(update=_cost(0.75)), Act(say="B.")]
    async with open_external_stage(tmp_path, scripted({"look": costs[0], "more": costs[1]})) as stage:
        await stage.at.prompt("go")
        first, _ = await answer_of(stage)
        await stage.at.runtime.tasks.resume(await stage.child(), "more")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        second, _ = await answer_of(stage)
    assert (first.cost, second.cost) == (0.5, 0.25)


def _cost(amount: float) -> dict[str, Any]:
    cost = {"amount": amount, "currency": "USD"}
    return {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost}


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(("action", "chosen"), [("allow", "yes"), ("deny", "no")])
async def test_our_rules_answer_a_permission_request(tmp_path: Path, action: str, chosen: str) -> None:
    rules = {**ALLOWED, "bash": {"make *": action}}
    async with open_external_stage(tmp_path, scripted(BUILD), MAKE, permission=rules) as stage:
        await stage.at.prompt("go")
        assert await texts_of(stage) == [chosen]
        assert stage.at.listener.of(PermissionAsked) == []


@pytest.mark.spec("X-03")
async def test_a_rule_for_a_command_does_not_allow_another_command_of_the_line(tmp_path: Path) -> None:
    line = {**CALL, "rawInput": {"command": "make all && rm -rf x"}}
    rules = {**ALLOWED, "bash": {"*": "deny", "make *": "allow"}}
    async with open_external_stage(
        tmp_path, scripted({"make": [Act(ask=line)]}), MAKE, permission=rules
    ) as stage:
        await stage.at.prompt("go")
        assert await texts_of(stage) == ["no"]


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(("reply", "chosen"), [("once", "yes"), ("always", "yes"), ("reject", "no")])
async def test_a_person_answers_what_the_agent_asks(tmp_path: Path, reply: Any, chosen: str) -> None:
    rules = {**ALLOWED, "bash": "ask"}
    async with open_external_stage(tmp_path, scripted(BUILD), MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        asked = (await stage.at.listener.until(PermissionAsked)).request
        (listed,) = await stage.at.runtime.asks()
        await stage.at.runtime.answer(asked.id, reply)
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        state = (await call_of(stage)).state
        assert await texts_of(stage) == [chosen]
        task = await stage.task()
        approved = await stage.at.runtime.approvals.list(None)
    assert (asked.permission, asked.patterns) == ("bash", ("make all",))
    assert isinstance(state, ToolFailed if reply == "reject" else ToolCompleted)
    assert task.status == "completed"
    assert bool(approved) == (reply == "always")
    assert listed is not None


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(("second", "chosen"), [("once", "yes"), ("reject", "no")])
async def test_each_permission_that_a_call_needs_is_asked_for(
    tmp_path: Path, second: Any, chosen: str
) -> None:
    line = {**CALL, "rawInput": {"command": "make all > /tmp/made"}}
    rules = {**ALLOWED, "bash": "ask", "external_directory": "ask"}
    script = scripted({"make": [Act(ask=line)]})
    async with open_external_stage(tmp_path, script, MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        first = (await stage.at.listener.until(PermissionAsked)).request
        await stage.at.runtime.answer(first.id, "once")
        then = (
            await stage.at.listener.until(PermissionAsked, lambda event: event.request.id != first.id)
        ).request
        await stage.at.runtime.answer(then.id, second)
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        assert await texts_of(stage) == [chosen]
    assert {first.permission, then.permission} == {"external_directory", "bash"}


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(("reply", "chosen"), [("once", "yesyes"), ("reject", "nono")])
async def test_two_requests_for_one_call_at_once_are_both_answered(
    tmp_path: Path, reply: Any, chosen: str
) -> None:
    rules = {**ALLOWED, "bash": "ask"}
    script = scripted({"make": [Act(asks=(CALL, CALL))]})
    async with open_external_stage(tmp_path, script, MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        asked = (await stage.at.listener.until(PermissionAsked)).request
        await stage.at.runtime.answer(asked.id, reply)
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        assert await texts_of(stage) == [chosen]


@pytest.mark.spec("X-03")
async def test_a_rejected_call_stays_rejected_though_its_next_request_would_be_allowed(
    tmp_path: Path,
) -> None:
    rules = {**ALLOWED, "bash": {"make *": "ask", "echo *": "allow"}}
    other = {**CALL, "rawInput": {"command": "echo hi"}}
    script = scripted({"make": [Act(asks=(CALL, other))]})
    async with open_external_stage(tmp_path, script, MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        asked = (await stage.at.listener.until(PermissionAsked)).request
        await stage.at.runtime.answer(asked.id, "reject")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        assert await texts_of(stage) == ["nono"]


@pytest.mark.spec("X-03")
async def test_a_cancel_ends_the_program_and_all_that_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    acts = [Act(spawn=f"while true; do touch {alive}; sleep 0.05; done"), Act(say="Busy."), Act(hang=True)]
    async with open_external_stage(
        tmp_path, scripted({"look": [BEGIN, *acts]}), launching(tool="asyncagents_task")
    ) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await until_child_says(stage, "Busy.")
        await wait_until(alive.exists)
        await stage.at.runtime.tasks.cancel(await stage.child())
        await wait_for_task_end(stage.at, "Job", TaskCancelled)
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        alive.unlink(missing_ok=True)
        assert isinstance((await call_of(stage)).state, ToolFailed)
        known = await inside(stage.at.runtime).store.external.session(await stage.child())
    assert known is not None
    assert known.prompt is None
    assert not alive.exists()


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("asks", [True, False])
async def test_a_call_that_was_cut_off_is_recorded_with_the_input_that_its_agent_showed_last(
    tmp_path: Path, asks: bool
) -> None:
    named = {"toolCallId": "c1", "title": "Shell", "kind": "execute", "rawInput": {}}
    begin = Act(update={"sessionUpdate": "tool_call", "status": "pending", **named})
    running = Act(update={"sessionUpdate": "tool_call_update", "status": "in_progress", **CALL})
    acts = [begin, Act(ask=CALL) if asks else running, Act(say="Busy."), Act(hang=True)]
    rules = {**ALLOWED, "bash": "allow"}
    async with open_external_stage(
        tmp_path, scripted({"look": acts}), launching(tool="asyncagents_task"), permission=rules
    ) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await until_child_says(stage, "Busy.")
        await stage.at.runtime.tasks.cancel(await stage.child())
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        state = (await call_of(stage)).state
    assert isinstance(state, ToolFailed)
    assert state.input == {"command": "make all"}


@pytest.mark.spec("X-03")
async def test_an_abort_ends_an_open_ask(tmp_path: Path) -> None:
    rules = {**ALLOWED, "bash": "ask"}
    async with open_external_stage(tmp_path, scripted(BUILD), MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await stage.at.listener.until(PermissionAsked)
        await stage.at.abort()
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        assert await stage.at.runtime.asks() == ()
        assert (await stage.task()).status == "cancelled"


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("missing", [("loads",), ("resumes",), ("loads", "resumes")])
async def test_a_follow_up_goes_on_with_the_external_session_or_brings_the_conversation(
    tmp_path: Path, missing: tuple[str, ...]
) -> None:
    turns = {"more": [Act(say="Blue.")], "look": [Act(say="Red.")]}
    async with open_external_stage(tmp_path, scripted(turns, **dict.fromkeys(missing, False))) as stage:
        await stage.at.prompt("go")
        await stage.at.runtime.tasks.resume(await stage.child(), "more")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        _, parts = await answer_of(stage)
    anew = len(missing) == 2
    transcript = f"{load_text('transcript')}\n\nUser: look\n\nAgent: Red.\n"
    assert stage.prompts == ["look", f"{transcript}more" if anew else "more"]
    assert len(stage.memory) == 1 + anew
    assert [part.text for part in parts if isinstance(part, ReasoningPart)] == [BEGUN_ANEW] * anew


@pytest.mark.spec("X-03")
async def test_a_program_that_ends_in_its_work_fails_the_task_with_what_it_wrote(tmp_path: Path) -> None:
    acts = [Act(say="Half."), BEGIN, Act(exit=3)]
    async with open_external_stage(tmp_path, scripted({"look": acts})) as stage:
        await stage.at.prompt("go")
        task, state = await stage.task(), (await call_of(stage)).state
    assert (task.status, task.result) == ("error", "Half.")
    assert "exit code 3" in (task.error or "")
    assert isinstance(state, ToolFailed)


@pytest.mark.spec("X-03")
async def test_a_program_that_does_not_exist_fails_the_task(tmp_path: Path) -> None:
    async with open_external_stage(tmp_path, scripted(), command=("/nowhere/agent",)) as stage:
        await stage.at.prompt("go")
        task = await stage.task()
    assert task.status == "error"
    assert "The external agent ext" in (task.error or "")


@pytest.mark.spec("X-03")
async def test_requests_that_are_not_offered_are_answered_as_unknown(tmp_path: Path) -> None:
    acts = [Act(request="fs/read_text_file"), Act(request="craft/drainMidTurnQueue")]
    async with open_external_stage(tmp_path, scripted({"look": acts})) as stage:
        await stage.at.prompt("go")
        assert await texts_of(stage) == ["-32601-32601"]


@pytest.mark.spec("X-03")
async def test_a_refusal_fails_the_task(tmp_path: Path) -> None:
    async with open_external_stage(tmp_path, scripted({"look": [Act(say="No.")]}, stop="refusal")) as stage:
        await stage.at.prompt("go")
        task = await stage.task()
    assert task.status == "error"
    assert (task.error or "").startswith("ContentFilterError")


@pytest.mark.spec("X-03")
async def test_a_turn_that_the_agent_cancelled_by_itself_is_no_cancel_of_a_person(tmp_path: Path) -> None:
    script = scripted({"look": [Act(say="Half.")]}, stop="cancelled")
    async with open_external_stage(tmp_path, script) as stage:
        await stage.at.prompt("go")
        task = await stage.task()
    assert (task.status, task.ended_by, task.result) == ("error", None, "Half.")
    assert "cancelled its turn by itself. It still runs." in (task.error or "")


@pytest.mark.spec("X-03")
async def test_only_so_many_programs_run_at_once(tmp_path: Path) -> None:
    names = ("Job 0", "Job 1", "Job 2")
    launches = [launch_agent("asyncagents_task", "ext", name, description=name) for name in names]
    scenes: RequestScript = {"go": [launches, *[[say("Ok.")]] * 4]}
    lock = tmp_path / "lock"
    acts = [Act(shell=f"mkdir {lock} || touch {lock}.taken; sleep 0.1; rmdir {lock}"), Act(say="Done.")]
    limit = ExternalConfig(concurrent=1)
    async with open_external_stage(tmp_path, scripted({"Job": acts}), scenes, external=limit) as stage:
        await stage.at.prompt("go")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        tasks = await stage.at.runtime.tasks.list()
    assert [task.status for task in tasks] == ["completed"] * 3
    assert not lock.with_suffix(".taken").exists()


@pytest.mark.spec("X-03")
async def test_a_fork_brings_the_conversation_of_its_parent(tmp_path: Path) -> None:
    launch = launch_agent("asyncagents_task", "ext", "look", fork=True)
    scenes: RequestScript = {"hello": [[say("Hi.")], [launch], *[[say("Ok.")]] * 4]}
    async with open_external_stage(tmp_path, scripted(), scenes) as stage:
        await stage.at.prompt("hello")
        await stage.at.prompt("go")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
    (prompt,) = stage.prompts
    assert prompt.startswith(load_text("transcript"))
    assert "User: hello\n\nAgent: Hi." in prompt
    assert prompt.endswith("look")


@pytest.mark.spec("X-03")
async def test_the_own_prompt_of_the_agent_is_sent_before_the_first_prompt(tmp_path: Path) -> None:
    async with open_external_stage(tmp_path, scripted(), instructions="Be strict.") as stage:
        await stage.at.prompt("go")
        await stage.at.runtime.tasks.resume(await stage.child(), "more")
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
    assert stage.prompts == ["Be strict.\nlook", "more"]


@pytest.mark.spec("X-03")
async def test_why_and_the_census_tell_of_a_prompt_under_way(tmp_path: Path) -> None:
    async with open_external_stage(tmp_path, scripted({"look": [Act(say="Busy."), Act(hang=True)]})) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        await until_child_says(stage, "Busy.")
        why = await stage.at.runtime.tasks.why(await stage.child())
        census = await stage.at.runtime.census()
        await stage.at.abort()
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
        after = await stage.at.runtime.census()
    assert why.code == "external_agent"
    assert "the external agent ext" in why.sentence
    assert (census.external_prompts, after.external_prompts) == (1, 0)


@pytest.mark.spec("X-03")
async def test_why_names_the_ask_of_an_external_agent(tmp_path: Path) -> None:
    rules = {**ALLOWED, "bash": "ask"}
    async with open_external_stage(tmp_path, scripted(BUILD), MAKE, permission=rules) as stage:
        await stage.at.runtime.send(stage.at.session_id, "go")
        asked = (await stage.at.listener.until(PermissionAsked)).request
        why = await stage.at.runtime.tasks.why(await stage.child())
        await stage.at.abort()
        await wait_until_quiet(stage.at.runtime, stage.at.session_id)
    assert (why.code, why.on) == ("permission", (asked.id,))
