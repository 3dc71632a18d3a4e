"""A call: what people see of each state, and what the model reads of its result."""

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    ABORTED,
    LONG_WAIT_MS,
    Call,
    CallState,
    Completed,
    Failed,
    Open,
    Requested,
    Running,
    Settled,
    WaitFor,
    render,
)
from asyncagents.domain.call.late_result import pending_text, result_text
from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.part import (
    PartTime,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from tests.support.domain.state import call, open_state
from tests.support.domain.strategy import nouns

GIVEN = {"env": "prod"}
WATCH = WaitFor(SessionId("ses_1"), "asyncagents_output")


@pytest.mark.spec("S-04", "C-02")
@pytest.mark.parametrize(
    ("row", "state"),
    [
        pytest.param(call(Requested()), ToolPending(input=GIVEN, raw=""), id="requested"),
        pytest.param(
            call(Running(3), started=120),
            ToolRunning(input=GIVEN, time=PartTime(start=120)),
            id="running",
        ),
        pytest.param(
            call(open_state("ask")),
            ToolRunning(input=GIVEN, time=PartTime(start=100)),
            id="asks, not started",
        ),
        pytest.param(
            call(open_state("question"), started=120),
            ToolRunning(input=GIVEN, time=PartTime(start=120)),
            id="a question",
        ),
        pytest.param(
            call(open_state("async", note="queued"), started=120),
            ToolWaiting(input=GIVEN, pending_id=call().id, output="queued", time=PartTime(start=120)),
            id="async with a note",
        ),
        pytest.param(
            call(open_state("wait"), started=120),
            ToolWaiting(input=GIVEN, pending_id=call().id, time=PartTime(start=120)),
            id="a wait without a note",
        ),
        pytest.param(
            call(Settled(Completed("v2", "Deployed", {"n": 1}), 200), started=120),
            ToolCompleted(
                input=GIVEN,
                output="v2",
                title="Deployed",
                metadata={"n": 1},
                time=PartTime(start=120, end=200),
            ),
            id="completed",
        ),
        pytest.param(
            call(Settled(Failed("no route"), 200), started=120),
            ToolFailed(input=GIVEN, error="no route", time=PartTime(start=120, end=200)),
            id="failed",
        ),
        pytest.param(
            call(Settled(Failed(ABORTED, {"inDoubt": True}), 200)),
            ToolFailed(
                input=GIVEN, error=ABORTED, metadata={"inDoubt": True}, time=PartTime(start=100, end=200)
            ),
            id="failed before it started",
        ),
    ],
)
def test_a_call_is_rendered_by_the_state_of_its_row(row: Call, state: ToolState) -> None:
    assert render(row) == ToolPart(
        id=row.part_id,
        session_id=row.session_id,
        message_id=row.message_id,
        call_id=row.call_id,
        tool=row.tool,
        state=state,
    )


@given(nouns(Call))
def test_every_call_and_its_rendered_part_round_trip(row: Call) -> None:
    assert msgspec.json.decode(msgspec.json.encode(row), type=Call) == row
    assert decode_part(encode(render(row))) == render(row)


def test_a_waiting_call_reads_on_the_wire_as_clients_expect() -> None:
    part = render(call(open_state("async", note="queued"), started=120))
    assert msgspec.json.decode(encode(part))["state"] == {
        "status": "waiting_async",
        "input": GIVEN,
        "pendingID": "tool_1",
        "time": {"start": 120},
        "output": "queued",
    }


@pytest.mark.parametrize(
    ("state", "is_open", "holding", "settled"),
    [
        (Requested(), False, False, False),
        (Running(1), False, False, False),
        (open_state("ask"), True, True, False),
        (open_state("question"), True, True, False),
        (open_state("async"), True, False, False),
        (open_state("wait"), True, False, False),
        (Settled(Completed("ok"), 1), False, False, True),
    ],
)
def test_an_ask_and_a_question_hold_the_session(
    state: CallState, is_open: bool, holding: bool, settled: bool
) -> None:
    row = call(state)
    assert (row.open is not None) == is_open
    assert row.blocks_session == holding
    assert row.is_settled == settled


def test_the_model_reads_that_a_call_is_pending() -> None:
    text = pending_text("toolu_1", "deploy")
    assert text == "This call is still pending (deploy, toolu_1). Its result will arrive in a later message."


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (Settled(Completed("v2"), 1), "The pending call toolu_1 (deploy) has completed:\n\nv2"),
        (Settled(Failed("no route"), 1), "The pending call toolu_1 (deploy) has failed:\n\nno route"),
    ],
)
def test_the_model_reads_a_late_result_with_the_name_of_its_call(state: Settled, text: str) -> None:
    assert result_text(call(state)) == text


@pytest.mark.parametrize("state", [Requested(), Running(1), Open(kind="async", since=1)])
def test_a_call_without_a_result_has_no_result_text(state: CallState) -> None:
    with pytest.raises(ValueError, match="tool_1 has no result yet"):
        result_text(call(state))


@pytest.mark.spec("Z-01")
@pytest.mark.parametrize(
    ("state", "holds"),
    [
        pytest.param(open_state("ask"), True, id="an ask"),
        pytest.param(open_state("question"), True, id="a question"),
        pytest.param(open_state("async"), False, id="an async tool"),
        pytest.param(open_state("task"), True, id="a task that works"),
        pytest.param(replace(open_state("task"), child_waits=True), False, id="a task that waits outside"),
        pytest.param(replace(open_state("wait"), watch=WATCH), True, id="a wait for a task that works"),
        pytest.param(
            replace(open_state("wait"), watch=WATCH, child_waits=True), False, id="a wait for one that waits"
        ),
        pytest.param(open_state("wait", due=50 + LONG_WAIT_MS - 1), True, id="a short timer"),
        pytest.param(open_state("wait", due=50 + LONG_WAIT_MS), False, id="a timer of a minute"),
        pytest.param(open_state("wait"), False, id="a wait without an end"),
        pytest.param(Running(3), False, id="one that runs"),
        pytest.param(Settled(Completed("ok"), 60), False, id="one that has its result"),
    ],
)
def test_a_call_holds_blocking_prompts_unless_it_waits_for_the_outside(state: CallState, holds: bool) -> None:
    assert call(state).holds_prompts is holds
