"""Find files that git's configuration names: hooks, programs, included configuration."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from asyncagents.tools.git.head import find_repository, read_small_file

_MOST_BYTES = 1024 * 1024
_MOST_FILES = 64
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"(?:\\.|[^"\\])*+")?\s*\](.*)')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")
# Sections whose values are branches, URLs or other settings, not programs.
_PLAIN_SECTIONS = frozenset({"remote", "branch", "submodule", "user", "url"})
_PROGRAM_SETTINGS = frozenset({"receivepack", "update", "uploadpack"})
"""Settings of those sections that are programs."""
_FOLDER_SETTINGS = frozenset({"hookspath", "path"})
# A value may be a shell script; it is split into words roughly.
_WORD_SEPARATORS = re.compile(r"""[\s;|&()<>'"`]+""")


def paths_named_by_git(root: str, home: str) -> tuple[str, ...]:
    """Return the absolute paths named by the git configuration of the repository at `root` or the user's."""
    repository = find_repository(Path(root))
    files = [Path(home, ".gitconfig"), Path(home, ".config", "git", "config")] if home else []
    if repository is not None:
        files += [repository.common / "config", repository.folder / "config.worktree"]
    found: dict[str, None] = {}
    waiting, seen = files, set[str]()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if str(file) in seen:
            continue
        seen.add(str(file))
        for section, name, value in _read_settings(
            read_small_file(file, _MOST_BYTES).decode("utf-8", "replace")
        ):
            included = section.startswith("include") and name == "path"
            for path in _paths_in_value(section, name, value):
                base = str(file.parent) if included else root
                full = os.path.normpath(os.path.join(base, _expand_home(path, home)))
                found[full] = None
                if included:
                    waiting.append(Path(full))
    return tuple(path for path in found if path != os.devnull and not _is_above(path, root))


def _read_settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield section, name and value; section and name in lower case."""
    section = ""
    for line in text.replace("\\\n", "").split("\n"):
        if head := _SECTION.match(line):
            section, line = head[1].lower(), head[2]
        if setting := _SETTING.match(line):
            yield section, setting[1].lower(), setting[2].strip()


def _paths_in_value(section: str, name: str, value: str) -> Iterator[str]:
    """Yield words that may be files: the whole value of a folder setting, words with a slash of a command."""
    if (section in _PLAIN_SECTIONS and name not in _PROGRAM_SETTINGS) or (section, name) == (
        "core",
        "worktree",
    ):
        return
    plain = re.sub(r"\s[#;].*$", "", value).strip().strip('"')
    if name in _FOLDER_SETTINGS:
        yield plain
        return
    try:
        words = shlex.split(plain.replace('\\"', '"').removeprefix("!"))
    except ValueError:
        words = plain.split()
    words += _WORD_SEPARATORS.split(plain.removeprefix("!"))
    yield from dict.fromkeys(word for word in words if "/" in word and "://" not in word)


def _expand_home(path: str, home: str) -> str:
    return home + path[1:] if path.startswith("~/") else path


def _is_above(path: str, root: str) -> bool:
    """Return whether a path is the root or contains it; such a folder does not identify a file."""
    return path in {"/", root} or root.startswith(path.rstrip("/") + "/")
