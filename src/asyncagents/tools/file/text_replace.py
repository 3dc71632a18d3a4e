"""Find and replace text: exactly or, if there is a single candidate, approximately."""

import re
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from asyncagents.domain.envelope import unescape_tags
from asyncagents.errors import ToolError
from asyncagents.tools.file.text import MOST_TEXT, ending_converter

_MOST_LINES_NAMED = 5
_MOST_MATCHES = 100
"""Approximate matches are counted up to this; only a single one is used."""
_ESCAPE = re.compile(r"\\([nrt'\"`\\$])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class NoMatch(ToolError):
    """The text to replace does not occur, or occurs more than once."""


Matches: TypeAlias = tuple[list[tuple[int, int]], Callable[[int, int], str]]
"""Spans of the text that match, and a function that builds the replacement of a span."""


def replace_text(text: str, old: str, new: str, *, every: bool = False) -> str:
    """Replace `old` by `new` once, or everywhere with `every`.

    Raises `NoMatch`, which names the number of matches and what to do.
    """
    if not old:
        raise NoMatch("oldString is empty: name the text to replace, or use write to make a file.")
    if old == new:
        raise NoMatch("oldString and newString are the same, so there is nothing to change.")
    ending = ending_converter(text)
    for wanted, fitted in ((old, ending(new)), (ending(old), ending(new))):
        count = text.count(wanted)
        if count == 1 or (count and every):
            check_size(len(text) + count * (len(fitted) - len(wanted)))
            return text.replace(wanted, fitted)
        if count:
            raise NoMatch(_many_matches(text, wanted, count))
    return _replace_nearly(text, old, new)


def check_size(characters: int) -> None:
    """Raise `NoMatch` if the result is too large: many replacements or indents could exhaust the memory."""
    if characters > MOST_TEXT:
        raise NoMatch(
            f"The file would have more than {MOST_TEXT // 1024**2} Mi characters, so nothing was changed: "
            "change it with a command."
        )


def _many_matches(text: str, wanted: str, count: int) -> str:
    lines: list[str] = []
    at = -1
    while len(lines) < _MOST_LINES_NAMED and (at := text.find(wanted, at + 1)) >= 0:
        lines.append(str(text.count("\n", 0, at) + 1))
    more = ", …" if count > len(lines) else ""
    return (
        f"oldString occurs {count} times (lines {', '.join(lines)}{more}): add neighbouring lines "
        "until it is unique, or set replaceAll."
    )


def _replace_nearly(text: str, old: str, new: str) -> str:
    if old.strip():
        for way in (_by_trailing_space, _by_indentation, _by_escapes, _by_enclosed_tags):
            spans, fit = way(text, old, new)
            if len(spans) == 1:
                start, end = spans[0]
                return text[:start] + ending_converter(text)(fit(start, end)) + text[end:]
            if spans:
                count = f"{len(spans)}{' or more' if len(spans) == _MOST_MATCHES else ''}"
                raise NoMatch(
                    f"oldString is not in the file exactly, and nearly in {count} places: "
                    "read the file again and copy the text with more of its neighbouring lines."
                )
    raise NoMatch(
        "oldString was found 0 times in the file: read the file again and copy the text exactly, "
        "with its indentation and without line numbers."
    )


def _by_trailing_space(text: str, old: str, new: str) -> Matches:
    return _line_spans(text, old, str.rstrip), lambda start, end: _trim_new(new, old)


def _by_indentation(text: str, old: str, new: str) -> Matches:
    def fit(start: int, end: int) -> str:
        return reindent(_trim_new(new, old), indent_of(old), indent_of(text[start:end]))

    return _line_spans(text, old, str.strip), fit


def _by_escapes(text: str, old: str, new: str) -> Matches:
    """Match text that the model escaped once too often."""
    return _find_plain(text, old, _unescape(old)), lambda start, end: _unescape(new)


def _by_enclosed_tags(text: str, old: str, new: str) -> Matches:
    """Match text that the model copied from an envelope, in which our tags are escaped."""
    return _find_plain(text, old, unescape_tags(old)), lambda start, end: unescape_tags(new)


def _find_plain(text: str, old: str, meant: str) -> list[tuple[int, int]]:
    plain = ending_converter(text)(meant)
    if plain == old or not plain:
        return []
    found = islice(re.finditer(re.escape(plain), text), _MOST_MATCHES)
    return [match.span() for match in found]


def _line_spans(text: str, old: str, trim: Callable[[str], str]) -> list[tuple[int, int]]:
    """Find whole lines that equal those of `old` once trimmed: start, and end without the line ending.

    At most `_MOST_MATCHES`: they may overlap, and each costs the length of `old`.
    """
    lines = text.split("\n")
    trimmed = "\n" + "\n".join(map(trim, lines)) + "\n"
    wanted = "\n" + "\n".join(map(trim, old.removesuffix("\n").split("\n"))) + "\n"
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans: list[tuple[int, int]] = []
    at = line_at = counted = 0
    while len(spans) < _MOST_MATCHES and (at := trimmed.find(wanted, at)) >= 0:
        line_at += trimmed.count("\n", counted, at)
        counted = at
        last = line_at + wanted.count("\n") - 1
        spans.append(_trim_span(text, (starts[line_at], starts[last] - 1)))
        at += 1
    return spans


def _trim_span(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Exclude the \\r of the last line ending from the span: `old` is matched without its own."""
    start, end = span
    return start, end - 1 if end > start and text[end - 1] == "\r" and end < len(text) else end


def _trim_new(new: str, old: str) -> str:
    return new.removesuffix("\n").removesuffix("\r") if old.endswith("\n") else new


def indent_of(block: str) -> str:
    line = next((line for line in block.split("\n") if line.strip()), "")
    return line[: len(line) - len(line.lstrip())]


def reindent(new: str, was: str, now: str) -> str:
    """Replace the indent `was` of each line by `now`."""
    lines = new.split("\n")
    check_size(len(new) + len(lines) * len(now))
    return "\n".join(
        now + line[len(was) :] if line.strip() and line.startswith(was) else line for line in lines
    )


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)
