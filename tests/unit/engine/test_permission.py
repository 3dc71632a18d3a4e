"""What an answer to an ask is for: asks that an older program left open are still answered."""

import pytest

from asyncagents.domain.call.call import Call, Requested
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.permission import plan_hash

LINE = "echo $(date)"
UNCLEAR = {"command": LINE, "reasons": ["x"]}
CALL = Call(
    id=CallId("call_1"),
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    part_id=PartId("prt_1"),
    call_id="1",
    tool="bash",
    input={"command": LINE},
    turn=1,
    created=1,
    state=Requested(),
)


@pytest.mark.parametrize(
    ("ask", "stored"),
    [
        (
            Ask("bash", ("echo", LINE), (LINE,), UNCLEAR, ("unclear_command",), exact=True),
            "e5927e8a63c328ca8243fda2b0cab402396a40685a374c51cf9d22fdef0e8986",
        ),
        (
            Ask("edit", ("a.txt",), ("*",), {"diff": "d"}),
            "2659dc208caaea0908c1117cc9372baa9bafb4d04e738daed5fc7c6f915f0cb8",
        ),
    ],
)
def test_the_hash_of_a_plan_is_that_of_version_0_1(ask: Ask, stored: str) -> None:
    assert plan_hash(CALL, ask) == stored
