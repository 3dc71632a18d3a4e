"""Parse the front matter of a markdown file: YAML, and texts such as `a: b` that YAML refuses as a value."""

import json
import re
from typing import TypeAlias

from msgspec import Struct

from asyncagents.errors import ConfigError

Value: TypeAlias = str | int | float | bool | list["Value"] | dict[str, "Value"] | None
Data: TypeAlias = dict[str, Value]

BAD_HEAD = "has a head that cannot be used"
MAX_LINES = 2000
_FENCE = "---"
_KEY = r""" "(?:[^"\\]|\\.)*" | '(?:[^']|'')*' | (?!-[ ])[^"'\s\#\[{](?:(?!:\s).)* """
# Indentation and dashes, key, value.
_ENTRY = re.compile(rf"([ ]*(?:-[ ]+)*) ({_KEY}) :\s+ ([^\s\#].*)", re.VERBOSE)
_TEXT = re.compile(r"-(?: |$)|(?![\"'|>\[{&*!%@`#]).*:(?: |$)")
# Claude Code shows `[number] [title]` as it is.
_HINT = re.compile(r"argument-hint[^\"'|>].*")
_COMMENT = re.compile(r"\s#.*")
_ESCAPE = re.compile(r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|.)")


class FrontMatter(Struct, frozen=True):
    data: Data
    body: str


def parse_front_matter(text: str) -> FrontMatter | None:
    """Parse the front matter and the body; None without front matter. Raises `ConfigError` with the line."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return None
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == _FENCE), None)
    if end is None:
        raise ConfigError("line 1: the head is not closed: end it with a line of ---")
    if end > MAX_LINES:
        raise ConfigError(f"line {MAX_LINES}: the head is longer than {MAX_LINES} lines: shorten it")
    return FrontMatter(_parse_head(lines[1:end]), "\n".join(lines[end + 1 :]).strip())


def _parse_head(lines: list[str]) -> Data:
    from asyncagents.config.markdown.yaml_map import parse_yaml_map  # start-up

    try:
        return parse_yaml_map(lines, first_line=2)
    except ConfigError:
        quoted = _quote_texts(lines)
        if quoted == lines:
            raise
    return parse_yaml_map(quoted, first_line=2)


def _quote_texts(lines: list[str]) -> list[str]:
    """Quote texts that OpenCode and Claude Code accept though YAML refuses them; lines keep their numbers."""
    result: list[str] = []
    while lines:
        entry = _ENTRY.fullmatch(lines[0])
        count = 1 + (_count_continuation(lines[1:], len(entry[1])) if entry else 0)
        if entry and (_TEXT.match(entry[3]) or _HINT.fullmatch(entry[2] + entry[3])):
            text = "\n".join([_COMMENT.sub("", entry[3]), *lines[1:count]]).rstrip()
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            result += f'{entry[1]}{entry[2]}: "{escaped}"'.split("\n")
        else:
            result += lines[:count]
        lines = lines[count:]
    return _ESCAPE.sub(_join_surrogates, "\n".join(result)).split("\n")


def _count_continuation(lines: list[str], indent: int) -> int:
    """Count the lines that continue a value: up to the last one that is indented more than its key."""
    count = 0
    for number, line in enumerate(lines, 1):
        if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
            break
        count = number if line.strip() else count
    return count


def _join_surrogates(escape: re.Match[str]) -> str:
    """Return the character of two escapes of JSON, which YAML does not join; other escapes stay."""
    return str(json.loads(f'"{escape[0]}"')) if escape[1] else escape[0]
