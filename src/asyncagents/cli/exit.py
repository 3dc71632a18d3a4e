"""Exit codes, and errors as one sentence with a hint instead of a traceback."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import click

from asyncagents.config.env import system_environment
from asyncagents.errors import AsyncAgentsError, ConfigError, ModelError, NotFound, RequestError, StoreError

FAILED = 1
USAGE = 2
WAITING = 3
CONFLICT = 4
CANCELLED = 5
REFUSED = 6
INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG_VARIABLE = "ASYNCAGENTS_DEBUG"

_FREE_SPACE = "free some space, then run the same command again"
_MAKE_WRITABLE = (
    "make the data directory writable, or choose another with --data-dir; `asyncagents doctor` checks it"
)
_STORE_HINTS = {
    "disk is full": _FREE_SPACE,
    "no space left": _FREE_SPACE,
    "quota exceeded": _FREE_SPACE,
    "disk i/o": "check the disk: it may be full, or failing",
    "locked": "another program has locked the database: stop it, or try again",
    "newer": "`pip install --upgrade asyncagents`",
    "upgrade": "`pip install --upgrade asyncagents`",
    "malformed": "`asyncagents doctor` checks the file; restore a backup of it",
    "not a database": "`asyncagents doctor` checks the file; restore a backup of it",
    "readonly": _MAKE_WRITABLE,
    "unable to open": _MAKE_WRITABLE,
    "could not be opened: permission denied": _MAKE_WRITABLE,
    "could not be opened: operation not permitted": _MAKE_WRITABLE,
    "cannot be written": _MAKE_WRITABLE,
    "out of reach": "`asyncagents doctor` checks it: the file, or the server that ASYNCAGENTS_STORE names",
}

_SYSTEM_HINTS = {errno.ENOSPC: "disk is full", errno.EDQUOT: "disk is full", errno.EROFS: "readonly"}


class CliError(click.ClickException):
    """An error with an optional hint and an exit code."""

    def __init__(self, message: str, *, hint: str = "", code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        from asyncagents.cli.terminal.screen import plain  # start-up: most commands end well

        click.echo(f"error: {plain(self.message)}", err=True)
        if self.hint:
            click.echo(f"hint: {plain(self.hint)}", err=True)


class BadConfig(CliError):
    def __init__(self, message: str) -> None:
        super().__init__(message, code=USAGE)


class OutputClosed(Exception):
    """The reader of stdout has closed the pipe."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn every exception of a command into an error message and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001  the edge of a command
        sys.exit(_report_error(first_error(error)))


def first_error(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report_error(error: BaseException) -> int:
    if isinstance(error, OutputClosed | BrokenPipeError):
        _close_stdout()
        return BROKEN_PIPE
    if _is_debug():
        traceback.print_exception(error)
    shown = error if isinstance(error, click.ClickException) else as_cli_error(error)
    with suppress(OSError):
        shown.show()
    if isinstance(error, OSError):
        _close_stdout()
    return shown.exit_code


def as_cli_error(error: BaseException) -> CliError:
    """Convert an exception into an error for people, with a hint and an exit code."""
    match error:
        case ConfigError():
            return BadConfig(str(error))
        case NotFound(kind="session"):
            return CliError(str(error), hint="`asyncagents sessions --all` lists them", code=USAGE)
        case RequestError() | ModelError():
            return CliError(str(error), code=USAGE)
        case StoreError():
            return CliError(str(error), hint=_store_hint(str(error)))
        case AsyncAgentsError():
            return CliError(str(error))
        case OSError():
            return _os_error(error)
        case _:
            hint = f"set {DEBUG_VARIABLE}=1 to see the traceback, and please report it"
            return CliError(f"this is a bug in asyncagents: {type(error).__name__}: {error}", hint=hint)


def _store_hint(text: str) -> str:
    return next((hint for words, hint in _STORE_HINTS.items() if words in text.lower()), "")


def _os_error(error: OSError) -> CliError:
    what = error.strerror or str(error) or type(error).__name__
    text = f"{error.filename}: {what}" if error.filename else what
    return CliError(text, hint=_STORE_HINTS.get(_SYSTEM_HINTS.get(error.errno or 0, ""), ""))


def _is_debug() -> bool:
    try:
        return bool(system_environment().get(DEBUG_VARIABLE))
    except ConfigError:
        return False


def _close_stdout() -> None:
    """Redirect stdout to /dev/null, so that flushing its buffer at exit does not fail again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
