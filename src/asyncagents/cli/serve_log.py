"""What a server has to say about itself: a line on stderr, each time."""

import logging
import traceback
from contextlib import suppress

import click

from asyncagents.cli.screen import plain
from asyncagents.domain.text import said
from asyncagents.errors import AsyncAgentsError


class Log(logging.Handler):
    """What the library logs, also what the store complains of: nobody else says it.

    As often as it happens, for it runs for months; and a bug with its traceback.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message, why = record.getMessage(), said(error) if error is not None else ""
        lines = [f"{record.levelname.lower()}: {message if why in message else f'{message}: {why}'}"]
        if record.levelno >= logging.ERROR and not isinstance(error, AsyncAgentsError | None):
            lines += traceback.format_exception(error)
        with suppress(OSError, ValueError):  # nobody reads it any more, or the disk is full: the work goes on
            click.echo(plain("\n".join(lines).rstrip("\n")), err=True)


def log_to_stderr() -> None:
    logging.getLogger().handlers = [Log()]
