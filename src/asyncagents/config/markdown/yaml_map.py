"""Parse a map in YAML without anchors, aliases, tags and merge keys.

The values are built from the parser's events, so that YAML's own types are never made: `yes`, `on` and dates
stay strings, and only `true`, `false`, `null` and decimal numbers are not.
"""

import json
import re
from typing import Any, NoReturn, TypeAlias

import yaml

from asyncagents.errors import ConfigError

MAX_DEPTH = 6
_Mark: TypeAlias = Any
"""A place in the text; PyYAML has a class for it, and libyaml another."""
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,99}\.?[0-9]{0,99}|\.[0-9]{1,99})(?:[eE][-+]?[0-9]{1,2})?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
# YAML refuses control characters and takes some for line ends: they stand in a private area meanwhile.
_CONTROLS = [*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF]
_HIDE = {code: 0x100000 + code for code in _CONTROLS}
_SHOW = {0x100000 + code: code for code in _CONTROLS}

_NO_COLON = "has no colon after its key: write key: value"
_BAD_ESCAPE = "has an invalid escape: write \\\\ for a backslash"
_TOO_FAR = "is indented too far: put it under its key, or use | for long texts"
_NOT_CLOSED = "has a {} that is not closed: close it, or quote the texts in it"
# Parts of the messages of PyYAML and libyaml, which name either the place of the problem or its beginning.
_AT_BEGINNING = {
    "simple key": _NO_COLON,
    "quoted scalar found unexpected": _NOT_CLOSED,
    "flow sequence": _NOT_CLOSED,
    "flow mapping": _NOT_CLOSED,
}
_AT_PROBLEM = {
    "escape": _BAD_ESCAPE,
    "hexdecimal": _BAD_ESCAPE,
    "values are not allowed": _TOO_FAR,
    "document start": "begins a second document: remove it",
}


def parse_yaml_map(lines: list[str], *, first_line: int) -> dict[str, Any]:
    """Parse the lines; raises `ConfigError` with the line's number, counted from `first_line`."""
    reader = _Reader(lines, first_line)
    try:
        return reader.read_root()
    except yaml.MarkedYAMLError as error:
        reader.refuse_syntax(error)


class _Reader:
    def __init__(self, lines: list[str], first_line: int) -> None:
        self._lines = lines
        self._first_line = first_line
        text = "\n".join([*lines, ""]).translate(_HIDE)
        self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def read_root(self) -> dict[str, Any]:
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return {}
        root = next(self._events)
        if isinstance(root, yaml.ScalarEvent):
            self._refuse(root.start_mark, _NO_COLON)
        if not isinstance(root, yaml.MappingStartEvent):
            self._refuse_start(root.start_mark)
        data: dict[str, Any] = self._read_value(root, 1)
        for _ in self._events:
            pass  # the end of the document, or an error
        return data

    def _read_value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag:
            self._refuse_start(event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            text = self._read_text(event)
            return text if event.style else _parse_scalar(text)
        if depth > MAX_DEPTH:
            self._refuse(event.start_mark, f"is nested more than {MAX_DEPTH} deep: make it flatter")
        if isinstance(event, yaml.MappingStartEvent):
            return self._read_map(depth)
        items = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._read_value(event, depth + 1))
        return items

    def _read_map(self, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
                self._refuse_start(event.start_mark)
            key = self._read_text(event)
            if key == "<<" and not event.style:
                self._refuse(event.start_mark, "has the merge key <<: write the keys out")
            if key in data:
                self._refuse(event.start_mark, f"has the key {json.dumps(key)} a second time: remove one")
            data[key] = self._read_value(next(self._events), depth + 1)
        return data

    def _read_text(self, event: yaml.ScalarEvent) -> str:
        text: str = event.value.translate(_SHOW)
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._refuse(event.start_mark, _BAD_ESCAPE)
        return text

    def refuse_syntax(self, error: yaml.MarkedYAMLError) -> NoReturn:
        """Raise `ConfigError` for an error of the parser."""
        found = f"{error.context} {error.problem}"
        place: _Mark = error.problem_mark
        beginning: _Mark = error.context_mark or place
        before = self._line(place)[: place.column + 1]
        if "\t" in before and before.isspace():
            self._refuse(place, "is indented with a tab: use spaces")
        for sentences, mark in ((_AT_BEGINNING, beginning), (_AT_PROBLEM, place)):
            for part, sentence in sentences.items():
                if part in found:
                    self._refuse(mark, sentence)
        if "block mapping" not in found and "block collection" not in found:
            self._refuse_start(beginning)
        if before[:-1].strip():
            self._refuse(place, "goes on after its value: quote all of it, or remove the rest")
        if before[:-1]:
            self._refuse(place, _TOO_FAR)
        self._refuse_start(place)

    def _refuse_start(self, mark: _Mark) -> NoReturn:
        """Raise `ConfigError` for a character that begins something unsupported."""
        if mark.line >= len(self._lines):
            self._refuse_open_bracket()
        is_first = not self._line(mark)[: mark.column].strip()
        self._refuse(mark, f"{'begins' if is_first else 'has a text that begins'} with {{}}: quote it")

    def _refuse_open_bracket(self) -> NoReturn:
        """Raise `ConfigError` for the last bracket, after which the lines end."""
        text = "\n".join(self._lines)
        place = max(text.rfind("["), text.rfind("{"))
        line, column = text.count("\n", 0, place), place - text.rfind("\n", 0, place) - 1
        self._refuse(yaml.Mark("", 0, line, column, None, 0), _NOT_CLOSED)

    def _refuse(self, mark: _Mark, why: str) -> NoReturn:
        """Raise `ConfigError` with the line's number; `{}` in the reason stands for the character there."""
        character = self._line(mark)[mark.column : mark.column + 1]
        raise ConfigError(f"line {mark.line + self._first_line} {why.replace('{}', character)}")

    def _line(self, mark: _Mark) -> str:
        return self._lines[mark.line] if mark.line < len(self._lines) else ""


def _parse_scalar(word: str) -> str | int | float | bool | None:
    if word.lower() in _WORDS and word in {word.lower(), word.upper(), word.capitalize()}:
        return _WORDS[word.lower()]
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word
