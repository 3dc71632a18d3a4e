"""Parse the front matter of a markdown file: a subset of YAML.

Supported: strings, numbers, true, false, null, lists, nested maps, `[…]` and `{…}` on one line, quoted
strings, and the blocks `|` and `>`. Anchors, tags and several documents are refused. Unlike YAML, a string
on the line of its key may contain `: `, as descriptions often do.
"""

import json
import re
from typing import NoReturn, TypeAlias

from msgspec import Struct

from asyncagents.errors import ConfigError

Value: TypeAlias = str | int | float | bool | list["Value"] | dict[str, "Value"] | None
Data: TypeAlias = dict[str, Value]

BAD_HEAD = "has a head that cannot be used"
MAX_LINES = 2000
MAX_DEPTH = 6
_FENCE = "---"
_BLOCK = re.compile(r"([|>])([+-]?)(?:\s+#.*)?")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'')
_KEY_END = re.compile(r"\s*:(?:\s+|$)")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,99}\.?[0-9]{0,99}|\.[0-9]{1,99})(?:[eE][-+]?[0-9]{1,2})?")
_WORDS: dict[str, Value] = {"": None, "~": None, "null": None, "true": True, "false": False}
# Characters that begin unsupported syntax; a string that starts with one must be quoted.
_RESERVED = "&*!%@`|>[]{},?"
_CLOSING = {"[": "]", "{": "}"}


class FrontMatter(Struct, frozen=True):
    data: Data
    body: str


class _LineError(ValueError):
    """The message describes the problem of a line and follows its number."""


class _Line(Struct, frozen=True):
    number: int
    indent: int
    text: str


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
    return FrontMatter(_Reader(lines[1:end]).read_all(), "\n".join(lines[end + 1 :]).strip())


class _Reader:
    def __init__(self, raw: list[str]) -> None:
        self._raw = raw
        self._at = 0

    def read_all(self) -> Data:
        line = self._next()
        if line is None:
            return {}
        if line.indent:
            _refuse(line.number, "is indented, though nothing stands above it: begin it at the margin")
        return self._map(0, 1)

    def _next(self) -> _Line | None:
        """Return the next line that is not blank or a comment, without consuming it."""
        while self._at < len(self._raw):
            raw, number = self._raw[self._at], self._at + 2
            text = raw.strip()
            if text and not text.startswith("#"):
                indent = len(raw) - len(raw.lstrip(" "))
                if raw[indent] == "\t":
                    _refuse(number, "is indented with a tab: use spaces")
                return _Line(number, indent, text)
            self._at += 1
        return None

    def _map(self, indent: int, depth: int) -> Data:
        if depth > MAX_DEPTH:
            _refuse(self._at + 2, f"is nested more than {MAX_DEPTH} deep: make it flatter")
        data: Data = {}
        while (line := self._next()) is not None and line.indent >= indent:
            if line.indent > indent:
                _refuse(line.number, "is indented too far: put it under its key, or use | for long texts")
            try:
                key, rest = _parse_key(line.text)
                if key in data:
                    _refuse(line.number, f"has the key {json.dumps(key)} a second time: remove one")
                self._at += 1
                data[key] = self._value(line, rest, depth)
            except _LineError as error:
                _refuse(line.number, str(error))
        return data

    def _value(self, line: _Line, rest: str, depth: int) -> Value:
        if block := _BLOCK.fullmatch(rest):
            return self._block(line, folded=block[1] == ">", chomp=block[2])
        if rest and not rest.startswith("#"):
            return _parse_complete_value(rest)
        below = self._next()
        if below is None:
            return None
        if _is_item(below.text) and below.indent >= line.indent:
            return self._list(below.indent)
        return self._map(below.indent, depth + 1) if below.indent > line.indent else None

    def _list(self, indent: int) -> list[Value]:
        items: list[Value] = []
        while (line := self._next()) is not None and line.indent == indent and _is_item(line.text):
            text = line.text[1:].strip()
            if _is_item(text) or not text or (text[0] not in "\"'[{" and ": " in text):
                _refuse(line.number, "must be a list of plain texts or numbers: quote the item")
            try:
                items.append(_parse_complete_value(text))
            except _LineError as error:
                _refuse(line.number, str(error))
            self._at += 1
        return items

    def _block(self, line: _Line, *, folded: bool, chomp: str) -> str:
        """Read the lines indented more than the key, including blank ones."""
        rows: list[str] = []
        while self._at < len(self._raw):
            raw = self._raw[self._at]
            if raw.strip() and len(raw) - len(raw.lstrip(" ")) <= line.indent:
                break
            rows.append(raw)
            self._at += 1
        margin = next((len(row) - len(row.lstrip(" ")) for row in rows if row.strip()), 0)
        if any(row[:margin].strip() for row in rows):
            _refuse(line.number, "begins a block whose first line is indented the most: align its lines")
        text = "\n".join(row[margin:].rstrip() if not row.strip() else row[margin:] for row in rows)
        kept = text.rstrip("\n")
        ends = {"-": "", "+": text[len(kept) :] + "\n"}.get(chomp, "\n") if kept else ""
        return (_fold(kept) if folded else kept) + ends


