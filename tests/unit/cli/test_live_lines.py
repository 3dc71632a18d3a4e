"""Lines that are redrawn in place."""

import click
import pytest

from asyncagents.cli.terminal.live import open_live_lines

UP, ERASE = "\x1b[1A", "\x1b[2K"


def test_lines_that_do_not_fit_are_shown_at_the_end_and_warnings_stand_above(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "3")
    with open_live_lines() as live:
        live.show(["a", "b", "c", "d"])
        click.echo("warning: hot", err=True)
        drawn = capsys.readouterr()
    cut = "\x1b[?7la\nb\n…\x1b[?7h"
    erase = f"\r{ERASE}{UP}{ERASE}{UP}{ERASE}"
    assert drawn.out == f"\x1b[?25l{cut}{erase}warning: hot\n{cut}"
    assert drawn.err == ""
    assert capsys.readouterr().out == f"{erase}\x1b[?7la\nb\nc\nd\x1b[?7h\n\x1b[?25h"
