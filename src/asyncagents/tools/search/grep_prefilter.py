"""Leave files out of a search that lack the literals that every match must have, by ripgrep.

Ripgrep only selects files: their lines are then read by `Files` and matched by Python, so a folder that is
replaced by a link meanwhile reveals nothing, and patterns keep their Python meaning.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from asyncagents.tools.process.program import find_program
from asyncagents.tools.search.required_literals import RequiredLiterals

LEAST_LETTERS = 3
"""Shorter literals are in nearly every file."""
_LEAST_FILES = 200
"""For fewer files ripgrep is not worth starting."""
_CHUNK_BYTES = 800_000
"""Most bytes of file names on one command line."""
_SECONDS = 60


def prefilter_files(root: str, names: Sequence[str], literals: RequiredLiterals) -> Sequence[str]:
    """Return the files that contain a literal; all files if ripgrep is missing, fails, or is not worth it."""
    if literals.shortest < LEAST_LETTERS or len(names) < _LEAST_FILES:
        return names
    program = find_program("rg", os.pathsep.join(os.get_exec_path()), outside=Path(root))
    if program is None:
        return names
    found: set[str] = set()
    for chunk in _chunks(names):
        done = _run_ripgrep(program, root, chunk, literals)
        if done is None:
            return names
        found.update(done)
    return [name for name in names if name in found]


def _chunks(names: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for name in names:
        size += len(os.fsencode(name)) + 16
        if size > _CHUNK_BYTES and chunk:
            yield chunk
            chunk, size = [], len(os.fsencode(name)) + 16
        chunk.append(name)
    if chunk:
        yield chunk


def _run_ripgrep(program: str, root: str, names: list[str], literals: RequiredLiterals) -> list[str] | None:
    """Run ripgrep; return the files with a match, or None if it failed for any file."""
    options = "--no-config --files-with-matches --null --fixed-strings --text --encoding none --no-messages"
    words = [
        program,
        *options.split(),
        *(("--ignore-case",) if literals.any_case else ()),
        *(f"--regexp={each.decode()}" for each in literals.any_of),
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
