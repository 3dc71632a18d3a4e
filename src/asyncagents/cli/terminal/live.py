"""Lines at the end of a terminal's output that are redrawn in place."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import TextIOBase
from shutil import get_terminal_size

from asyncagents.config.env import system_environment

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CUT_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
"""The terminal cuts long lines: it alone knows how wide a character is."""
_ERASE_LINE, _GO_UP = "\x1b[2K", "\x1b[1A"


def can_redraw() -> bool:
    """Return whether stdout is a terminal whose cursor can go up."""
    return sys.stdout.isatty() and system_environment().get("TERM") != "dumb"


class LiveLines(TextIOBase):
    """Draws lines over the ones drawn before; what is written to it is printed above them."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._lines: Sequence[str] = ()
        self._height = 0
        """Number of lines on the screen."""

    def show(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._draw()

    def write(self, text: str) -> int:
        """Print a text above the lines. Raises `TypeError` for bytes: click tries with none of them."""
        if text.rstrip("\n"):
            self._draw(above=text.rstrip("\n") + "\n")
        return len(text)

    def finish(self) -> None:
        """Draw all lines, also those that the terminal has no room for, and end the last one."""
        self._draw(room=len(self._lines))
        self._out.write("\n" * bool(self._lines))

    def _draw(self, above: str = "", *, room: int | None = None) -> None:
        room = get_terminal_size().lines if room is None else room
        shown = self._lines if len(self._lines) <= room else [*self._lines[: room - 1], "…"]
        erase = "\r" + f"{_ERASE_LINE}{_GO_UP}" * (self._height - 1) + _ERASE_LINE if self._height else ""
        self._out.write("".join((erase, above, _CUT_LINES, "\n".join(shown), _WRAP_LINES)))
        self._out.flush()
        self._height = len(shown)


@contextmanager
def open_live_lines() -> Iterator[LiveLines]:
    """Draw lines in place; the last drawing stays. Output to stderr would be drawn over: print it above."""
    lines = LiveLines()
    sys.stdout.write(_HIDE_CURSOR)
    try:
        with redirect_stderr(lines):
            yield lines
    finally:
        lines.finish()
        sys.stdout.write(_SHOW_CURSOR)
        sys.stdout.flush()
