"""A step as it streams in: what each event does, how a step ends, and that nothing stays half open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import (
    ABORTED,
    BROKEN_INPUT,
    NEVER_RAN,
    Call,
    Failed,
    Requested,
    Settled,
    render,
)
from asyncagents.domain.conversation.failure import (
    APIError,
    ContentFilterError,
    Failure,
    MessageAbortedError,
    MessageOutputLengthError,
    UnknownError,
    api_error,
    unknown_error,
)
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    ReasoningPart,
    StepFinishPart,
    TextPart,
    ToolPart,
    ToolPending,
)
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import Ids, PartId, RequestId
from asyncagents.domain.step import StepEnd
from asyncagents.engine.step.draft import Draft, DraftChange, NewPart
from asyncagents.engine.step.text_buffer import NewText
from asyncagents.llm.model import (
    Finish,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StepStart,
    StreamError,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.domain.state import SESSION, step

MESSAGE = step()
SPENT = Tokens(input=9, output=4, reasoning=1, cache=CacheTokens(read=2, write=3), total=19)


def draft() -> Draft:
    return Draft(MESSAGE, RequestId("req_1"), Ids(FakeClock(), SeededRng(1)), turn=3)


def take(into: Draft, *events: ModelEvent, now: int = 100) -> list[DraftChange]:
    return [into.apply_event(event, now) for event in events]


def ended(*events: ModelEvent) -> StepEnd:
    made = draft()
    take(made, *events)
    return made.end(200, {"read": "none"})


def new_part(change: DraftChange) -> Part:
    assert isinstance(change, NewPart)
    return change.part


def address(part: Part) -> tuple[str, str]:
    return part.session_id, part.message_id


# What each event does.


@pytest.mark.spec("C-02")
def test_start_and_finish_events_of_a_stream_change_no_part() -> None:
    assert take(draft(), StreamStart(), StepStart(), StepFinish("stop"), StreamFinish()) == [None] * 4


@pytest.mark.spec("C-02", "S-03")
def test_a_text_opens_grows_at_its_offsets_and_closes_trimmed() -> None:
    made = draft()
    opened, *changes = take(made, TextStart("t"), TextDelta("t", "Hel"), TextDelta("t", "lo \n"))
    part = new_part(opened)
    assert part == TextPart(
        id=part.id, session_id=SESSION, message_id=MESSAGE.id, text="", time=PartTime(start=100)
    )
    assert changes == [NewText(part.id, "Hel", 0), NewText(part.id, "lo \n", 3)]
    (closed,) = take(made, TextEnd("t"), now=150)
    assert new_part(closed) == TextPart(
        id=part.id,
        session_id=SESSION,
        message_id=MESSAGE.id,
        text="Hello",
        time=PartTime(start=100, end=150),
    )
    assert made.take_unsaved_parts() == ()


@pytest.mark.spec("C-02")
def test_reasoning_keeps_its_spaces_and_the_providers_metadata() -> None:
    made = draft()
    opened, grown, closed = take(
        made, ReasoningStart("r"), ReasoningDelta("r", "Hm. "), ReasoningEnd("r", {"signature": "s"})
    )
    part = new_part(opened)
    assert isinstance(part, ReasoningPart)
    assert address(part) == (SESSION, MESSAGE.id)
    assert grown == NewText(part.id, "Hm. ", 0)
    saved = new_part(closed)
    assert isinstance(saved, ReasoningPart)
    assert saved.id == part.id
    assert saved.text == "Hm. "
    assert saved.metadata == {"signature": "s"}


@pytest.mark.spec("C-02")
def test_an_empty_delta_is_no_change() -> None:
    assert take(draft(), TextStart("t"), TextDelta("t", ""))[1] is None


@pytest.mark.spec("C-02")
def test_a_call_is_shown_when_the_model_begins_to_write_it_and_once() -> None:
    begun, ready = take(draft(), ToolCallStart("c", "read"), ToolCallReady("c", "read", {"path": "a"}))
    part = new_part(begun)
    assert part == ToolPart(
        id=part.id,
        session_id=SESSION,
        message_id=MESSAGE.id,
        call_id="c",
        tool="read",
        state=ToolPending(input={}, raw=""),
    )
    assert ready is None


@pytest.mark.spec("C-02")
def test_a_call_that_comes_without_its_beginning_is_shown_too() -> None:
    (ready,) = take(draft(), ToolCallReady("c", "read", {}))
    assert isinstance(new_part(ready), ToolPart)


@pytest.mark.spec("C-02")
def test_a_finished_step_reports_its_tokens_and_cost() -> None:
    end = ended(TextStart("t"), TextDelta("t", "Hi"), StepFinish("stop", SPENT, 0.25))
    assert end.request_id == "req_1"
    assert end.tokens == SPENT
    assert end.message.finish == "stop"
    assert end.message.error is None
    assert end.message.tokens == SPENT
    assert end.message.cost == 0.25
    assert end.message.time.completed == 200
    text, finish = end.parts
    assert isinstance(text, TextPart)
    assert finish == StepFinishPart(
        id=finish.id, session_id=SESSION, message_id=MESSAGE.id, reason="stop", cost=0.25, tokens=SPENT
    )


@pytest.mark.spec("C-02")
def test_usage_that_was_not_reported_is_unknown_not_zero() -> None:
    assert ended(StepFinish("stop")).tokens is None


def test_parts_sort_in_the_order_in_which_they_came() -> None:
    made = draft()
    changes = take(
        made, ReasoningStart("r"), ToolCallStart("c", "read"), TextStart("t"), ToolCallReady("d", "read", {})
    )
    shown = [new_part(change).id for change in changes]
    finish = made.end(200, {}).parts[-1].id
    assert [*shown, finish] == sorted([*shown, finish])


def test_unsaved_parts_are_returned_once() -> None:
    made = draft()
    take(made, TextStart("t"))
    assert made.take_unsaved_parts() == ()
    take(made, TextDelta("t", "a"), TextDelta("t", "b"))
    (saved,) = made.take_unsaved_parts()
    assert isinstance(saved, TextPart)
    assert saved.text == "ab"
    assert saved.time == PartTime(start=100)
    assert made.take_unsaved_parts() == ()


def test_an_id_that_the_provider_uses_again_opens_a_part_of_its_own() -> None:
    end = ended(
        *(ReasoningStart("0"), ReasoningDelta("0", "Hm"), TextStart("0"), ReasoningDelta("0", "m.")),
        *(TextDelta("0", "Yes"), TextStart("0"), TextDelta("0", "No"), StepFinish("stop")),
    )
    texts = [part.text for part in end.parts if isinstance(part, TextPart | ReasoningPart)]
    assert texts == ["Hmm.", "Yes", "No"]


def test_a_call_that_begins_twice_is_one_call() -> None:
    made = draft()
    changes = take(made, ToolCallStart("c", "read"), ToolCallStart("c", "read"))
    assert changes[1] is None
    assert len(made.end(200, {}).calls) == 1


# How a step ends.

WHOLE = (ToolCallStart("c", "read"), ToolCallReady("c", "read", {"path": "a"}))
HALF = (ToolCallStart("h", "read"),)
RUNS, NEVER, GAVE_UP = Requested(), Settled(Failed(NEVER_RAN), 200), Settled(Failed(ABORTED), 200)
BROKEN = Settled(Failed(BROKEN_INPUT), 200)


class Ending(Struct, frozen=True):
    given: tuple[ModelEvent, ...]
    finish: str | None
    error: type[Failure] | None = None
    calls: tuple[Any, ...] = ()


TEXT = (TextStart("t"), TextDelta("t", "Half"))
EMPTY = (TextStart("t"), TextDelta("t", " \n"))
THOUGHTS = (ReasoningStart("r"), ReasoningDelta("r", "Hm"))
ENDINGS = {
    "stop": Ending((StepFinish("stop"),), "stop"),
    "stop with a call": Ending((*WHOLE, StepFinish("stop")), "tool-calls", None, (RUNS,)),
    "stop with half a call": Ending((*HALF, StepFinish("stop")), "stop", None, (NEVER,)),
    "tool-calls": Ending((*WHOLE, StepFinish("tool-calls")), "tool-calls", None, (RUNS,)),
    "tool-calls without a call": Ending((StepFinish("tool-calls"),), "stop"),
    "tool-calls with half a call": Ending((*HALF, StepFinish("tool-calls")), "tool-calls", None, (BROKEN,)),
    "tool-calls, one of them half": Ending(
        (*WHOLE, *HALF, StepFinish("tool-calls")), "tool-calls", None, (RUNS, BROKEN)
    ),
    "length": Ending((*TEXT, StepFinish("length")), "length"),
    "length without a word": Ending((StepFinish("length"),), "length", MessageOutputLengthError),
    "length with an empty text": Ending((*EMPTY, StepFinish("length")), "length", MessageOutputLengthError),
    "length with thoughts": Ending((*THOUGHTS, StepFinish("length")), "length", MessageOutputLengthError),
    "length with a call": Ending((*WHOLE, StepFinish("length")), "length", None, (NEVER,)),
    "content-filter": Ending(
        (*WHOLE, StepFinish("content-filter")), "content-filter", ContentFilterError, (NEVER,)
    ),
    "error": Ending((*WHOLE, StepFinish("error")), "error", APIError, (NEVER,)),
    "unknown": Ending((*WHOLE, StepFinish("unknown")), "unknown", APIError, (NEVER,)),
    "cut off": Ending((*WHOLE, *HALF), "unknown", APIError, (NEVER, NEVER)),
    "cut off at once": Ending((), "unknown", APIError),
    "an error event": Ending(
        (*WHOLE, StreamError(api_error("overloaded", is_retryable=False))), "error", APIError, (NEVER,)
    ),
    "an error event after the finish": Ending(
        (*WHOLE, StepFinish("stop"), StreamError(unknown_error("late"))), "error", UnknownError, (NEVER,)
    ),
}


@pytest.mark.spec("C-01")
@pytest.mark.parametrize("name", ENDINGS)
def test_a_step_ends_according_to_its_events(name: str) -> None:
    ending = ENDINGS[name]
    end = ended(*ending.given)
    assert end.message.finish == ending.finish
    assert (type(end.message.error) if end.message.error else None) is ending.error
    assert tuple(call.state for call in end.calls) == ending.calls
    assert [p.reason for p in end.parts if isinstance(p, StepFinishPart)] == [ending.finish]


@pytest.mark.spec("C-01")
def test_the_providers_own_error_is_kept() -> None:
    failure = api_error("overloaded", is_retryable=True, status_code=529)
    assert ended(StreamError(failure)).message.error == failure


@pytest.mark.spec("C-10")
@pytest.mark.parametrize("before", [(), WHOLE, (*WHOLE, *HALF), (*WHOLE, StepFinish("tool-calls"))])
def test_an_aborted_step_has_an_aborted_error_and_no_finish(before: tuple[ModelEvent, ...]) -> None:
    made = draft()
    take(made, *before)
    made.abort()
    end = made.end(200, {})
    assert end.message.finish is None
    assert end.message.time.completed == 200
    assert isinstance(end.message.error, MessageAbortedError)
    assert {type(part) for part in end.parts} <= {TextPart, ReasoningPart}
    assert all(call.state == GAVE_UP for call in end.calls)


@pytest.mark.spec("C-01")
def test_a_call_has_its_turn_its_input_and_its_effect() -> None:
    end = ended(*WHOLE, ToolCallReady("d", "write", {"path": "b"}), StepFinish("tool-calls"))
    read, write = end.calls
    assert read.call_id == "c"
    assert read.tool == "read"
    assert read.input == {"path": "a"}
    assert read.effect == "none"
    assert write.call_id == "d"
    assert write.tool == "write"
    assert write.input == {"path": "b"}
    assert write.effect == "once"
    assert {(call.turn, call.created, call.message_id) for call in end.calls} == {(3, 200, MESSAGE.id)}


# Whatever comes, nothing stays half open.


class Kept:
    """What the store and a listener have of a step."""

    def __init__(self) -> None:
        self.draft = draft()
        self.parts: dict[PartId, Part] = {}
        self.heard: dict[PartId, str] = {}

    def play(self, event: ModelEvent | None) -> None:
        """None: the flush that comes once a second."""
        match self.draft.apply_event(event, 100) if event is not None else None:
            case NewPart(part):
                self.parts[part.id] = part
                self.heard.setdefault(part.id, "")
            case NewText(part_id, text, offset):
                assert offset == len(self.heard[part_id])
                self.heard[part_id] += text
            case None:
                self.keep(self.draft.take_unsaved_parts() if event is None else ())

    def keep(self, parts: tuple[Part, ...]) -> None:
        self.parts.update({part.id: part for part in parts})

    def end(self) -> tuple[Call, ...]:
        end = self.draft.end(200, {})
        self.keep(end.parts)
        self.keep(tuple(render(call) for call in end.calls))
        return end.calls


@st.composite
def streams(draw: st.DrawFn) -> list[ModelEvent | None]:
    """Events in any order, except that a text grows between its start and its end."""
    keys = st.sampled_from(["0", "1"])
    started: set[tuple[type, str]] = set()
    events: list[ModelEvent | None] = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=25)):
        key = draw(keys)
        if kind in {TextStart, ReasoningStart}:
            started.add((FAMILY[kind], key))
        elif kind in FAMILY and (FAMILY[kind], key) not in started:
            continue
        elif kind in {TextEnd, ReasoningEnd}:
            started.remove((FAMILY[kind], key))
        events.append(_event(kind, key, draw(st.text("ab \n", max_size=3))))
    return events


FAMILY: dict[Any, type] = {
    TextStart: TextPart,
    TextDelta: TextPart,
    TextEnd: TextPart,
    ReasoningStart: ReasoningPart,
    ReasoningDelta: ReasoningPart,
    ReasoningEnd: ReasoningPart,
}
KINDS: list[Any] = [*FAMILY, TextDelta, ReasoningDelta, ToolCallStart, ToolCallReady, None]


def _event(kind: Any, key: str, text: str) -> ModelEvent | None:
    if kind is None:
        return None
    event: ModelEvent
    if kind in {TextDelta, ReasoningDelta}:
        event = kind(key, text)
    elif kind is ToolCallStart:
        event = ToolCallStart(key, "read")
    elif kind is ToolCallReady:
        event = ToolCallReady(key, "read", {"text": text})
    else:
        event = kind(key)
    return event


finishes: st.SearchStrategy[Finish | None] = st.sampled_from(
    ["stop", "tool-calls", "length", "content-filter", "error", "unknown", None]
)


@pytest.mark.spec("C-02", "S-03")
@given(streams(), finishes)
def test_nothing_stays_half_open_and_deltas_rebuild_every_text(
    stream: list[ModelEvent | None], finish: Finish | None
) -> None:
    kept = Kept()
    for event in [*stream, StepFinish(finish) if finish else None]:
        kept.play(event)
    calls = {call.part_id: call for call in kept.end()}
    for part in kept.parts.values():
        match part:
            case TextPart(text=text, time=PartTime(end=end)):
                assert text == kept.heard[part.id].rstrip()
                assert (end is not None) is True
            case ReasoningPart(text=text, time=PartTime(end=end)):
                assert text == kept.heard[part.id]
                assert (end is not None) is True
            case ToolPart():
                runs = isinstance(calls.pop(part.id).state, Requested)
                assert isinstance(part.state, ToolPending) == runs
            case _:
                assert isinstance(part, StepFinishPart)
    assert not calls


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_an_invalid_cost_counts_as_zero(cost: float) -> None:
    made = draft()
    made.apply_event(StepFinish("stop", cost=cost), 150)
    assert made.end(200, {}).message.cost == 0


def test_a_surrogate_in_the_message_of_a_failure_is_replaced() -> None:
    made = draft()
    made.apply_event(StreamError(api_error("half a \udc80 character", is_retryable=True)), 150)
    error = made.end(200, {}).message.error
    assert isinstance(error, APIError)
    assert error.data.message == "half a ? character"
    assert error.data.is_retryable is True


def test_surrogates_in_names_and_metadata_are_replaced() -> None:
    made = draft()
    for event in (
        ReasoningStart("r"),
        ReasoningEnd("r", {"signature": "\udc80"}),
        ToolCallStart("c\udc80", "re\udc80ad"),
        StepFinish("tool-calls"),
    ):
        made.apply_event(event, 150)
    end = made.end(200, {})
    assert [(call.call_id, call.tool) for call in end.calls] == [("c?", "re?ad")]
    encode_body(end.parts)
