"""Match paths below a folder against a glob."""

import re
from collections.abc import Callable

from asyncagents.errors import ToolError
from asyncagents.tools.file.text import encode
from asyncagents.tools.search.gitignore import IgnoreRule, is_ignored

MOST_PATTERN = 1_000
MOST_CHOICES = 200
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ANY_DEPTH = "**"


def glob_filter(pattern: str, folder: tuple[str, ...]) -> Callable[[tuple[str, ...]], bool]:
    """Return a function that matches paths. A pattern without a slash matches a name at any depth, any other
    from the folder down. Raises `ToolError`."""
    encode(pattern, "The pattern")
    if not pattern.strip("/ "):
        raise ToolError("The pattern is empty; write one such as **/*.py.")
    if len(pattern) > MOST_PATTERN:
        raise ToolError(f"The pattern has more than {MOST_PATTERN} characters; use a shorter one.")
    wanted = tuple(IgnoreRule(folder, _split_segments(each)) for each in _expand_braces(pattern))
    return lambda parts: is_ignored(parts, wanted, folder=False)


def _expand_braces(pattern: str) -> list[str]:
    """Expand `{a,b}` to all alternatives, inner braces first."""
    waiting, done = [pattern], list[str]()
    while waiting:
        each = waiting.pop()
        found = _CHOICE.search(each)
        if found is None:
            done.append(each)
            continue
        waiting += [each[: found.start()] + choice + each[found.end() :] for choice in found[1].split(",")]
        if len(waiting) + len(done) > MOST_CHOICES:
            raise ToolError(f"The pattern has more than {MOST_CHOICES} choices in braces; use fewer.")
    return done


def _split_segments(pattern: str) -> tuple[str, ...]:
    segments = [each for each in pattern.split("/") if each not in {"", "."}]
    if ".." in segments:
        raise ToolError("The pattern goes up with '..'; name the folder in path instead.")
    if pattern.endswith("/"):
        segments.append(_ANY_DEPTH)
    elif "/" not in pattern:
        segments.insert(0, _ANY_DEPTH)
    if segments[-1:] == [_ANY_DEPTH]:
        segments.append("*")
    return tuple(segments)
