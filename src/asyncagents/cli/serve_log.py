"""Logging of servers and workers to stderr."""

import logging
import traceback
from contextlib import suppress

import click

from asyncagents.cli.screen import plain
from asyncagents.domain.text import said
from asyncagents.errors import AsyncAgentsError


class Log(logging.Handler):
    """Writes every logged warning to stderr, store errors included; unexpected errors with a traceback.

    Repeated records are written each time, as a server runs for months.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message, why = record.getMessage(), said(error) if error is not None else ""
        lines = [f"{record.levelname.lower()}: {message if why in message else f'{message}: {why}'}"]
        if record.levelno >= logging.ERROR and not isinstance(error, AsyncAgentsError | None):
            lines += traceback.format_exception(error)
        with suppress(OSError, ValueError):  # stderr is closed, or the disk is full: keep running
            click.echo(plain("\n".join(lines).rstrip("\n")), err=True)


def log_to_stderr() -> None:
    logging.getLogger().handlers = [Log()]
