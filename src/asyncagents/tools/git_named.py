"""Files that git's configuration names: hooks, programs, further configuration."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from asyncagents.tools.git_head import find_repository, small_file

_MOST_BYTES = 1024 * 1024
_MOST_FILES = 64
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"(?:\\.|[^"\\])*+")?\s*\](.*)')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")
# Sections whose values are names of branches and addresses, and settings that are no program.
_PLAIN = frozenset({"remote", "branch", "submodule", "user", "url"})
_PROGRAMS = frozenset({"receivepack", "update", "uploadpack"})
"""Settings of those sections that are."""
_FOLDERS = frozenset({"hookspath", "path"})
# A value may be a script of a shell; its words are taken apart roughly.
_PARTING = re.compile(r"""[\s;|&()<>'"`]+""")


def paths_named_by_git(root: str, home: str) -> tuple[str, ...]:
    """Find absolute paths that the configuration of the repository at `root`, or the user's, names."""
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
        for section, name, value in _settings(small_file(file, _MOST_BYTES).decode("utf-8", "replace")):
            included = section.startswith("include") and name == "path"
            for path in _paths(section, name, value):
                base = str(file.parent) if included else root
                full = os.path.normpath(os.path.join(base, _at_home(path, home)))
                found[full] = None
                if included:
                    waiting.append(Path(full))
    return tuple(path for path in found if path != os.devnull and not _is_above(path, root))


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value, in small letters but for the value."""
    section = ""
    for line in text.replace("\\\n", "").split("\n"):
        if head := _SECTION.match(line):
            section, line = head[1].lower(), head[2]
        if setting := _SETTING.match(line):
            yield section, setting[1].lower(), setting[2].strip()


def _paths(section: str, name: str, value: str) -> Iterator[str]:
    """Words that may be files: of a folder the whole value, of a command those with a slash."""
    if (section in _PLAIN and name not in _PROGRAMS) or (section, name) == ("core", "worktree"):
        return
    plain = re.sub(r"\s[#;].*$", "", value).strip().strip('"')
    if name in _FOLDERS:
        yield plain
        return
    try:
        words = shlex.split(plain.replace('\\"', '"').removeprefix("!"))
    except ValueError:
        words = plain.split()
    words += _PARTING.split(plain.removeprefix("!"))
    yield from dict.fromkeys(word for word in words if "/" in word and "://" not in word)


def _at_home(path: str, home: str) -> str:
    return home + path[1:] if path.startswith("~/") else path


def _is_above(path: str, root: str) -> bool:
    """A folder that has the whole project in it says nothing of a file."""
    return path in {"/", root} or root.startswith(path.rstrip("/") + "/")
