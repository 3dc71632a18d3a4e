"""Ctrl-C on a real terminal, and what a terminal is shown."""

import re
import signal
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply
from tests.support.process.command_line import (
    CTRL_C,
    build_slow_replies,
    open_desk,
    open_terminal,
    read_until,
    wait_for_exit,
)

STORY = "Once upon a time there was a lamp that nobody could put out."
DIM = "\x1b[2m"


@pytest.mark.spec("C-10", "X-06")
async def test_ctrl_c_cancels_the_session_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Tell": build_slow_replies(STORY)}) as (desk, provider):
        async with open_terminal(desk, "run", "Tell", started=True) as terminal:
            await terminal.until("Once upon")
            terminal.press(CTRL_C)
            code = await terminal.end()
        await provider.wait_for(lambda: provider.active == 0)
        at_rest = await desk.run("run", "--continue", "--json")
        went_on = await desk.run("run", "--continue", "And then?")

    assert code == 5
    assert "cancelling; Ctrl-C again quits at once" in terminal.text
    assert "cancelled: session ses_" in terminal.text
    assert at_rest.code == 5
    assert at_rest.json["status"] == "cancelled"
    assert STORY.startswith(at_rest.json["text"].rstrip())
    assert went_on.code == 0
    assert went_on.out == "ok\n"
    assert provider.asked == 2


async def test_a_second_ctrl_c_quits_at_once(tmp_path: Path) -> None:
    """The one who could stop is stopped itself, so that the first one takes its time."""
    async with open_desk(tmp_path, {"Tell": build_slow_replies(STORY)}) as (desk, _):
        worker = await desk.start("run", "Tell")
        await read_until(worker, "Once upon")
        worker.send_signal(signal.SIGSTOP)
        async with open_terminal(desk, "run", "--continue", started=True) as terminal:
            await terminal.until("Once upon")
            terminal.press(CTRL_C)
            await terminal.until("Ctrl-C again quits at once")
            terminal.press(CTRL_C)
            code = await terminal.end()
        worker.send_signal(signal.SIGCONT)
        cancelled = await wait_for_exit(worker)

    assert code == 130
    assert cancelled.code == 5


async def test_ctrl_c_before_anything_was_sent_leaves_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        process = await desk.start("run", stdin=PIPE)
        assert process.stdin is not None
        process.stdin.write(bytes(3_000_000))  # more than any pipe holds: it is being read
        await process.stdin.drain()
        process.send_signal(signal.SIGINT)
        ran = await wait_for_exit(process)

    assert ran.code == 130
    assert ran.out == ""
    assert provider.asked == 0
    assert "Traceback" not in ran.err
    assert not desk.data.exists()


@pytest.mark.spec("X-06")
async def test_thoughts_are_dim_on_a_terminal_and_plain_with_no_color(tmp_path: Path) -> None:
    script = {"Hello": [Reply(text="Hi.\x1b]0;stolen\x07 There.", reasoning="they greet me", chunks=2)]}
    async with open_desk(tmp_path, script) as (desk, _):
        async with open_terminal(desk, "run", "Hello", started=True) as coloured:
            assert await coloured.end() == 0
        async with open_terminal(desk, "run", "Hello", env={"NO_COLOR": "1"}, started=True) as uncoloured:
            assert await uncoloured.end() == 0

    assert f"{DIM}they greet me" in re.sub(r"\x1b\[0m\x1b\[2m", "", coloured.text)
    assert "\x1b" not in uncoloured.text
    assert "Hi.]0;stolen There." in uncoloured.text.replace("\n", "")
    assert uncoloured.text.splitlines()[0] == "they greet me"
