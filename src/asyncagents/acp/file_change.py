"""Show the changes that a call makes to files: which files, and their lines before and after."""

import re
from typing import Any

from msgspec import Struct

from asyncagents.acp.shape import DiffContent
from asyncagents.domain.text import shorten_middle

MAX_TEXT = 60_000
"""Characters of one text of a diff that are sent; the rest stays in the session."""
MAX_HUNKS = 50
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)


def absolute(path: str, directory: str) -> str:
    return path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def patched_paths(patch: str, directory: str) -> list[str]:
    """Return the files that the text of a patch names."""
    return [absolute(path.strip(), directory) for path in dict.fromkeys(_PATCHED.findall(patch))]


def show_changes(
    tool: str, arguments: dict[str, Any], metadata: dict[str, Any], directory: str
) -> tuple[DiffContent, ...]:
    """Return the changes of a call. Without a whole diff, `write` shows its content and `patch` nothing."""
    path, diff = arguments.get("filePath"), metadata.get("diff")
    hunks = read_hunks(diff) if isinstance(diff, str) and tool != "edit" else ()
    match tool, arguments:
        case "edit", {"oldString": str(old), "newString": str(new)} if isinstance(path, str):
            return (_show(absolute(path, directory), old, new),)
        case "write", {"content": str(new)} if isinstance(path, str):
            name = absolute(path, directory)
            return tuple(_show(name, each.old, each.new) for each in hunks or (FileHunk(name, None, new),))
        case "patch", _:
            return tuple(_show(_find(each.name, metadata, directory), each.old, each.new) for each in hunks)
        case _:
            return ()


def _show(path: str, old: str | None, new: str) -> DiffContent:
    before = None if old is None else shorten_middle(old, MAX_TEXT)
    return DiffContent(path=path, old_text=before, new_text=shorten_middle(new, MAX_TEXT))


def _find(name: str, metadata: dict[str, Any], directory: str) -> str:
    """Return the path of a file that a diff names relative to the project."""
    files = metadata.get("files")
    known = [each for each in files if isinstance(each, str)] if isinstance(files, list) else []
    fitting = [each for each in known if each == name or each.endswith(f"/{name}")]
    return min(fitting, key=len) if fitting else absolute(name, directory)


class FileHunk(Struct, frozen=True):
    """Lines of a file before and after; `old` is None if there was no such file."""

    name: str
    old: str | None
    new: str


def read_hunks(diff: str) -> tuple[FileHunk, ...]:
    """Read the hunks of a unified diff of ours; none if it was cut, holds anything else, or is too long."""
    lines = diff.split("\n")
    lines.pop()  # what follows the last line feed
    hunks: list[FileHunk] = []
    name, at = "", 0
    while at < len(lines):
        header = _HUNK.fullmatch(lines[at])
        if header and name:
            sizes = tuple(int(each if each is not None else 1) for each in header.groups())
            hunk, at = _read_hunk(lines, at + 1, name, sizes)
            if hunk is None or len(hunks) == MAX_HUNKS:
                return ()
            hunks.append(hunk)
        elif lines[at].startswith("--- ") and lines[at + 1 : at + 2] == [f"+++ {lines[at][4:]}"]:
            name, at = lines[at][4:], at + 2
        else:
            return ()
    return tuple(hunks)


def _read_hunk(lines: list[str], at: int, name: str, sizes: tuple[int, ...]) -> tuple[FileHunk | None, int]:
    """Read a hunk from its first line on; its header has counted the lines, as any text may be in them."""
    left, right = sizes
    old: list[str] = []
    new: list[str] = []
    while len(old) < left or len(new) < right:
        kind, text = (lines[at][:1], f"{lines[at][1:]}\n") if at < len(lines) else ("", "")
        at += 1
        if kind not in (" ", "-", "+"):
            return None, at
        ends = lines[at : at + 1] == ["\\ No newline at end of file"]
        at += ends
        text = text[:-1] if ends else text
        if kind != "+":
            old.append(text)
        if kind != "-":
            new.append(text)
    return FileHunk(name, "".join(old) if left else None, "".join(new)), at
