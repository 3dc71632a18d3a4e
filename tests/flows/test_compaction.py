"""A conversation that is too long for its model is summarised, and goes on."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents import Completed, Tool, ToolContext
from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.conversation.failure import ContextOverflowError, UnknownError
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef, UserMessage
from asyncagents.domain.conversation.part import CompactionPart, TextPart, ToolCompleted, ToolPart
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.event import SessionCompacted, SessionIdle
from asyncagents.domain.window import Window
from asyncagents.engine.model_input import CLEARED, SUMMARISED
from asyncagents.engine.step.compaction import EMPTY_SUMMARY, NOTHING_TO_SUMMARISE
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.llm.model import ChatRequest, ModelTurn, StepFinish, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptLine, call, fail, say
from asyncagents.testing.inside import inside
from tests.support.compaction import CompactionStage, open_compaction_stage, request_text
from tests.support.model import WindowModel, count_tokens, is_summary_request
from tests.support.runtime import EventListener, answer_of, open_runtime
from tests.support.tool import FIND_SUBTASK, GO_ON, TextArguments, build_pending_tool, build_task_tool
from tests.support.wait import PATIENCE

SMALL = Window(context=4_000, output=1_000)
LARGE = Window(context=200_000, output=64_000)
FULL = Tokens(input=199_000, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))
WORDS = "lorem ipsum dolor sit amet "


async def _much(args: TextArguments, context: ToolContext) -> Completed:
    return Completed(WORDS * int(args.text))


MUCH: Tool[TextArguments] = Tool("much", TextArguments, _much, effect="none")


def chatty(request: ChatRequest) -> Sequence[ScriptLine]:
    return [say("I see. " + WORDS * 10)]


@pytest.mark.spec("S-09", "S-10")
async def test_a_conversation_that_fills_its_window_is_summarised_before_the_next_step(
    tmp_path: Path,
) -> None:
    model = WindowModel(SMALL, chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        for number in range(12):
            await at.prompt(f"{number}: {WORDS * 40}")
        entries = await at.runtime.messages(at.session_id)

    assert model.refused == 0
    assert model.summaries
    wishes = [entry for entry in entries if any(isinstance(part, CompactionPart) for part in entry.parts)]
    summaries = [answer_of(entry) for entry in entries if getattr(entry.info, "summary", None)]
    assert len(wishes) == len(summaries) == len(model.summaries)
    assert all(info.agent == info.mode == "compaction" and info.finish == "stop" for info in summaries)
    assert [info.parent_id for info in summaries] == [entry.info.id for entry in wishes]
    assert all(info.parent_id < info.id for info in summaries)  # people read by id


@pytest.mark.spec("S-09")
async def test_the_tokens_of_a_history_are_not_counted_twice(tmp_path: Path) -> None:
    """What the last step is known to have read is the same as what stands before it."""
    model = WindowModel(Window(context=16_000, output=2_000), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        for number in range(7):
            await at.prompt(f"{number}: {WORDS * 220}")

    assert count_tokens(model.steps[-1]) < 12_000
    assert not model.summaries


@pytest.mark.spec("S-09")
async def test_a_step_that_reports_a_full_window_asks_for_a_summary_in_the_next_turn_only(
    tmp_path: Path,
) -> None:
    model = WindowModel(Window(context=1_000, output=100), lambda request: [say("x" * 3_600)])
    async with open_compaction_stage(tmp_path, model) as at:
        first = await at.prompt("write a lot")
        assert not model.summaries
        assert first.text == "x" * 3_600
        assert (await at.control()).compacting == -1
        await at.prompt("more")
        assert len(model.summaries) == 1


@pytest.mark.spec("S-10", "S-05")
async def test_a_turn_interrupted_by_a_summary_goes_on_with_the_last_prompt(tmp_path: Path) -> None:
    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        results = [told for told in request.messages if isinstance(told, ToolTurn)]
        if prompt_text("compaction-go-on") in request_text(request) and not results[1:]:
            return [say("All done.")]
        return [call("much", text="60")]

    model = WindowModel(SMALL, work)
    async with open_compaction_stage(tmp_path, model, MUCH) as at:
        answer = await at.prompt("read everything")
        control = await at.control()

    assert answer.text == "All done."
    assert model.refused == 0
    last = model.steps[-1]
    assert isinstance(last.messages[0], UserTurn)
    assert last.messages[0].text.startswith(SUMMARISED)
    assert "Summary of" in last.messages[0].text
    assert "read everything" in request_text(last), "what was asked last is never lost"
    assert request_text(last).endswith(prompt_text("compaction-go-on"))
    assert control.compacting == 0
    assert control.summary > 0


async def test_the_newest_messages_are_kept_as_they_are(tmp_path: Path) -> None:
    model = WindowModel(Window(context=16_000, output=2_000), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        for number in range(8):
            await at.prompt(f"prompt {number} {WORDS * 40}")
        await at.compact()
        await at.prompt("and now?")

    after = model.steps[-1]
    said = [told for told in after.messages if isinstance(told, UserTurn)]
    assert said[0].text.startswith(SUMMARISED)
    assert said[1].text.startswith("prompt ")
    assert not said[1].text.startswith("prompt 0")
    assert "prompt 7" in request_text(after)
    assert any(isinstance(told, ModelTurn) for told in after.messages)
    assert count_tokens(after) < count_tokens(model.steps[-2])


@pytest.mark.spec("S-08", "S-10")
async def test_a_requested_summary_is_made_and_the_session_rests(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at, at.runtime.events(at.session_id) as events:
        await at.prompt("hello")
        requests = len(model.requests)
        answer = await at.compact("the names of files")
        heard = [await anext(events) for _ in range(1)]
        while not isinstance(heard[-1], SessionCompacted):
            heard.append(await anext(events))

    assert answer.text.startswith("Summary of")
    assert answer_of(answer).summary is True
    assert len(model.requests) == requests + 1, "nobody goes on with anything"
    assert "the names of files" in request_text(model.requests[-1])


async def test_a_summary_includes_the_one_before_it(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty, summary=lambda request: [say("The key is under the mat.")])
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        await at.compact()
        await at.prompt("again")
        await at.compact()
        await at.prompt("where is the key?")

    first, second = model.summaries
    assert "under the mat" not in request_text(first)
    assert "under the mat" in request_text(second)
    assert request_text(model.steps[-1]).count("under the mat") == 1


async def test_a_second_summary_includes_the_start_of_a_first_one_in_chinese(tmp_path: Path) -> None:
    """Nothing was said in between, and nobody knows how much the model can read: as much as it has read."""
    words = "摘要" * 2_000
    model = WindowModel(Window(), chatty, summary=lambda request: [say(words)])
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        await at.compact()
        again = await at.compact()

    assert answer_of(again).error is None
    assert words[:800] in request_text(model.summaries[-1])


async def test_unread_prompts_are_kept_whole_beside_a_summary(tmp_path: Path) -> None:
    """Whoever sends a long text to a session that is almost full wants it read, not summarised."""
    model = WindowModel(Window(context=16_000, output=2_000), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        for number in range(6):
            await at.prompt(f"{number}: {WORDS * 220}")
        await at.runtime.send(at.session_id, f"{WORDS * 150} xyzzy {WORDS * 150}", wakes=False)
        await at.prompt(f"{WORDS * 300} plugh {WORDS * 300}")

    assert len(model.summaries) == 1
    assert model.refused == 0
    assert "xyzzy" in request_text(model.steps[-1])
    assert "plugh" in request_text(model.steps[-1])


async def test_an_unread_prompt_is_kept_beside_a_summary_if_the_window_is_unknown(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        wish = inside(at.runtime).inputs.build_compaction(at.session_id, key=None, options={})
        await inside(at.runtime).store.admit(replace(wish, wakes=False))
        await at.prompt(f"{WORDS * 300} xyzzy {WORDS * 300}")

    assert len(model.summaries) == 1
    assert "xyzzy" in request_text(model.steps[-1])


async def test_a_prompt_queued_with_a_summary_request_is_answered_after_it(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        fact = inside(at.runtime).inputs.build_compaction(at.session_id, key=None, options={})
        held = await at.runtime.send(at.session_id, "and this", wakes=False)
        answer = at.runtime._answer_waiters.expect(at.session_id, held)
        await inside(at.runtime).store.admit(fact)
        async with asyncio.timeout(PATIENCE):
            answered = await inside(at.runtime).store.message(await answer)

    assert answered.text.startswith("I see.")
    assert "and this" in request_text(model.steps[-1])


async def test_the_result_of_a_subtask_precedes_the_go_on_message_after_a_summary(tmp_path: Path) -> None:
    """A person began it, and asked for a summary at the same time."""
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model, build_task_tool([])) as at:
        await at.prompt("hello")
        wish = inside(at.runtime).inputs.build_compaction(at.session_id, key=None, options={})
        await inside(at.runtime).store.admit(replace(wish, wakes=False))
        async with asyncio.timeout(PATIENCE):
            await at.runtime.prompt(at.session_id, "find it", parts=[FIND_SUBTASK])

    assert len(model.summaries) == 1
    told = model.steps[-1].messages
    (result,) = [place for place, each in enumerate(told) if isinstance(each, ToolTurn)]
    (go_on,) = [p for p, each in enumerate(told) if isinstance(each, UserTurn) and GO_ON in each.text]
    assert result < go_on


async def test_instructions_of_summary_requests_are_used_once(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        wish = inside(at.runtime).inputs.build_compaction(
            at.session_id, "the names of files", key=None, options={}
        )
        await inside(at.runtime).store.admit(replace(wish, wakes=False))
        await at.compact("the dates")
        await at.prompt("again")
        await at.compact("the places")

    first, second = map(request_text, model.summaries)
    assert "the names of files\nthe dates" in first
    assert "the places" in second
    assert "the names of files" not in second
    assert "the dates" not in second


async def test_a_prompt_queued_with_many_summary_requests_is_answered(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        held = await at.runtime.send(at.session_id, "and this", wakes=False)
        answer = at.runtime._answer_waiters.expect(at.session_id, held)
        wishes = [
            inside(at.runtime).inputs.build_compaction(at.session_id, key=None, options={}) for _ in range(12)
        ]
        for number, wish in enumerate(wishes, 1):
            await inside(at.runtime).store.admit(replace(wish, wakes=number == len(wishes)))
        async with asyncio.timeout(PATIENCE):
            answered = await inside(at.runtime).store.message(await answer)

    assert answered.text.startswith("I see.")
    assert len(model.summaries) == 1


@pytest.mark.spec("S-09")
async def test_a_request_refused_as_too_long_is_tried_again_after_a_summary(tmp_path: Path) -> None:
    """Nobody told how much it can read."""
    model = WindowModel(SMALL, chatty, tells=False)
    async with open_compaction_stage(tmp_path, model) as at:
        answers = [await at.prompt(f"{number}: {WORDS * 60}") for number in range(12)]
        entries = await at.runtime.messages(at.session_id)

    assert model.refused > 0
    assert len(model.summaries) == model.refused
    assert all(answer_of(answer).error is None for answer in answers)
    assert all(answer.text.startswith("I see.") for answer in answers)
    refused = [e for e in entries if isinstance(getattr(e.info, "error", None), ContextOverflowError)]
    assert len(refused) == model.refused, "people can see what happened"


async def test_a_prompt_that_is_too_long_by_itself_is_an_error_and_no_endless_summary(tmp_path: Path) -> None:
    model = WindowModel(SMALL, chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        answer = await at.prompt(WORDS * 1_000)
        assert isinstance(answer_of(answer).error, ContextOverflowError)
        assert len(model.requests) == 1
        await at.prompt(WORDS * 1_000)

    assert len(model.summaries) == 1, "of what was too long before"
    assert len(model.requests) == 3


async def test_a_session_recovers_if_the_model_reads_less_than_it_declares(tmp_path: Path) -> None:
    """What is said of the model is wrong: it reads an eighth of that."""

    class Boaster(WindowModel):
        def window(self, model: ModelRef) -> Window:
            return Window(context=32_000, output=4_000)

    model = Boaster(SMALL, chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        answers = [await at.prompt(f"{number}: {WORDS * 60}") for number in range(30)]

    failed = [answer for answer in answers if answer_of(answer).error is not None]
    assert 1 <= len(failed) <= 4
    assert answers[-1].text.startswith("I see.")


async def test_tools_that_fill_the_window_by_themselves_do_not_cost_a_summary_for_every_step(
    tmp_path: Path,
) -> None:
    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        return [call("much", text=f"{len(model.steps)}")] if len(model.steps) < 20 else [say("done")]

    bulky = [Tool(f"tool{n}", TextArguments, _much, effect="none", description="x" * 400) for n in range(35)]
    model = WindowModel(SMALL, work)  # of its 3,000 tokens the tools take some 4,000
    async with open_compaction_stage(tmp_path, model, MUCH, *bulky) as at:
        answer = await at.prompt("go")

    assert answer.text == "done"
    assert len(model.steps) == 20
    assert len(model.summaries) <= 5


@pytest.mark.parametrize("tells", [True, False])
async def test_a_prompt_that_was_too_long_does_not_end_the_session(tmp_path: Path, *, tells: bool) -> None:
    model = WindowModel(SMALL, chatty, tells=tells)
    async with open_compaction_stage(tmp_path, model) as at:
        refused = await at.prompt(WORDS * 1_000)
        answer = await at.prompt("something short")
        await at.prompt("something else")
        control = await at.control()

    assert isinstance(answer_of(refused).error, ContextOverflowError)
    assert answer_of(answer).error is None
    assert "something short" in request_text(model.steps[-1])
    assert len(model.summaries) == 1
    assert control.compacting == 0


@pytest.mark.parametrize(
    ("line", "kind"), [(fail("no"), "APIError"), (say(""), "UnknownError")], ids=["refused", "silent"]
)
async def test_a_summary_that_fails_ends_the_turn_with_its_error_and_loses_nothing(
    tmp_path: Path, line: ScriptLine, kind: str
) -> None:
    model = WindowModel(Window(), chatty, summary=lambda request: [line])
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("remember the milk")
        answer = await at.compact()
        error = answer_of(answer).error
        assert type(error).__name__ == kind
        assert not isinstance(error, UnknownError) or error.data.message == EMPTY_SUMMARY
        again = await at.prompt("what was it?")

    assert again.text.startswith("I see.")
    assert request_text(model.requests[-1]) == "remember the milk\nwhat was it?"


async def test_there_is_nothing_to_summarise_in_an_empty_session(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        answer = await at.compact()

    error = answer_of(answer).error
    assert isinstance(error, UnknownError)
    assert error.data.message == NOTHING_TO_SUMMARISE
    assert not model.requests


@pytest.mark.spec("S-10")
async def test_a_pending_call_is_not_forgotten_by_a_summary(tmp_path: Path) -> None:
    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        return [call("job")] if request_text(request) == "start the job" else [say("ok")]

    model = WindowModel(Window(), work)
    async with open_compaction_stage(tmp_path, model, build_pending_tool("job")) as at:
        await at.prompt("start the job")
        (pending,) = await at.runtime.open_calls(at.session_id)
        await at.compact()
        await at.prompt("anything new?")
        before = model.steps[-1]
        await at.runtime.complete(pending.id, "42")
        await at.runtime.wait(at.session_id)
        (entry,) = [
            e for e in await at.runtime.messages(at.session_id) for p in e.parts if isinstance(p, ToolPart)
        ]

    assert f"- {pending.call_id}: job" in request_text(before)
    assert f"The pending call {pending.call_id} (job) has completed:\n\n42" in request_text(model.steps[-1])
    assert list(model.steps[-1].messages[: len(before.messages)]) == list(before.messages)
    (part,) = [part for part in entry.parts if isinstance(part, ToolPart)]
    assert isinstance(part.state, ToolCompleted)


async def test_a_runtime_that_comes_later_reads_on_from_the_summary(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        session_id = at.session_id
        await at.prompt("a secret word: xyzzy " + WORDS * 500)
        await at.prompt("hello")
        await at.compact()
        await at.prompt("one")
        before = model.steps[-1]
    async with open_runtime(tmp_path, model=model) as runtime:
        await runtime.prompt(session_id, "two")

    after = model.steps[-1]
    assert list(after.messages[: len(before.messages)]) == list(before.messages)
    assert "xyzzy" not in request_text(after)


@pytest.mark.spec("S-13")
async def test_a_summary_of_a_parent_leaves_its_child_alone(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        child = await at.runtime.create_session(parent_id=at.session_id, directory=tmp_path)
        await at.runtime.prompt(child.id, "I am the child")
        await at.prompt("I am the parent")
        before = await at.runtime.messages(child.id)
        await at.compact()
        assert await at.runtime.messages(child.id) == before
        await at.runtime.prompt(child.id, "still here")
        assert request_text(model.steps[-1]) == "I am the child\nstill here"
        parent = await at.runtime.messages(at.session_id)
        fact = inside(at.runtime).inputs.build_compaction(child.id, key=None, options={})
        await inside(at.runtime).store.admit(fact)
        await at.runtime.wait(child.id)
        assert await at.runtime.messages(at.session_id) == parent


@pytest.mark.spec("S-11")
async def test_old_output_is_left_out_when_there_is_enough_of_it(tmp_path: Path) -> None:
    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        last = request.messages[-1]
        return [call("much", text="1600")] if isinstance(last, UserTurn) else [say("ok")]

    model = WindowModel(Window(), work)  # each output takes some 10,800 tokens
    async with open_compaction_stage(tmp_path, model, MUCH) as at:
        for number in range(9):
            await at.prompt(f"read {number}")
        entries = await at.runtime.messages(at.session_id)

    parts = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    states = [part.state for part in parts]
    assert all(isinstance(state, ToolCompleted) and state.output == WORDS * 1_600 for state in states)
    left_out = [isinstance(state, ToolCompleted) and state.time.compacted is not None for state in states]
    assert left_out == sorted(left_out, reverse=True), "the oldest, and no other"
    assert 2 <= sum(left_out) <= 6
    results = [told for told in model.steps[-1].messages if isinstance(told, ToolTurn)]
    told = [result.output == CLEARED for result in results]
    assert 2 <= sum(told) <= sum(left_out)
    assert told == sorted(told, reverse=True)


@pytest.mark.spec("S-11")
async def test_output_of_a_protected_tool_is_not_pruned(tmp_path: Path) -> None:
    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        last = request.messages[-1]
        return [call("skill", text="1600")] if isinstance(last, UserTurn) else [say("ok")]

    model = WindowModel(Window(), work)
    async with open_compaction_stage(
        tmp_path, model, Tool("skill", TextArguments, _much, effect="none")
    ) as at:
        for number in range(9):
            await at.prompt(f"read {number}")
        entries = await at.runtime.messages(at.session_id)

    states = [p.state for entry in entries for p in entry.parts if isinstance(p, ToolPart)]
    assert [state.time.compacted for state in states if isinstance(state, ToolCompleted)] == [None] * 9


async def test_an_abort_ends_a_summary_and_the_next_prompt_is_answered(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Slow(WindowModel):
        async def stream(self, request: ChatRequest) -> Any:
            if is_summary_request(request):
                begun.set()
                await asyncio.sleep(3_600)
            async for event in super().stream(request):
                yield event

    model = Slow(Window(), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        await at.prompt("hello")
        wish = asyncio.ensure_future(at.compact())
        await begun.wait()
        assert await at.runtime.abort(at.session_id)
        aborted = await wish
        assert type(answer_of(aborted).error).__name__ == "MessageAbortedError"
        assert (await at.control()).compacting == 0
        answer = await at.prompt("still there?")

    assert answer.text.startswith("I see.")


async def test_a_compaction_part_shows_its_cause_and_the_start_of_the_tail(tmp_path: Path) -> None:
    model = WindowModel(Window(context=16_000, output=2_000), chatty)
    async with open_compaction_stage(tmp_path, model) as at:
        for number in range(8):
            await at.prompt(f"prompt {number} {WORDS * 40}")
        await at.compact()
        entries = await at.runtime.messages(at.session_id)

    (wish,) = [part for entry in entries for part in entry.parts if isinstance(part, CompactionPart)]
    assert not wish.auto
    kept = [entry.info for entry in entries if entry.info.id == wish.tail_start_id]
    assert len(kept) == 1
    assert isinstance(kept[0], UserMessage | AssistantMessage)
    notes = [p for e in entries for p in e.parts if isinstance(p, TextPart) and p.synthetic]
    assert not notes, "nothing was open"


async def test_a_summary_by_a_larger_model_fits_the_window_of_the_agents_model(tmp_path: Path) -> None:
    class Pair(WindowModel):
        def window(self, model: ModelRef) -> Window:
            return LARGE if model.model_id == "large" else super().window(model)

    def at_length(request: ChatRequest) -> Sequence[ScriptLine]:
        assert request.options.max_output is not None
        return [say("x" * request.options.max_output * 4)]

    model = Pair(Window(context=16_000, output=2_000), chatty, summary=at_length)
    large = ModelRef(provider_id="scripted", model_id="large")
    config = Config(data_dir=tmp_path, agent={"compaction": AgentConfig(model=large)})
    async with open_runtime(tmp_path, model=model, coding=config) as runtime, asyncio.timeout(PATIENCE):
        session = await runtime.create_session(directory=tmp_path)
        for number in range(12):
            answer = await runtime.prompt(session.id, f"{number}: {WORDS * 220}")
            assert answer.text.startswith("I see.")

    assert {request.model.model_id for request in model.summaries} == {"large"}
    assert model.refused == 0


@pytest.mark.spec("S-06")
async def test_the_agent_switch_reminder_is_sent_after_a_summary(tmp_path: Path) -> None:
    model = WindowModel(Window(), chatty)
    async with open_runtime(tmp_path, model=model, coding=True) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        at = CompactionStage(runtime, session.id, model)
        async with asyncio.timeout(PATIENCE):
            await runtime.prompt(session.id, "make a plan", agent="plan")
            await at.compact()
            await runtime.prompt(session.id, "do it", agent="build")

    assert prompt_text("build-switch").strip() in request_text(model.steps[-1])


@pytest.mark.spec("S-06")
async def test_the_step_limit_reminder_is_sent_after_a_summary_too(tmp_path: Path) -> None:
    """The window is full just before it."""

    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        return [say("done")] if len(model.steps) == 3 else [call("much", text=f"{len(model.steps)}")]

    class Filling(WindowModel):
        async def stream(self, request: ChatRequest) -> Any:
            async for event in super().stream(request):
                full = (
                    isinstance(event, StepFinish) and len(self.steps) == 2 and not is_summary_request(request)
                )
                yield replace(event, tokens=Tokens.zero().plus(FULL)) if full else event

    model = Filling(LARGE, work)
    config = Config(data_dir=tmp_path, agent={"build": AgentConfig(steps=3)})
    async with open_runtime(tmp_path, model=model, coding=config, tools=[MUCH]) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        async with asyncio.timeout(PATIENCE):
            answer = await runtime.prompt(session.id, "work")

    assert answer.text == "done"
    assert len(model.summaries) == 1
    assert prompt_text("max-steps").strip() in request_text(model.steps[-1])


class Wordy(TextArguments, frozen=True):
    __doc__ = WORDS * 40


@pytest.mark.spec("S-09", "S-10")
async def test_no_summary_is_made_if_the_tools_leave_no_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would have to be made before every step, and each would begin with as little room as the last."""

    async def _nothing(args: Wordy, context: ToolContext) -> Completed:
        return Completed("done")

    def work(request: ChatRequest) -> Sequence[ScriptLine]:
        results = [told for told in request.messages if isinstance(told, ToolTurn)]
        return [say("Done.")] if len(results) == 3 else [call("nothing", text=f"{len(results)}")]

    model = WindowModel(Window(context=400, output=100), work)
    async with open_compaction_stage(tmp_path, model, Tool("nothing", Wordy, _nothing, effect="none")) as at:
        answer = await at.prompt("work")

    assert answer.text == "Done."
    assert len(model.steps) == 4
    assert model.summaries == []
    (warned,) = [record.getMessage() for record in caplog.records if "has room for" in record.getMessage()]
    assert "has room for 300 tokens" in warned


