"""Match paths against `.gitignore` rules: the last matching line decides, a deeper file over its parents."""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import islice

from msgspec import Struct

MOST_LINES = 5_000
MOST_CHARACTERS = 128 * 1024
"""Characters read of one file; the rest is ignored."""
_MOST_LINE = 1_000
_GLOBS_PER_EXPRESSION = 200
"""Globs that are compiled into one regular expression."""
_ANY_DEPTH = "**"
_WILD = frozenset("*?[\\")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class IgnoreRule(Struct, frozen=True):
    folder: tuple[str, ...]
    """The folder of the `.gitignore`; the rule applies below it."""
    pattern: tuple[str, ...]
    """One glob for each segment of a path; `**` matches any number of segments."""
    keep: bool = False
    only_folders: bool = False


def parse_rules(lines: Iterable[str], folder: tuple[str, ...] = ()) -> tuple[IgnoreRule, ...]:
    """Parse the lines of a file in `folder`."""
    first_lines, left = list[str](), MOST_CHARACTERS
    for line in islice(lines, MOST_LINES):
        left -= len(line)
        if left < 0:
            break
        first_lines.append(line)
    found = (_parse_rule(line, folder) for line in first_lines)
    return tuple(rule for rule in found if rule is not None)


def is_ignored(parts: tuple[str, ...], rules: Sequence[IgnoreRule], *, folder: bool) -> bool:
    """Return whether a path is ignored whose folders are not: nothing in an ignored folder is re-included."""
    for rule in reversed(rules):
        if (folder or not rule.only_folders) and _matches_rule(rule, parts):
            return not rule.keep
    return False


class _LastNames:
    """A fast first test for the rules of one file: a rule's last glob must match a path's last segment."""

    def __init__(self, rules: Sequence[IgnoreRule]) -> None:
        last = list(dict.fromkeys(rule.pattern[-1] for rule in rules))
        self._plain = frozenset(glob for glob in last if _WILD.isdisjoint(glob))
        self._globs = [glob for glob in last if not _WILD.isdisjoint(glob)]

    def may_fit(self, name: str) -> bool:
        return name in self._plain or any(each.match(name) for each in self._expressions)

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], ...]:
        pieces = range(0, len(self._globs), _GLOBS_PER_EXPRESSION)
        return tuple(
            re.compile("|".join(map(_translate_glob, self._globs[start : start + _GLOBS_PER_EXPRESSION])))
            for start in pieces
        )


class IgnoreRules:
    """The rules that apply in a folder, with a fast first test, since most names match none."""

    def __init__(self, rules: Sequence[IgnoreRule] = (), tests: tuple[_LastNames, ...] | None = None) -> None:
        self.rules = tuple(rules)
        self._tests = tests if tests is not None else (_LastNames(self.rules),)

    def extend(self, more: Sequence[IgnoreRule]) -> "IgnoreRules":
        """Return these rules with those of a deeper folder."""
        return IgnoreRules((*self.rules, *more), (*self._tests, _LastNames(more))) if more else self

    def ignores(self, parts: tuple[str, ...], *, folder: bool) -> bool:
        """Return the same as `is_ignored`."""
        return any(each.may_fit(parts[-1]) for each in self._tests) and is_ignored(
            parts, self.rules, folder=folder
        )


def _matches_rule(rule: IgnoreRule, parts: tuple[str, ...]) -> bool:
    if parts[: len(rule.folder)] != rule.folder:
        return False
    names = parts[len(rule.folder) :]
    at: set[int] = {0}  # all positions at once, so that no pattern takes exponential time
    for glob in rule.pattern:
        if glob == _ANY_DEPTH:
            at = set(range(min(at), len(names) + 1))
        else:
            at = {each + 1 for each in at if each < len(names) and _matches_glob(glob, names[each])}
        if not at:
            return False
    return len(names) in at


def _matches_glob(glob: str, name: str) -> bool:
    return glob == name if _WILD.isdisjoint(glob) else _compile_glob(glob).match(name) is not None


# Larger than the lines of a file, or each entry would evict the next one needed.
@lru_cache(maxsize=2 * MOST_LINES)
def _compile_glob(glob: str) -> re.Pattern[str]:
    return re.compile(_translate_glob(glob))


def _translate_glob(glob: str) -> str:
    """Translate a glob to a regular expression; fnmatch's translation does not backtrack."""
    return fnmatch.translate(_ESCAPED.sub(_unescape_literal, glob.replace("[^", "[!")))


def _unescape_literal(escaped: re.Match[str]) -> str:
    return f"[{escaped[1]}]" if escaped[1] in "*?[" else escaped[1]


def _parse_rule(line: str, folder: tuple[str, ...]) -> IgnoreRule | None:
    line = _trim_line(line)
    if not line or line.startswith("#") or len(line) > _MOST_LINE:
        return None
    keep = line.startswith("!")
    line = line.removeprefix("!")
    only_folders = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    pattern = line.removeprefix("/").split("/")
    if "/" not in line:
        pattern.insert(0, _ANY_DEPTH)
    if pattern[-1] == _ANY_DEPTH:
        pattern.append("*")
    return IgnoreRule(folder, tuple(pattern), keep, only_folders)


def _trim_line(line: str) -> str:
    """Strip the line end, and trailing spaces except one after a backslash."""
    line = line.rstrip("\r\n")
    bare = line.rstrip(" ")
    return f"{bare} " if bare.endswith("\\") and bare != line else bare
