"""A call on its way in an export: nothing of it is lost, whatever state it is in."""

import pytest

from asyncagents.domain.call.call import Call, CallState, Completed, Failed, Open, Running, Settled, render
from asyncagents.domain.call.result_file import ResultFile
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.domain.transfer.call_records import call_from_mark, call_mark

REQUESTED = Call(
    id=CallId("tool_1"),
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    part_id=PartId("prt_1"),
    call_id="call_1",
    tool="echo",
    input={"text": "hi"},
    turn=2,
    created=5,
    agent="build",
)
"""Its state is the default, which no JSON says."""
STATES: tuple[CallState, ...] = (
    Running(fence=3),
    Open(kind="async", since=7, due=9),
    Settled(Completed("done", "A title"), 8),
    Settled(Completed("seen", files=(ResultFile("image/png", "data:image/png;base64,AAAA", "dot.png"),)), 8),
    Settled(Failed("no", blocks=True), 8, expired=True),
)


@pytest.mark.spec("P-13")
@pytest.mark.parametrize(
    "call", [REQUESTED, *map(REQUESTED.with_state, STATES)], ids=lambda call: type(call.state).__name__
)
def test_a_call_round_trips_through_its_mark(call: Call) -> None:
    assert call_from_mark(call_mark(call), render(call)) == call
