"""`asyncagents demo`, as a user runs it: it kills a process for real and checks what it says."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncagents.cli.demo.crew import STOCK, task_title
from asyncagents.cli.demo.ledger import Effect
from asyncagents.cli.demo.screen import ClaimFailed, DemoScreen
from asyncagents.cli.demo.team import Team, check_counts, check_notices
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.view import BackgroundTask
from tests.support.domain.event import SESSION, text, user_message

COMMAND = [str(Path(sys.executable).with_name("asyncagents")), "demo"]
SAID = (
    "The words that came in are the answer that is stored.",
    "The session is waiting_async and 0 runs are alive",
    "The process died of signal 9.",
    "The acknowledged prompt is there, once, and it has one answer.",
    "The half-written message is still there, closed with an error.",
    "update_stock ran again with the same effect key",
    "charge_card was not run again",
    "The open call took one result",
    "All that was said in this session before the crash is there, unchanged.",
    "Both did the same work: five tasks each, with the same five results, and the same answer.",
    "3 tasks that no process runs.",
    "What had ended stayed as it was; the three that were cut off went on, and all have their result.",
    "Nothing was run twice: five counts in the world outside, all by the process that was killed.",
    "The agent's process exited with code 0, and the file holds the waiting call.",
    "The call took one result: the same again was answered alike, the other one was refused.",
    "The session went on exactly once, with the worker's words; the deploy was started once.",
    'The call has expired, once; the agent was told "Tool execution timed out" and went on.',
    "24 claims were checked, and all held.",
)
TOLD_ONCE = "The orchestrator got exactly one notice for each of the five tasks."
FASTER = re.compile(r"One after the other took [\d.]+ s, at once [\d.]+ s: [\d.]+ times as fast\.")
COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """Nothing of the caller's terminal; temporary files where the test can see them."""
    plain = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}}
    return {**plain, "TMPDIR": str(tmp_path), "COLUMNS": "200", **more}


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def on_a_terminal(tmp_path: Path, *command: str, **more: str) -> bytes:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        env=environment(tmp_path, TERM="xterm", **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        output = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert process.returncode == 0, output
    return output


def _read(terminal: int) -> bytes:
    """Nothing more, once the other side has closed it."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.spec("X-11", "P-01", "P-04", "P-05", "P-07", "P-08")
def test_the_demo_shows_that_killed_work_goes_on(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert ran.returncode == 0, ran.stderr
    text = " ".join(ran.stdout.split())
    assert [sentence for sentence in SAID if sentence not in text] == []
    assert text.count(TOLD_ONCE) == 2
    assert FASTER.search(text)
    assert ran.stdout.count("└─ Count the") == 5  # a tree for each moment that is worth one
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_demo_is_coloured_on_a_terminal(tmp_path: Path) -> None:
    """Its screen alone: what is shown on it takes a while."""
    program = "from asyncagents.cli.demo.screen import DemoScreen; DemoScreen().line('agent', 'Hello.')"
    assert COLOUR.search(on_a_terminal(tmp_path, sys.executable, "-c", program))


def test_the_demo_draws_in_place_without_color_and_keeps_its_directory(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    output = on_a_terminal(tmp_path, *COMMAND, "--keep", str(kept), NO_COLOR="1")
    assert not COLOUR.search(output)
    assert b"\x1b[1A" in output
    assert (kept / "asyncagents.db").exists()
    again = run(tmp_path, "--keep", str(kept))
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_a_claim_that_does_not_hold_ends_the_demo() -> None:
    with pytest.raises(ClaimFailed, match="water is dry") as caught:
        DemoScreen().check("water is dry", holds=False, seen="wet hands")
    assert caught.value.exit_code == 1
    assert "wet hands" in caught.value.message


def a_task(thing: str) -> BackgroundTask:
    return BackgroundTask(
        session_id=SessionId(f"ses_{thing}"),
        parent_session_id=SESSION,
        parent_message_id=MessageId("msg_1"),
        parent_agent="build",
        description=task_title(thing),
        prompt="?",
        agent="helper",
        kind="background",
        status="completed",
        started_at="2026-11-16T10:00:00.000Z",
        batch_id="bat_1",
        resume_count=0,
        is_forked=False,
    )


@pytest.mark.parametrize("times", [0, 2])
def test_a_task_end_without_exactly_one_notice_ends_the_demo(times: int) -> None:
    once = [f"Task ses_{thing} was completed." for thing in STOCK]

    def told(lines: list[str]) -> Team:
        hidden = text("msg_1", "\n".join(lines), synthetic=True)
        return Team(
            (MessageWithParts(info=user_message("msg_1"), parts=(hidden,)),), tuple(map(a_task, STOCK))
        )

    check_notices(DemoScreen(), told(once))
    with pytest.raises(ClaimFailed, match="exactly one notice"):
        check_notices(DemoScreen(), told([*once[1:], *once[:1] * times]))


def test_a_tool_that_ran_twice_ends_the_demo() -> None:
    runs = [Effect("count", f"tool_{number}", 1) for number in range(len(STOCK))]
    check_counts(DemoScreen(), runs, 1)
    for wrong in (
        [*runs, runs[0]],
        [*runs[1:], runs[1]],
        runs[1:],
        [*runs[1:], Effect("count", "tool_9", 2)],
    ):
        with pytest.raises(ClaimFailed, match="Nothing was run twice"):
            check_counts(DemoScreen(), wrong, 1)
