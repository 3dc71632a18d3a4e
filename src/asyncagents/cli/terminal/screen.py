"""Terminal output: answers on stdout, notes on stderr, without control characters."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Literal, TextIO, TypeAlias

import click
from msgspec import Struct

from asyncagents.config.env import system_environment
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.text import error_text
from asyncagents.errors import StoreError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
LONG_AGO_DAYS = 30
NARROWEST = 20

Tone: TypeAlias = Literal["note", "loud", "add", "remove", "place"]
_COLOURS: dict[Tone, str] = {"add": "green", "remove": "red", "place": "cyan"}


class ScreenLine(Struct, frozen=True):
    """A line for stderr, and its style."""

    text: str
    tone: Tone = "note"


class HeldOutput(Struct, frozen=True):
    """Output held back while another program has the terminal."""

    text: str
    err: bool
    nl: bool


class Screen:
    """Writes to stdout and stderr; on one terminal neither breaks a line of the other."""

    def __init__(self) -> None:
        self._out_tty, self._err_tty = sys.stdout.isatty(), sys.stderr.isatty()
        self._one_stream = (self._out_tty and self._err_tty) or _same_file(sys.stdout, sys.stderr)
        """stdout and stderr are the same terminal or file."""
        self._styled = self._err_tty and may_style()
        self._out_open = False
        self._err_open = False
        self._prompt_visible = False
        self._held: list[HeldOutput] | None = None
        self._warned: set[str] = set()
        self.write_count = 0
        """Number of writes: a covered prompt is repeated only after a pause in the output."""

    @property
    def stderr_is_terminal(self) -> bool:
        """Return whether stderr is a terminal."""
        return self._err_tty

    def write_answer(self, text: str) -> None:
        """Write a piece of the answer to stdout."""
        if not text:
            return
        self._end_note()
        # A file gets the model's exact text: click would strip colours from it.
        self._echo(plain(text) if self._out_tty else text, err=False, nl=False)
        self._out_open = not text.endswith("\n")

    def end_line(self) -> None:
        if self._out_open:
            self._echo("", err=False)
            self._out_open = False

    def show_lines(self, lines: Iterable[ScreenLine]) -> None:
        for line in lines:
            self._write_line(self._style_tone(plain(line.text), line.tone))

    def show_prompt(self, text: str) -> None:
        """Show a prompt without a line break; other output ends its line."""
        self._end_note()
        self._end_answer_line()
        shown = plain(text)
        self._echo(click.style(shown, bold=True) if self._styled else shown, nl=False)
        self._prompt_visible = True

    @property
    def prompt_visible(self) -> bool:
        """Return whether the prompt is the last output."""
        return self._prompt_visible

    def mark_answered(self) -> None:
        """Forget the prompt: the person's Enter has ended its line."""
        self._prompt_visible = False

    def clear_prompt(self) -> None:
        """End the line of the prompt: no answer is expected any more."""
        if self._prompt_visible:
            self._prompt_visible = False
            click.echo(err=True)

    @contextmanager
    def suspend_output(self) -> Iterator[None]:
        """Hold output back inside the block, while another program has the terminal."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for piece in held:
                self._echo(piece.text, err=piece.err, nl=piece.nl)

    def note(self, text: str) -> None:
        """Write a dim line to stderr."""
        self._write_line(self._style(plain(text)))

    def print_line(self, text: str) -> None:
        """Write a line to stderr."""
        self._write_line(plain(text))

    def warn(self, text: str) -> None:
        """Write a warning, once for each text."""
        if text not in self._warned:
            self._warned.add(text)
            self.print_line(f"warning: {text}")

    def _write_line(self, text: str) -> None:
        self._end_note()
        self._end_answer_line()
        self._echo(text)

    def write_reasoning(self, text: str) -> None:
        """Write a piece of reasoning to stderr."""
        if not text:
            return
        self._end_answer_line()
        self._echo(self._style(plain(text)), nl=False)
        self._err_open = not text.endswith("\n")

    def _end_note(self) -> None:
        if self._err_open:
            self._echo("")
            self._err_open = False

    def _end_answer_line(self) -> None:
        if self._one_stream:
            self.end_line()

    def _echo(self, text: str, *, err: bool = True, nl: bool = True) -> None:
        self.write_count += 1
        if self._held is not None:
            self._held.append(HeldOutput(text, err, nl))
            return
        self.clear_prompt()
        click.echo(text, err=err, nl=nl, color=None if err else True)

    def _style(self, text: str) -> str:
        return self._style_tone(text, "note")

    def _style_tone(self, text: str, tone: Tone) -> str:
        if not self._styled or tone == "loud":
            return text
        return click.style(text, fg=_COLOURS[tone]) if tone in _COLOURS else click.style(text, dim=True)


def may_style() -> bool:
    """Return whether the environment allows colours on a terminal."""
    environment = system_environment()
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def _same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams are the same file or pipe, as with `2>&1`."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # no file at all
        return False


class ScreenLogHandler(logging.Handler):
    """Shows logged warnings on the screen, except store errors, which commands report themselves."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, StoreError):
            return
        message = record.getMessage()
        why = error_text(error) if error is not None else ""
        self._screen.warn(message if why in message else f"{message}: {why}")


def log_to_screen(screen: Screen) -> None:
    """Send logged warnings to the screen."""
    logging.getLogger().handlers = [ScreenLogHandler(screen)]


def plain(text: str) -> str:
    """Remove control and bidirectional formatting characters."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int = 200) -> str:
    line = " ".join(plain(text).split())
    return line if len(line) <= width else f"{line[: max(1, width - 1)]}…"


def print_table(rows: Iterable[Sequence[str]], *, flexible: int) -> None:
    """Print rows in columns; the flexible column is cut to the width of the terminal."""
    table = [tuple(one_line(cell) for cell in row) for row in rows]
    if not table:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    if sys.stdout.isatty():
        others = sum(widths) - widths[flexible] + 2 * (len(widths) - 1)
        widths[flexible] = max(NARROWEST, min(widths[flexible], get_terminal_size().columns - others))
    for row in table:
        cells = [one_line(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


def ago(then_ms: int, now_ms: int) -> str:
    seconds = max(0, now_ms - then_ms) // 1000
    if seconds >= LONG_AGO_DAYS * 86_400:
        return datetime.fromtimestamp(then_ms / 1000, UTC).strftime("%Y-%m-%d")
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "just now"


def time_left(due_ms: int | None, now_ms: int) -> str:
    """Format the time until a deadline."""
    if due_ms is None:
        return "no limit"
    seconds = (due_ms - now_ms) // 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} left"
    return f"{seconds} s left" if seconds > 0 else "overdue"


def token_text(tokens: Tokens | None) -> str:
    if tokens is None:
        return "0"
    return short_number(
        tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write
    )


def short_number(number: int) -> str:
    """Format a number: 12,345 as 12.3k."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit
    return str(number)


def dollars(cost: float | None) -> str:
    if not cost:
        return "-"
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"
