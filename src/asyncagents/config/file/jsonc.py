"""Parse JSON with comments and trailing commas; errors say where and what to do."""

import json
import math
import re
from typing import Any, NoReturn

from asyncagents.errors import ConfigError

MAX_DEPTH = 100
MAX_INT = 2**53 - 1
"""The largest integer that is exact in JSON; OpenCode accepts no larger one."""

# Matches unclosed strings too: else each quote inside would be tried as the start of another.
_STRING = r'"(?:\\[^\n]|[^"\\\n])*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|/\*", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]")

_HINTS = {
    "Expecting property name enclosed in double quotes": "write a key in double quotes here",
    "Expecting ',' delimiter": "write a comma, or close what is open, before this",
    "Expecting ':' delimiter": "write a colon between the key and its value",
    "Expecting value": "write a value here: strings and {env:…} need double quotes",
    "Extra data": "remove what follows the end of the object",
    "Illegal trailing comma before end of object": "remove this comma",
    "Illegal trailing comma before end of array": "remove this comma",
    "Invalid control character at": "close the string with a double quote, or write \\n or \\t here",
    "Unterminated string starting at": "close this string with a double quote",
}


def parse(text: str, label: str) -> Any:
    """Parse `text`; errors name `label`, line and column. A blank text is an empty object."""
    bare = _TRAILING_COMMA.sub(_without_comma, _without_comments(text, label))
    if not bare.strip():
        return {}
    _refuse_depth(bare, label)
    try:
        value = json.loads(bare, parse_int=_int, parse_float=_float, parse_constant=_float)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        _fail(label, bare, at=error.pos, hint=_HINTS.get(error.msg, "write JSON here"))
    except UnicodeEncodeError as error:
        raise ConfigError(f"{label} contains an unpaired surrogate: write \\u escapes in pairs") from error
    except ValueError as error:
        raise ConfigError(f"{label} holds a number that is too large: write one below 2^53") from error
    return value


def _without_comments(text: str, label: str) -> str:
    """Replace comments by blanks, so that positions stay the same."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found == "/*":
            _fail(label, text, at=match.start(), hint="close this comment with */")
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _COMMENT.sub(blank, text)


def _without_comma(match: re.Match[str]) -> str:
    return " " if match[0] == "," else match[0]


def _refuse_depth(text: str, label: str) -> None:
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            _fail(label, text, at=match.start(), hint=f"nest no deeper than {MAX_DEPTH} brackets")


def _int(text: str) -> int:
    number = int(text)
    if abs(number) > MAX_INT:
        raise ValueError(text)
    return number


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _fail(label: str, text: str, *, at: int, hint: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    # Not chained to the parser's error, which contains the whole text with its keys.
    raise ConfigError(f"{label} is not valid JSON at line {line}, column {column}: {hint}") from None
