"""A session's status is a function of its rows."""

import msgspec
import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Requested
from asyncagents.domain.conversation.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.domain.id import CallId, MessageId, RequestId
from asyncagents.domain.session_state import Backoff, ControlState, session_status
from asyncagents.domain.shape import encode
from tests.support.domain.state import CONTROL, call, open_state

ASK, QUESTION = call(open_state("ask"), id="tool_ask"), call(open_state("question"), id="tool_question")
ASYNC = call(open_state("async", due=900), id="tool_async", tool="deploy")
TIMER = call(open_state("wait", due=300), id="tool_timer", tool="sleep")
ENDLESS = call(open_state("async"), id="tool_endless", tool="hook")


def waits_for(pending_id: str, tool: str, timeout: int | None = None) -> WaitingAsync:
    return WaitingAsync(pending_id=CallId(pending_id), tool=tool, since=50, timeout=timeout)


@pytest.mark.spec("C-06")
@pytest.mark.parametrize(
    ("state", "calls", "expected"),
    [
        pytest.param("idle", (), Idle(), id="at rest"),
        pytest.param("ready", (), Busy(), id="woken"),
        pytest.param("running", (), Busy(), id="claimed"),
        pytest.param("idle", (ASK,), Busy(), id="an ask"),
        pytest.param("idle", (QUESTION,), Busy(), id="a question"),
        pytest.param("idle", (ASYNC, ASK), Busy(), id="an ask beside an async call"),
        pytest.param("idle", (ASYNC,), waits_for("tool_async", "deploy", 900), id="an async call"),
        pytest.param("idle", (TIMER,), waits_for("tool_timer", "sleep", 300), id="a timer"),
        pytest.param("idle", (ENDLESS,), waits_for("tool_endless", "hook"), id="without a deadline"),
        pytest.param("idle", (ASYNC, TIMER), waits_for("tool_timer", "sleep", 300), id="the first to expire"),
        pytest.param(
            "idle", (ENDLESS, ASYNC), waits_for("tool_async", "deploy", 900), id="a deadline before none"
        ),
        pytest.param(
            "idle",
            (
                call(open_state("async", due=900), id="tool_b"),
                call(open_state("async", due=900), id="tool_a"),
            ),
            waits_for("tool_a", "deploy", 900),
            id="the older of two that expire together",
        ),
        pytest.param("running", (ASYNC,), Busy(), id="running beside an async call"),
        pytest.param("ready", (TIMER,), Busy(), id="woken beside a timer"),
        pytest.param("idle", (call(Requested()),), Idle(), id="a call that is not open counts for nothing"),
    ],
)
def test_the_status_follows_from_the_state_and_the_open_calls(
    state: ControlState, calls: tuple[Call, ...], expected: Status
) -> None:
    assert session_status(replace(CONTROL, state=state), calls) == expected


@pytest.mark.spec("C-06")
def test_a_waiting_status_names_its_call_and_omits_a_missing_deadline() -> None:
    wire = msgspec.json.decode(encode(waits_for("tool_1", "deploy", 900)))
    assert wire == {
        "type": "waiting_async",
        "pendingID": "tool_1",
        "tool": "deploy",
        "since": 50,
        "timeout": 900,
    }
    assert "timeout" not in msgspec.json.decode(encode(waits_for("tool_1", "deploy")))


@pytest.mark.spec("C-05", "C-06")
@pytest.mark.parametrize(("attempt", "shown"), [(0, 1), (1, 1), (4, 4)])
@pytest.mark.parametrize("state", ["idle", "ready", "running"])
def test_a_request_in_backoff_is_shown_as_a_retry_in_every_state(
    state: ControlState, attempt: int, shown: int
) -> None:
    backoff = Backoff(RequestId("req_1"), MessageId("msg_1"), attempt, 9_000, "overloaded")
    expected = Retry(attempt=shown, message="overloaded", next=9_000)
    assert session_status(replace(CONTROL, state=state), (), backoff) == expected