@pytest.mark.spec("S-09", "S-10")
async def test_a_turn_ends_if_the_provider_refuses_even_the_shortest_request(tmp_path: Path) -> None:
    model = WindowModel(Window(context=10, output=2), chatty, tells=False)
    async with open_compaction_stage(tmp_path, model, MUCH) as at:
        answer = await at.prompt("hello")

    assert isinstance(answer_of(answer).error, ContextOverflowError)
    assert len(model.requests) <= 2


@pytest.mark.spec("P-04")
async def test_the_tokens_of_a_late_result_are_not_counted_twice(tmp_path: Path) -> None:
    """Weighed at its call as well it seems too much, and the model reads a digest in its place."""

    def answer(request: ChatRequest) -> Sequence[ScriptLine]:
        return [call("deploy")] if request.messages[-1] == UserTurn("ship") else [say("I see.")]

    model = WindowModel(Window(context=32_000, output=8_000), answer)
    async with (
        open_compaction_stage(tmp_path, model, build_pending_tool("deploy")) as at,
        asyncio.timeout(PATIENCE),
    ):
        with inside(at.runtime).bus.subscribe() as subscription:
            await at.prompt("ship")
            (waiting,) = await at.runtime.async_tools.waiting_calls()
            await at.prompt("and?")  # from here on it is shown as pending
            await at.runtime.async_tools.submit_result(waiting.id, "word " * 12_000)
            await EventListener(subscription).until(SessionIdle)
            await at.prompt("so?")

    assert model.summaries == []
    assert "word " * 12_000 in request_text(model.steps[-1])
