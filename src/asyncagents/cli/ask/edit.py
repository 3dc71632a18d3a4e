"""Lets a person edit the arguments of a call, in an editor or on one line."""

import asyncio
import shlex
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec

from asyncagents.cli.ask.reply import parse_input
from asyncagents.config.env import system_environment
from asyncagents.errors import InvalidInput

ReadLine: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Prompts for a line; None if input has ended."""
ReleaseTerminal: TypeAlias = Callable[[], AbstractContextManager[None]]
"""A context in which the terminal belongs to an editor."""


async def edit_input(given: dict[str, Any], *, typed: ReadLine, lent: ReleaseTerminal) -> dict[str, Any]:
    """Return the edited arguments. Raises `InvalidInput` if they are unusable or unchanged."""
    editor = (system_environment().get("EDITOR") or "").strip()
    if not editor:
        now = msgspec.json.encode(given).decode()
        return parse_input(await typed(f"instead of {now}, as JSON on one line > ") or "", given)
    with lent():
        text = await _run_editor(editor, msgspec.json.format(msgspec.json.encode(given)).decode())
    return parse_input(text, given)


async def _run_editor(editor: str, text: str) -> str:
    """Edit a text in a private temporary directory: arguments may be secret."""
    with TemporaryDirectory(prefix="asyncagents-") as folder:
        path = Path(folder) / "arguments.json"
        path.write_text(f"{text}\n", encoding="utf-8")
        try:
            code = await _wait_or_terminate(
                await asyncio.create_subprocess_exec(*shlex.split(editor), str(path))
            )
            if code:
                raise InvalidInput(f"{editor} ended with exit code {code}: nothing was changed")
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{editor}, which EDITOR names, cannot be used: {error}") from error


async def _wait_or_terminate(process: Process) -> int:
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
