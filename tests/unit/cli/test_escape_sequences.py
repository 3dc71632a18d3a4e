"""Names and errors that others wrote do not steer the terminal of whoever reads them."""

from pathlib import Path

import pytest

from asyncagents.cli.act.answer import TreeState
from asyncagents.cli.act.submit import SubmitOutcome, print_outcome
from asyncagents.cli.exit import CliError
from asyncagents.domain.call.pending_tool import PendingTime, PendingToolCall
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId

TITLE = "\x1b]0;owned\x07"


def test_an_error_and_its_hint_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    CliError(f"it said {TITLE}no\nand more", hint=f"try\x9b2J {TITLE}again").show()
    assert capsys.readouterr().err == "error: it said ]0;ownedno\nand more\nhint: try2J ]0;ownedagain\n"


def test_the_tool_of_an_imported_call_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    call = PendingToolCall(
        id=CallId("tool_1"),
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        part_id=PartId("prt_1"),
        call_id="c",
        tool=f"{TITLE}deploy",
        input={},
        status="completed",
        time=PendingTime(created=1),
    )
    root = TreeState(SessionId("ses_1"), Path("/"), is_run=True)
    print_outcome(SubmitOutcome(call, before=False, others=0, root=root), as_json=False)
    written = capsys.readouterr().err
    assert "deploy" in written
    assert "\x1b" not in written
