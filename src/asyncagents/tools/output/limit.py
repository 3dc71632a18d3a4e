"""Limit the output of tools to its beginning and end; the whole output is saved in a private file."""

import asyncio
import os
import stat
from contextlib import closing, suppress
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed, Result
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Outcome, Tool, ToolContext, WithFacts
from asyncagents.errors import ToolError
from asyncagents.tools.output.capture import omit_middle
from asyncagents.tools.output.spill_file import PREFIX, SUFFIX, SpillFile

A = TypeVar("A")

MOST_CHARS = 50_000
MOST_LINES = 2_000
RETENTION_MS = 7 * 24 * 3600 * 1000
# Leaves room for the note between both halves, which names the file.
_HALF_CHARS = (MOST_CHARS - 1_000) // 2
_HALF_LINES = (MOST_LINES - 10) // 2


def limit_output(tool: Tool[A], folder: Path) -> Tool[A]:
    """Return a copy of `tool` that cuts outputs over the limit and saves the whole in `folder`."""

    async def run(args: A, context: ToolContext) -> Outcome:
        try:
            outcome = await tool.run(args, context)
        except ToolError as error:
            if _fits(str(error)):
                raise
            outcome = Failed(replace_surrogates(str(error)))
        return await _limit_outcome(outcome, folder)

    same = copy(tool)  # keeps all other attributes
    same.run = run
    return same


def delete_old_files(folder: Path, now: int) -> int:
    """Delete outputs saved more than seven days before `now` (ms); return how many."""
    gone = 0
    with suppress(OSError), os.scandir(folder) as entries:  # no readable folder: nothing to delete
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX):
                with suppress(OSError):  # deleted by another process, or not ours
                    gone += _delete_if_old(entry, now)
    return gone


async def _limit_outcome(outcome: Outcome, folder: Path) -> Outcome:
    if isinstance(outcome, WithFacts) and isinstance(outcome.result, Completed | Failed):
        return replace(outcome, result=await limit_result(outcome.result, folder))
    if isinstance(outcome, Completed | Failed):
        return await limit_result(outcome, folder)
    return outcome  # a pending call; the engine rejects invalid outcomes


async def limit_result(result: Result, folder: Path) -> Result:
    """Cut a result over the limit and save the whole in `folder`."""
    text = result.output if isinstance(result, Completed) else result.error
    if _fits(text) or _is_cut(text, result.metadata):
        return result
    cut, path = await asyncio.to_thread(_cut, text, folder)
    metadata = {**result.metadata, "truncated": True, **({"outputPath": path} if path else {})}
    if isinstance(result, Completed):
        return replace(result, output=cut, metadata=metadata)
    return replace(result, error=cut, metadata=metadata)


def _fits(text: str) -> bool:
    return len(text) <= MOST_CHARS and text.count("\n") < MOST_LINES


def _is_cut(text: str, metadata: dict[str, Any]) -> bool:
    """Return whether the tool itself cut its output by characters, as bash does; lines do not count then."""
    return bool(metadata.get("outputPath")) and len(text) <= MOST_CHARS


def _cut(text: str, folder: Path) -> tuple[str, str | None]:
    head = min(_HALF_CHARS, _end_of_first_lines(text, _HALF_LINES))
    tail = max(len(text) - _HALF_CHARS, _start_of_last_lines(text, _HALF_LINES))
    missing = f"{tail - head} characters ({text.count(chr(10), head, tail)} lines)"
    with closing(SpillFile(folder)) as saved:
        saved.write(text.encode("utf-8", "replace"))
        return omit_middle(text[:head], text[tail:], missing, saved.describe()), saved.path


def _end_of_first_lines(text: str, count: int) -> int:
    """Return the index after the first `count` lines."""
    at = 0
    for _ in range(count):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _start_of_last_lines(text: str, count: int) -> int:
    """Return the index where the last `count` lines begin."""
    at = len(text.removesuffix("\n"))
    for _ in range(count):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _delete_if_old(entry: os.DirEntry[str], now: int) -> bool:
    about = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(about.st_mode) or now - about.st_mtime * 1000 <= RETENTION_MS:
        return False
    os.unlink(entry.path)
    return True
