"""A coding agent in a project: its prompt, its tools, its rules, and what it is reminded of."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig, AsksConfig, Config
from asyncagents.domain.call.call import Failed, Settled
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef
from asyncagents.domain.conversation.part import TextPart, ToolCompleted, ToolFailed
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.event import PermissionAsked, PermissionReplied, SessionUpdated
from asyncagents.llm.model import ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptLine, call, end, fail, pause, say
from tests.support.git import create_repository
from tests.support.project import ASK_EDITS, LONG_PROMPT, open_project
from tests.support.runtime import Stage, open_stage
from tests.support.wait import wait_until


def results(at: Stage) -> list[ToolTurn]:
    return [told for told in at.request_messages() if isinstance(told, ToolTurn)]


@pytest.mark.spec("A-01", "A-05")
async def test_the_model_gets_its_agents_prompt_its_tools_and_where_it_is(tmp_path: Path) -> None:
    async with open_project(tmp_path, {"go": [[say("Done.")]]}, files={"AGENTS.md": "Use tabs."}) as at:
        await at.prompt("go")
    (request,) = at.model.requests
    assert str(tmp_path / "project") in request.system
    assert "Use tabs." in request.system
    names = [tool.name for tool in request.tools]
    assert names == [
        *("read", "list", "glob", "grep", "edit", "write", "patch", "bash"),
        *("webfetch", "todowrite", "todoread", "question", "wait", "task", "asyncagents_task"),
        *("asyncagents_output", "asyncagents_cancel", "asyncagents_list", "asyncagents_clear"),
        *("async_task", "async_task_result"),
    ]


@pytest.mark.spec("A-04")
async def test_a_tool_that_is_denied_outright_is_not_shown_and_not_run(tmp_path: Path) -> None:
    script = {"go": [[call("edit", filePath="a", oldString="x", newString="y")], [say("No.")]]}
    async with open_project(tmp_path, script, files={"a": "x"}) as at:
        await at.runtime.prompt(at.session_id, "go", agent="plan")
        (state,) = await at.states()
    assert {"edit", "write", "patch"}.isdisjoint(tool.name for tool in at.model.requests[0].tools)
    assert isinstance(state, ToolFailed)
    assert "Not allowed here: edit" in state.error
    assert (tmp_path / "project" / "a").read_text() == "x"


@pytest.mark.spec("A-04")
async def test_an_edit_asks_with_its_diff_and_is_made_when_it_is_approved(tmp_path: Path) -> None:
    script = {
        "go": [
            [call("read", filePath="a.txt")],
            [call("edit", filePath="a.txt", oldString="one", newString="two")],
            [say("Edited.")],
        ]
    }
    async with open_project(tmp_path, script, files={"a.txt": "one\n"}, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert asked.request.permission == "edit"
        assert asked.request.patterns == ("a.txt",)
        assert "+two" in asked.request.metadata["diff"]
        await at.runtime.answer(asked.request.id, "once")
        await at.runtime.wait(at.session_id)
    assert (tmp_path / "project" / "a.txt").read_text() == "two\n"


@pytest.mark.spec("A-04", "A-03")
async def test_always_is_stored_for_the_project_and_answers_similar_asks(tmp_path: Path) -> None:
    both = [call("write", filePath=f"{name}.txt", content=name) for name in ("a", "b")]
    again = [call("write", filePath="c.txt", content="c")]
    script = {"go": [both, [say("Written.")]], "again": [again, [say("Again.")]]}
    async with open_project(tmp_path, script, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        first = await at.listener.until(PermissionAsked)
        await at.listener.until(PermissionAsked)
        assert len(await at.runtime.asks(at.session_id)) == 2
        await at.runtime.answer(first.request.id, "always")
        await at.runtime.wait(at.session_id)
        replies = [event.reply for event in at.listener.of(PermissionReplied)]
        approved = await at.runtime.approvals.list(tmp_path / "project")
        other = await at.runtime.create_session(directory=tmp_path / "project")
        await at.runtime.prompt(other.id, "again")
        assert await at.runtime.asks() == ()
        assert await at.runtime.approvals.withdraw_all(tmp_path / "project") == 1
    assert [(each.permission, each.pattern, each.exact) for each in approved] == [("edit", "*", False)]
    assert [(tmp_path / "project" / f"{n}.txt").read_text() for n in "abc"] == ["a", "b", "c"]
    assert set(replies) <= {"always"}


@pytest.mark.spec("A-03")
async def test_a_stored_approval_does_not_lift_a_denial_of_plan(tmp_path: Path) -> None:
    script = {
        "go": [[call("write", filePath="a", content="1")], [say("Ok.")]],
        "plan": [[call("write", filePath="a", content="2")], [say("No.")]],
    }
    async with open_project(tmp_path, script, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        await at.runtime.prompt(at.session_id, "plan", agent="plan")
    assert (tmp_path / "project" / "a").read_text() == "1"


@pytest.mark.spec("A-04")
async def test_an_approval_may_come_with_other_arguments(tmp_path: Path) -> None:
    script = {"go": [[call("write", filePath="a.txt", content="mine")], [say("Ok.")]]}
    async with open_project(tmp_path, script, permission=ASK_EDITS) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "once", input={"filePath": "b.txt", "content": "yours"})
        await at.runtime.wait(at.session_id)
        (state,) = await at.states()
    root = tmp_path / "project"
    assert not (root / "a.txt").exists()
    assert (root / "b.txt").read_text() == "yours"
    assert isinstance(state, ToolCompleted)
    assert state.input == {"filePath": "b.txt", "content": "yours"}
    assert "The user changed the arguments" in results(at)[0].output


@pytest.mark.spec("A-04")
async def test_arguments_from_a_person_that_the_rules_deny_stay_denied(tmp_path: Path) -> None:
    rules = {"edit": {"*": "ask", "secret*": "deny"}}
    script = {"go": [[call("write", filePath="a.txt", content="x")], [say("Ok.")]]}
    async with open_project(tmp_path, script, permission=rules) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "once", input={"filePath": "secret", "content": "x"})
        await at.runtime.wait(at.session_id)
    assert not (tmp_path / "project" / "secret").exists()


@pytest.mark.spec("A-04")
@pytest.mark.parametrize(("policy", "steps"), [("deny", 2), ("fail", 1)])
async def test_an_ask_is_answered_by_the_configured_policy(tmp_path: Path, policy: Any, steps: int) -> None:
    script = {"go": [[call("write", filePath="a", content="x")], [say("Without.")]]}
    asks = AsksConfig(policy=policy)
    async with open_project(tmp_path, script, permission=ASK_EDITS, asks=asks) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert len(at.model.requests) == steps
    assert isinstance(state, ToolFailed)
    assert "Nobody can answer" in state.error


@pytest.mark.spec("A-04")
async def test_an_ask_that_waited_long_enough_is_denied(tmp_path: Path) -> None:
    script = {"go": [[call("write", filePath="a", content="x")], [say("Without.")]]}
    asks = AsksConfig(policy="deny", seconds=0.05)
    async with open_project(tmp_path, script, permission=ASK_EDITS, asks=asks) as at:
        answer = await at.prompt("go")
        (state,) = await at.states()
    assert answer.text == "Without."
    assert isinstance(state, ToolFailed)
    assert "Nobody answered in time" in state.error


@pytest.mark.spec("C-04")
@pytest.mark.parametrize(("goes_on", "steps"), [(False, 1), (True, 2)])
async def test_a_rejection_ends_the_turn_unless_configured_otherwise(
    tmp_path: Path, *, goes_on: bool, steps: int
) -> None:
    script = {"go": [[call("write", filePath="a", content="x")], [say("Without.")]]}
    experimental = {"continue_loop_on_deny": goes_on}
    async with open_project(tmp_path, script, permission=ASK_EDITS, experimental=experimental) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        settled = await at.runtime.answer(asked.request.id, "reject")
        await at.runtime.wait(at.session_id)
    assert isinstance(settled.state, Settled)
    assert isinstance(settled.state.result, Failed)
    assert settled.state.result.blocks is not goes_on
    assert len(at.model.requests) == steps


@pytest.mark.spec("A-08")
async def test_the_same_call_three_times_in_a_row_asks_over_several_steps(tmp_path: Path) -> None:
    step = [call("list")]
    async with open_project(tmp_path, {"go": [step, step, step, [say("Enough.")]]}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "reject")
        await at.runtime.wait(at.session_id)
        states = await at.states()
    assert asked.request.permission == "doom_loop"
    assert asked.request.patterns == ("list",)
    assert [type(state) for state in states] == [ToolCompleted, ToolCompleted, ToolFailed]


@pytest.mark.spec("A-08")
async def test_other_calls_in_between_are_no_doom_loop(tmp_path: Path) -> None:
    one, other = [call("list")], [call("todoread")]
    async with open_project(tmp_path, {"go": [one, one, other, one, one, other, [say("Done.")]]}) as at:
        answer = await at.prompt("go")
    assert answer.text == "Done."


@pytest.mark.spec("S-06")
async def test_the_last_step_is_reminded_and_its_calls_do_not_run(tmp_path: Path) -> None:
    step = [[call("write", filePath=f"{n}", content="x")] for n in range(3)]
    agent = {"build": AgentConfig(steps=2)}
    async with open_project(tmp_path, {"go": step}, agent=agent) as at:
        answer = await at.prompt("go")
        states = await at.states()
        entries = await at.messages()
    assert isinstance(answer.info, AssistantMessage)
    assert answer.info.finish == "max-steps"
    assert [type(state) for state in states] == [ToolCompleted, ToolFailed]
    assert not (tmp_path / "project" / "1").exists()
    reminder = at.request_messages()[-1]
    assert isinstance(reminder, UserTurn)
    assert "last step" in reminder.text
    prompt = entries[0].info.id
    assert {e.info.parent_id for e in entries if isinstance(e.info, AssistantMessage)} == {prompt}


@pytest.mark.spec("S-06")
async def test_reminders_mark_the_start_and_the_end_of_plan_mode(tmp_path: Path) -> None:
    script = {"one": [[say("Plan.")]], "two": [[say("Build.")]], "three": [[say("On.")]]}
    async with open_project(tmp_path, script) as at:
        await at.runtime.prompt(at.session_id, "one", agent="plan")
        await at.runtime.prompt(at.session_id, "two", agent="build")
        await at.runtime.prompt(at.session_id, "three")
        entries = await at.messages()
    said = [
        [part.text for part in entry.parts if isinstance(part, TextPart) and part.synthetic]
        for entry in entries
        if not isinstance(entry.info, AssistantMessage)
    ]
    assert ["Plan mode is on" in "".join(said[0]), "Plan mode is off" in "".join(said[1]), said[2]] == [
        True,
        True,
        [],
    ]


@pytest.mark.spec("S-06", "O-05")
async def test_unfinished_todos_are_mentioned_with_the_next_prompt(tmp_path: Path) -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b"}]
    script = {"one": [[call("todowrite", todos=todos)], [say("Later.")]], "two": [[say("On.")]]}
    async with open_project(tmp_path, script, todo_enforcer=0) as at:
        await at.prompt("one")
        await at.prompt("two")
    prompt = at.request_messages()[-1]
    assert isinstance(prompt, UserTurn)
    assert "has 1 unfinished" in prompt.text


@pytest.mark.spec("A-10")
async def test_a_prompt_for_a_removed_agent_fails_and_another_agent_answers(tmp_path: Path) -> None:
    script = {"go": [[say("Hello.")]], "again": [[say("Again.")]]}
    ada = {"ada": AgentConfig(description="A", prompt="You are Ada.")}
    async with open_project(tmp_path, script, agent=ada) as at:
        await at.runtime.prompt(at.session_id, "go", agent="ada")
        session_id = at.session_id
    assert at.model.requests[0].system.startswith("You are Ada.")
    plain = Config(data_dir=tmp_path / "data")
    async with open_stage(tmp_path / "data", script, coding=plain, directory=tmp_path / "project") as later:
        failed = await later.runtime.prompt(session_id, "again")
        fine = await later.runtime.prompt(session_id, "again", agent="build")
    assert isinstance(failed.info, AssistantMessage)
    assert "there is no agent 'ada'" in str(failed.info.error)
    assert fine.text == "Again."


@pytest.mark.spec("A-03")
async def test_a_child_may_do_no_more_than_its_parent(tmp_path: Path) -> None:
    script = {"plan": [[say("Ok.")]], "go": [[call("write", filePath="a", content="x")], [say("No.")]]}
    async with open_project(tmp_path, script) as at:
        await at.runtime.prompt(at.session_id, "plan", agent="plan")
        child = await at.runtime.create_session(parent_id=at.session_id, directory=tmp_path / "project")
        await at.runtime.prompt(child.id, "go", agent="build")
    assert "write" not in [tool.name for tool in at.model.requests[-1].tools]
    assert not (tmp_path / "project" / "a").exists()


@pytest.mark.spec("A-04")
async def test_an_ask_two_levels_down_is_listed_at_the_root_with_its_lineage(tmp_path: Path) -> None:
    script = {"go": [[call("write", filePath="a", content="x")], [say("Ok.")]]}
    async with open_project(tmp_path, script, permission=ASK_EDITS) as at:
        child = await at.runtime.create_session(parent_id=at.session_id, directory=tmp_path / "project")
        grandchild = await at.runtime.create_session(parent_id=child.id, directory=tmp_path / "project")
        await at.runtime.send(grandchild.id, "go")
        await at.listener.until(PermissionAsked)
        (waiting,) = await at.runtime.asks(at.session_id)
    assert [session.id for session in waiting.lineage] == [at.session_id, child.id, grandchild.id]
    assert waiting.call.session_id == grandchild.id


@pytest.mark.spec("A-07")
async def test_output_beyond_the_cap_is_saved_and_may_be_read(tmp_path: Path) -> None:
    long = "\n".join(f"line {n}" for n in range(30_000))
    script = {"go": [[call("bash", command="cat long.txt")], [say("Long.")]]}
    async with open_project(tmp_path, script, files={"long.txt": long}) as at:
        await at.prompt("go")
        (state,) = await at.states()
    assert isinstance(state, ToolCompleted)
    saved = Path(state.metadata["outputPath"])
    assert await asyncio.to_thread(saved.read_text) == long
    assert len(state.output) < 60_000
    assert str(saved) in state.output


@pytest.mark.spec("A-03", "A-05")
async def test_a_search_leaves_out_files_that_may_not_be_read(tmp_path: Path) -> None:
    rules = {"read": {"*": "allow", "private/*": "deny"}}
    files = {"a.txt": "the word\n", "private/b.txt": "the word\n", "c.env": "the word\n"}
    script = {"go": [[call("grep", pattern="the word")], [say("Found.")]]}
    async with open_project(tmp_path, script, files=files, permission=rules) as at:
        await at.prompt("go")
    (found,) = results(at)
    assert "a.txt" in found.output
    assert "private" not in found.output
    assert "1 files that may not be read unasked" in found.output


@pytest.mark.spec("S-02", "A-01")
async def test_a_long_first_prompt_gets_a_title_from_a_model(tmp_path: Path) -> None:
    script = {LONG_PROMPT: [[say('"Payment worker: no double charges"\n')]]}
    small = ModelRef(provider_id="scripted", model_id="small")
    async with open_project(tmp_path, script, small_model=small) as at:
        await at.prompt(LONG_PROMPT)
        updated = await at.listener.until(
            SessionUpdated, lambda event: event.info.title.startswith("Payment")
        )
        await at.prompt("And now?")
        session = await at.runtime.session(at.session_id)
    assert updated.info.title == session.title == "Payment worker: no double charges"
    asked = [request for request in at.model.requests if request.model == small]
    assert [request.messages for request in asked] == [(UserTurn(LONG_PROMPT),)]
    assert "title" in asked[0].system
    assert session.tokens is not None
    assert session.tokens.input == sum(len(request.messages) for request in at.model.requests)


@pytest.mark.spec("S-02")
@pytest.mark.parametrize("prompt", ["go", "What does this repository do?"])
async def test_a_prompt_that_fits_is_its_own_title(tmp_path: Path, prompt: str) -> None:
    async with open_project(tmp_path, {}) as at:
        await at.prompt(prompt)
        session = await at.runtime.session(at.session_id)
    assert session.title == prompt
    assert len(at.model.requests) == 1


@pytest.mark.spec("S-02")
@pytest.mark.parametrize("bad", [[fail("no")], [end(None)], [say("\n\n")], [pause(60), say("Late")]])
async def test_without_a_title_from_the_model_the_first_line_stays(
    tmp_path: Path, bad: list[ScriptLine]
) -> None:
    """The script knows the prompt of the title's request, which stands alone, and nothing of the other."""
    script = {LONG_PROMPT: [bad], "more": [[say("Yes.")]]}
    async with open_project(tmp_path, script, agent={"build": AgentConfig(steps=5)}) as at:
        await at.runtime.send(at.session_id, LONG_PROMPT)
        await wait_until(lambda: len(at.model.requests) >= 2)  # no event tells
        session = await at.runtime.session(at.session_id)
    assert session.title.startswith("Please look at the retry logic")


