"""A call on its way in an export: nothing of it is lost, whatever state it is in."""

import msgspec
import pytest

from asyncagents.domain.call.ask import QuestionRequest
from asyncagents.domain.call.call import (
    AsyncState,
    Call,
    CallState,
    Completed,
    Failed,
    Open,
    Running,
    Settled,
    render,
)
from asyncagents.domain.call.result_file import ResultFile
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.id import CallId, MessageId, PartId, QuestionId, SessionId
from asyncagents.domain.transfer.call_records import (
    at_rest,
    call_from_mark,
    call_mark,
    without_server_task,
)

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
AT_SERVER = ServerTask(server="kit", id="task-1", answered=("k",))
STATES: tuple[CallState, ...] = (
    Running(fence=3),
    Open(kind="async", since=7, due=9),
    Open(
        kind="async", since=7, later=AsyncState(server_task=ServerTask(server="kit", id="t", answered=("k",)))
    ),
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


def test_an_import_that_is_not_trusted_keeps_no_task_of_a_server_and_none_of_its_forms() -> None:
    task = ServerTask(server="kit", id="task-of-others", requests={"k": {"message": "Which?"}})
    asked = QuestionRequest(id=QuestionId("que_1"), session_id=REQUESTED.session_id, questions=())
    state = Open(kind="async", since=7, due=9, question=asked, later=AsyncState(due=9, server_task=task))
    call = msgspec.structs.replace(REQUESTED.with_state(state), ask_id="que_1")

    trusted = at_rest(call, now=10)
    bare = without_server_task(trusted)
    assert trusted == call
    assert bare.server_task is None
    assert bare.ask_id is None
    assert bare.open == Open(kind="async", since=7, due=9)
