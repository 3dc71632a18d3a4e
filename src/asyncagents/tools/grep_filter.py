"""Which files can be left out of a search: those without the letters that every match must have.

With ripgrep that is fast. It only says which files are worth a look: what is told of them is read through the
file door, so a folder swapped for a link meanwhile gives nothing away, and patterns mean what they meant.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence

SHORTEST = 3
"""Fewer letters are everywhere."""
# Choices, groups, and letters by their numbers: then it is not looked into.
_OTHERWISE = re.compile(r"(^|[^\\])(\\\\)*[()|]|\\[xuUN0-9]")
_WORTH_IT = 200
"""For fewer files another program is not worth starting."""
_CHUNK = 800_000
"""So many bytes of names at a time: a command line has an end."""
_SECONDS = 60


def required(pattern: str) -> bytes:
    """The longest run of letters that is in every match; empty if none is known."""
    if _OTHERWISE.search(pattern):
        return b""
    runs = [""]
    marks = iter(pattern)
    for mark in marks:
        match mark:
            case "\\":
                letter = next(marks, "")
                runs[-1:] = [runs[-1], ""] if letter.isalnum() else [runs[-1] + letter]
            case "[":
                _skip_class(marks)
                runs.append("")
            case "*" | "?" | "{":  # the letter before it may be missing
                runs[-1:] = [runs[-1][:-1], ""]
                if mark == "{":
                    _skip(marks, "}")
            case "." | "^" | "$" | "+" | "}":
                runs.append("")
            case _:
                runs[-1] += mark
    longest = max(runs, key=len)
    return longest.encode() if len(longest) >= SHORTEST and longest.isascii() and "\n" not in longest else b""


def _skip_class(marks: Iterator[str]) -> None:
    """To the end of `[…]`; a `]` that comes first is one of its characters."""
    first = next(marks, "")
    first = next(marks, "") if first == "^" else first
    if first == "\\":
        next(marks, "")
    for mark in marks:
        if mark == "\\":
            next(marks, "")
        elif mark == "]":
            return


def _skip(marks: Iterator[str], end: str) -> None:
    for mark in marks:
        if mark == end:
            return


def worth_a_look(root: str, names: Sequence[str], letters: bytes) -> Sequence[str]:
    """Those of the files that have the letters; all of them where that cannot be told quickly."""
    program = shutil.which("rg")
    if not letters or len(names) < _WORTH_IT or program is None or not os.path.isabs(program):
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


def _run(program: str, root: str, names: list[str], letters: bytes) -> list[str] | None:
    """None: it failed for some of them, and does not say for which."""
    options = "--no-config --files-with-matches --null --fixed-strings --text --encoding none --no-messages"
    words = [
        program,
        *options.split(),
        f"--regexp={letters.decode()}",
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
