"""Reads lines from the terminal, only while a prompt is open."""

import asyncio
import os
import sys
import termios
from contextlib import suppress
from typing import TextIO

READ_BYTES = 4096


class Keyboard:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""

    @property
    def is_foreground(self) -> bool:
        """Return whether this process is in the foreground: a background read of a terminal stops it."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False

    def discard_input(self) -> None:
        """Discard what was typed before a prompt appeared."""
        self._buffer = b""
        with suppress(termios.error):  # the terminal has gone
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def read_line(self) -> str | None:
        """Read a line; None at the end of input or after Ctrl-D."""
        while b"\n" not in self._buffer:
            piece = await self._read()
            if not piece:
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
            return os.read(self._fd, READ_BYTES)
        except OSError:  # the terminal has gone
            return b""
        finally:
            loop.remove_reader(self._fd)


def find_keyboard() -> Keyboard | None:
    """Return the keyboard if stdin and stderr are a terminal and this process is in the foreground."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        return None
    keyboard = Keyboard(sys.stdin.fileno())
    return keyboard if keyboard.is_foreground else None


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
