"""stdin and stdout of a command that another program starts and speaks to."""

import os
import stat
import sys
from typing import TextIO


def check_streams(client: str, command: str) -> None:
    """Check that `client`, which starts `command`, is at the other end; tell a person at a terminal about it.

    Raises `CliError` for a stream that is closed, a file or /dev/null: no program is at its other end.
    """
    _check_stream(sys.stdin, "stdin", f"cat FILE | {command}", client=client, command=command)
    _check_stream(sys.stdout, "stdout", f"{command} | tee FILE", client=client, command=command)
    if sys.stdin.isatty() and sys.stderr is not None:
        sys.stderr.write(
            f"note: {client} starts this command and sends JSON-RPC, one object per line, to its stdin; "
            "Ctrl-D ends it\n"
        )


def _check_stream(stream: TextIO | None, name: str, pipe: str, *, client: str, command: str) -> None:
    if stream is not None:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty():
            return
    from asyncagents.cli.exit import USAGE, CliError  # start-up: after the first frame

    raise CliError(
        f"{name} is neither a pipe nor a terminal: {client} speaks to `{command}`",
        hint=f"name the command in the settings of {client}, or in a shell use a pipe: `{pipe}`",
        code=USAGE,
    )
