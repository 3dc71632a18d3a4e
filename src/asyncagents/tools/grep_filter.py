"""Which files can be left out of a search: those without the letters that every match must have.

With ripgrep that is fast. It only says which files are worth a look: what is told of them is read through the
file door, so a folder swapped for a link meanwhile gives nothing away, and patterns mean what they meant.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from asyncagents.tools.pattern_letters import Letters
from asyncagents.tools.program import find_program

SHORTEST = 3
"""Fewer letters are everywhere."""
_WORTH_IT = 200
"""For fewer files another program is not worth starting."""
_CHUNK = 800_000
"""So many bytes of names at a time: a command line has an end."""
_SECONDS = 60


def worth_a_look(root: str, names: Sequence[str], letters: Letters) -> Sequence[str]:
    """Those of the files that have the letters; all of them where that cannot be told quickly."""
    if letters.shortest < SHORTEST or len(names) < _WORTH_IT:
        return names
    program = find_program("rg", os.pathsep.join(os.get_exec_path()), outside=Path(root))
    if program is None:
        return names
    found: set[str] = set()
    for chunk in _chunks(names):
        done = _run(program, root, chunk, letters)
        if done is None:
            return names
        found.update(done)
    return [name for name in names if name in found]


def _chunks(names: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(name)) + 16
        if size > _CHUNK and chunk:
            yield chunk
            chunk, size = [], len(os.fsencode(name)) + 16
        chunk.append(name)
    if chunk:
        yield chunk


def _run(program: str, root: str, names: list[str], letters: Letters) -> list[str] | None:
    """None: it failed for some of them, and does not say for which."""
    options = "--no-config --files-with-matches --null --fixed-strings --text --encoding none --no-messages"
    words = [
        program,
        *options.split(),
        *(("--ignore-case",) if letters.any_case else ()),
        *(f"--regexp={each.decode()}" for each in letters.any_of),
        "--",
        *(f"./{name}" for name in names),
    ]
    try:
        done = subprocess.run(
            words, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SECONDS
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if done.returncode > 1:
        return None
    return [os.fsdecode(each)[2:] for each in done.stdout.split(b"\0") if each]