@pytest.mark.spec("A-10")
async def test_a_broken_configuration_fails_the_step_and_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "project"
    create_repository(root, {"asyncagents.json": "{"})
    async with open_stage(tmp_path / "data", {"go": [[say("Hello.")]]}, coding=True, directory=root) as at:
        failed = await at.prompt("go")
        (root / "asyncagents.json").write_text("{}")
        fine = await at.prompt("go")
        (root / "asyncagents.json").write_text("{")
        still = await at.prompt("go")
    assert isinstance(failed.info, AssistantMessage)
    assert "asyncagents.json" in str(failed.info.error)
    assert fine.text == "Hello."
    assert still.text == "Hello."


@pytest.mark.spec("A-10")
async def test_tools_fail_and_the_turn_goes_on_in_a_deleted_directory(tmp_path: Path) -> None:
    script = {"go": [[call("list"), call("bash", command="ls")], [say("Gone.")]]}
    async with open_project(tmp_path, script) as at:
        shutil.rmtree(tmp_path / "project")
        answer = await at.prompt("go")
        states = await at.states()
    assert answer.text == "Gone."
    assert all(isinstance(state, ToolFailed) for state in states)


@pytest.mark.spec("A-01", "A-03")
async def test_plan_asks_for_a_command_despite_a_stored_approval(tmp_path: Path) -> None:
    command = [call("bash", command="touch new.txt")]
    script = {"go": [command, [say("Ok.")]], "plan": [command, [say("Planned.")]]}
    async with open_project(tmp_path, script, permission={"bash": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        await at.runtime.send(at.session_id, "plan", agent="plan")
        again = await at.listener.until(PermissionAsked)
    assert again.request.patterns == ("touch new.txt",)


@pytest.mark.spec("Z-06", "A-04")
async def test_an_approval_of_an_unclear_command_covers_that_exact_line_only(tmp_path: Path) -> None:
    line, other = "echo \"$(echo '*')\" >> log", "echo \"$(echo 'x')\" >> log"
    script = {
        "go": [[call("bash", command=line)], [say("Ok.")]],
        "again": [[call("bash", command=line)], [say("Again.")]],
        "other": [[call("bash", command=other)], [say("Other.")]],
        "plan": [[call("bash", command=line)], [say("Planned.")]],
    }
    async with open_project(tmp_path, script) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        await at.prompt("again")
        approved = await at.runtime.approvals.list(tmp_path / "project")
        log = (tmp_path / "project" / "log").read_text()
        await at.runtime.send(at.session_id, "other")
        second = await at.listener.until(PermissionAsked)
        await at.runtime.answer(second.request.id, "reject", message="not this")
        await at.runtime.wait(at.session_id)
        await at.runtime.send(at.session_id, "plan", agent="plan")
        planned = await at.listener.until(PermissionAsked)
        await at.runtime.abort(at.session_id)
        withdrawn = await at.runtime.approvals.withdraw_all(tmp_path / "project", "bash")
    assert asked.request.always == (line,)
    assert asked.request.exact is True
    assert [(each.permission, each.pattern, each.exact) for each in approved] == [("bash", line, True)]
    assert log == "*\n*\n"
    assert second.request.metadata["command"] == other
    assert planned.request.metadata["command"] == line
    assert withdrawn == 1


@pytest.mark.spec("Z-06")
async def test_an_exact_approval_lifts_no_denial(tmp_path: Path) -> None:
    line = "echo $(date) > out"
    script = {word: [[call("bash", command=line)], [say("Ok.")]] for word in ("go", "again")}
    async with open_project(tmp_path, script) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        (tmp_path / "project" / "out").unlink()
        rules = [Rule(permission="unclear_command", pattern="*", action="deny")]
        other = await at.runtime.create_session(directory=tmp_path / "project", permission=rules)
        await at.runtime.prompt(other.id, "again")
    assert not (tmp_path / "project" / "out").exists()
