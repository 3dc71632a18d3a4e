"""What the demo claims of results that come later ends it when it is not so."""

import pytest
from msgspec.structs import replace

from asyncagents.cli.demo.deploy import SHIP, SHIP_LATE, report_text
from asyncagents.cli.demo.ledger import Effect
from asyncagents.cli.demo.screen import ClaimFailed, DemoScreen
from asyncagents.cli.demo.waiting_calls import (
    SessionFacts,
    check_expired,
    check_resumed,
    check_submissions,
    check_waits,
)
from asyncagents.cli.demo.worker import WorkerReport
from asyncagents.domain.call.call import TIMED_OUT
from asyncagents.domain.call.pending_tool import PendingTime, PendingToolCall, ToolResult
from asyncagents.domain.id import CallId, MessageId, PartId
from asyncagents.domain.why import Why, WhyCode
from tests.support.domain.event import SESSION, entry, step, text, user_message

WAITING = PendingToolCall(
    id=CallId("tool_1"),
    session_id=SESSION,
    message_id=MessageId("msg_1"),
    part_id=PartId("prt_1"),
    call_id="call_1",
    tool="deploy",
    input={},
    status="waiting",
    timeout=10,
    time=PendingTime(created=1),
)
DONE = replace(WAITING, status="completed", result=ToolResult(title="", output="v2 is live", metadata={}))
EXPIRED = replace(WAITING, status="expired", error=TIMED_OUT, time=PendingTime(created=1, completed=11))
ONCE = [Effect("deploy", "tool_1", 1)]


def seen(call: PendingToolCall, prompt: str, *said: str, code: WhyCode = "idle") -> SessionFacts:
    """`step` answers the message `msg_0`."""
    on = (call.id,) if code == "async" else ()
    steps = [
        entry(step(f"msg_{number}"), text(f"msg_{number}", words))
        for number, words in enumerate(said, start=1)
    ]
    history = (entry(user_message("msg_0"), text("msg_0", prompt)), *steps)
    return SessionFacts(call, Why(session_id=SESSION, code=code, sentence="", on=on), history)


def test_a_call_that_does_not_wait_ends_the_demo() -> None:
    check_waits(DemoScreen(), seen(WAITING, SHIP, code="async"))
    for wrong in (seen(DONE, SHIP, code="async"), seen(WAITING, SHIP, code="no_worker")):
        with pytest.raises(ClaimFailed, match="the file holds the waiting call"):
            check_waits(DemoScreen(), wrong)


def test_a_second_result_that_is_taken_ends_the_demo() -> None:
    check_submissions(DemoScreen(), WorkerReport(DONE, DONE, "it has: v2 is live"))
    for wrong in (
        WorkerReport(DONE, DONE, ""),
        WorkerReport(DONE, EXPIRED, "it has: v2 is live"),
        WorkerReport(WAITING, WAITING, "it has: v2 is live"),
    ):
        with pytest.raises(ClaimFailed, match="took one result"):
            check_submissions(DemoScreen(), wrong)


def test_the_demo_ends_unless_the_session_resumes_once_with_the_result() -> None:
    said = report_text("v2 is live")
    check_resumed(DemoScreen(), seen(DONE, SHIP, "", said), DONE, ONCE)
    for steps, runs in (
        (["", said, said], ONCE),
        ([""], ONCE),
        (["", report_text("v1 is live")], ONCE),
        (["", said], [*ONCE, *ONCE]),
        (["", said], []),
    ):
        with pytest.raises(ClaimFailed, match="exactly once"):
            check_resumed(DemoScreen(), seen(DONE, SHIP, *steps), DONE, runs)


def test_a_call_that_does_not_expire_when_it_should_ends_the_demo() -> None:
    said = report_text(TIMED_OUT)
    check_expired(DemoScreen(), seen(EXPIRED, SHIP_LATE, "", said))
    early = replace(EXPIRED, time=PendingTime(created=1, completed=9))
    for wrong in (
        seen(WAITING, SHIP_LATE, "", said),
        seen(early, SHIP_LATE, "", said),
        seen(EXPIRED, SHIP_LATE, "", said, said),
        seen(EXPIRED, SHIP_LATE, "", said, code="ready"),
    ):
        with pytest.raises(ClaimFailed, match="has expired, once"):
            check_expired(DemoScreen(), wrong)
