"""docs/approvals.md: its program runs and says what the page says; its tables are what the model reads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncagents.domain.call.ask import Question, QuestionRequest
from asyncagents.domain.call.call import WAIT_ENDED, WAIT_OVER, Answers, Completed, Open, Reject, Reply
from asyncagents.domain.call.reply import DECISION_OPTIONS, reply_result, unanswered_result
from asyncagents.domain.id import QuestionId, SessionId
from asyncagents.plugins.tool.approval import ApprovalOptions
from asyncagents.plugins.tool.decorate import AsyncToolOptions
from tests.support.page import code_blocks
from tests.support.path import DOCS

PAGE = (DOCS / "approvals.md").read_text(encoding="utf-8")
HALF_PAST_FOUR = 1_794_846_600_000
QUESTION = QuestionRequest(
    id=QuestionId("que_1"),
    session_id=SessionId("ses_1"),
    questions=(Question(question="?", header="", options=DECISION_OPTIONS),),
)


@pytest.mark.spec("P-05", "X-07")
def test_the_program_of_the_page_prints_the_shown_output(tmp_path: Path) -> None:
    (program,), (shown,) = code_blocks("approvals.md"), code_blocks("approvals.md", "text")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", "program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == shown
    assert ran.stderr == ""
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("reply", "by"),
    [(Answers((("Approve", "after lunch"),)), "alice"), (Reject("not on a Friday"), "bob")],
    ids=["yes", "no"],
)
def test_the_page_quotes_the_text_of_a_decision(reply: Reply, by: str) -> None:
    assert isinstance(reply, Answers | Reject)
    said = reply_result(Open(kind="async", since=0, question=QUESTION, approval=True), reply, by)
    assert isinstance(said, Completed)
    assert f"`{said.output}`" in PAGE
    assert [key for key in said.metadata if f"`{key}`" not in PAGE] == []


def test_the_page_quotes_the_texts_of_expired_approvals_and_timers() -> None:
    said = unanswered_result(HALF_PAST_FOUR, "release managers", approval=True).error
    assert f"`{said}`" in PAGE
    assert f"`{WAIT_ENDED}`" in PAGE
    assert f"`{WAIT_OVER} It was until 2026-11-16 16:30:00 UTC.`" in PAGE


def test_approvals_add_one_option_and_the_page_names_five_commands() -> None:
    assert set(ApprovalOptions.__annotations__) - set(AsyncToolOptions.__annotations__) == {"who"}
    names = set(re.findall(r"`asyncagents (\w+)", PAGE))
    assert names == {"asks", "answer", "submit", "cancel", "run"}