def _fold(text: str) -> str:
    """Join lines; a blank line is a line break, and lines with more indentation stay as they are."""
    folded, before, breaks = "", "", 0
    for row in text.split("\n"):
        if row:
            further = row.startswith(" ") or before.startswith(" ") or not before
            folded += ("\n" * breaks if further else "\n" * (breaks - 1) or " ") + row
            before, breaks = row, 0
        breaks += 1
    return folded


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _refuse(number: int, why: str) -> NoReturn:
    raise ConfigError(f"line {number} {why}")


def _parse_key(text: str) -> tuple[str, str]:
    """Split a line into its key and the text after the colon."""
    if text[0] in "\"'":
        key, rest = _parse_quoted(text)
        end = _KEY_END.match(rest)
        if end is None:
            raise _LineError("has no colon after its key: write key: value")
        return key, rest[end.end() :]
    if text[0] in _RESERVED or text == "-" or text.startswith("- "):
        raise _LineError(f"begins with {text[0]}: write key: value, and quote a key that begins so")
    place = text.find(": ")
    if place < 0 and not text.endswith(":"):
        raise _LineError("has no colon after its key: write key: value")
    key = (text[:place] if place >= 0 else text[:-1]).strip()
    return key, "" if place < 0 else text[place + 2 :].strip()


def _parse_complete_value(text: str) -> Value:
    """Parse a text that holds one value and an optional comment."""
    value, rest = _parse_value(text, "")
    if rest.strip() and not rest.lstrip().startswith("#"):
        raise _LineError("goes on after its value: quote all of it, or remove the rest")
    return value


def _parse_value(text: str, stops: str) -> tuple[Value, str]:
    """Parse the value at the start of a text; returns the rest too. In brackets it ends at one of `stops`."""
    match text[:1]:
        case '"' | "'":
            return _parse_quoted(text)
        case "[":
            return _parse_list(text)
        case "{":
            return _parse_map(text)
        case _:
            return _parse_plain(text, stops)


def _parse_plain(text: str, stops: str) -> tuple[Value, str]:
    if stops:
        end = next((place for place, character in enumerate(text) if character in stops), len(text))
    else:
        comment = re.search(r"\s#", text)
        end = comment.start() if comment else len(text)
    word = text[:end].strip()
    if word and word[0] in _RESERVED:
        raise _LineError(f"has a text that begins with {word[0]}: quote it")
    return _parse_scalar(word), text[end:]


def _parse_scalar(word: str) -> Value:
    if word.lower() in _WORDS and word in {word.lower(), word.upper(), word.capitalize()}:
        return _WORDS[word.lower()]
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


def _parse_quoted(text: str) -> tuple[str, str]:
    found = _QUOTED.match(text)
    if found is None:
        raise _LineError(f"has a {text[0]} that is not closed: close it on the same line")
    if text[0] == "'":
        return found[0][1:-1].replace("''", "'"), text[found.end() :]
    try:
        value = json.loads(found[0], strict=False)
        value.encode()
    except ValueError as error:
        raise _LineError("has an invalid escape: write \\\\ for a backslash") from error
    return value, text[found.end() :]


def _parse_list(text: str) -> tuple[Value, str]:
    items: list[Value] = []
    rest = text[1:].lstrip()
    while not rest.startswith("]"):
        _refuse_nesting(rest)
        item, rest = _parse_value(rest, ",]")
        items.append(item)
        rest = _skip_separator(rest, "[")
    return items, rest[1:]


def _parse_map(text: str) -> tuple[Value, str]:
    pairs: dict[str, Value] = {}
    rest = text[1:].lstrip()
    while not rest.startswith("}"):
        key, rest = _parse_quoted(rest) if rest[:1] in {'"', "'"} else _parse_plain_key(rest)
        end = _KEY_END.match(rest)
        if end is None or key in pairs:
            raise _LineError("has a { that holds no key: value, or a key twice: write {key: value}")
        _refuse_nesting(rest[end.end() :])
        pairs[key], rest = _parse_value(rest[end.end() :], ",}")
        rest = _skip_separator(rest, "{")
    return pairs, rest[1:]


def _parse_plain_key(text: str) -> tuple[str, str]:
    end = next((place for place, character in enumerate(text) if character in ":,}"), len(text))
    if not text[:end].strip() or text[0] in _RESERVED:
        raise _LineError("has a { that holds no key: value: write {key: value} on one line")
    return text[:end].strip(), text[end:]


def _refuse_nesting(rest: str) -> None:
    if rest[:1] in _CLOSING:
        raise _LineError("has brackets in brackets: write the outer one over several lines")


def _skip_separator(rest: str, opened: str) -> str:
    """Skip the comma after an item; at the closing bracket return the rest unchanged."""
    rest = rest.lstrip()
    if rest.startswith(","):
        return rest[1:].lstrip()
    if not rest.startswith(_CLOSING[opened]):
        raise _LineError(f"has a {opened} that is not closed: close it on the same line")
    return rest
