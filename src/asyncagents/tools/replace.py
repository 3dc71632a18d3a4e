"""One piece of text found in another: exactly, or forgivingly when only one place can be meant."""

import re
from collections.abc import Callable

from msgspec import Struct

from asyncagents.domain.envelope import opened
from asyncagents.errors import ToolError
from asyncagents.tools.text import endings_of

_SHOWN = 5
_ESCAPE = re.compile(r"\\([nrt'\"`\\$])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class NoMatch(ToolError):
    """What was to be replaced is not there, or not there once."""


class Found(Struct, frozen=True):
    """A stretch of the text, and what is to stand there."""

    start: int
    end: int
    new: str


def replace(text: str, old: str, new: str, *, every: bool = False) -> str:
    """`NoMatch` says how many places there are and what to do."""
    if not old:
        raise NoMatch("oldString is empty: name the text to replace, or use write to make a file.")
    if old == new:
        raise NoMatch("oldString and newString are the same, so there is nothing to change.")
    ending = endings_of(text)
    for wanted, fitted in ((old, ending(new)), (ending(old), ending(new))):
        count = text.count(wanted)
        if count == 1 or (count and every):
            return text.replace(wanted, fitted)
        if count:
            raise NoMatch(_many(text, wanted, count))
    return _forgiving(text, old, new)


def _many(text: str, wanted: str, count: int) -> str:
    lines: list[str] = []
    at = -1
    while len(lines) < _SHOWN and (at := text.find(wanted, at + 1)) >= 0:
        lines.append(str(text.count("\n", 0, at) + 1))
    more = ", …" if count > len(lines) else ""
    return (
        f"oldString occurs {count} times (lines {', '.join(lines)}{more}): add neighbouring lines "
        "until it is unique, or set replaceAll."
    )


def _forgiving(text: str, old: str, new: str) -> str:
    if old.strip():
        for way in (_by_trailing_space, _by_indentation, _by_escapes, _by_enclosed_tags):
            found = way(text, old, new)
            if len(found) == 1:
                at = found[0]
                return text[: at.start] + endings_of(text)(at.new) + text[at.end :]
            if found:
                raise NoMatch(
                    f"oldString is not in the file exactly, and nearly in {len(found)} places: "
                    "read the file again and copy the text with more of its neighbouring lines."
                )
    raise NoMatch(
        "oldString was found 0 times in the file: read the file again and copy the text exactly, "
        "with its indentation and without line numbers."
    )


def _by_trailing_space(text: str, old: str, new: str) -> list[Found]:
    return [Found(*_cut(text, span, old), _cut_new(new, old)) for span in _line_spans(text, old, str.rstrip)]


def _by_indentation(text: str, old: str, new: str) -> list[Found]:
    found = []
    for start, end in _line_spans(text, old, str.strip):
        fitted = indented(_cut_new(new, old), indent_of(old), indent_of(text[start:end]))
        found.append(Found(*_cut(text, (start, end), old), fitted))
    return found


def _by_escapes(text: str, old: str, new: str) -> list[Found]:
    """The model escaped once too often."""
    return _find_plain(text, old, _unescaped(old), _unescaped(new))


def _by_enclosed_tags(text: str, old: str, new: str) -> list[Found]:
    """The model copied what it read, where tags of ours are enclosed."""
    return _find_plain(text, old, opened(old), opened(new))


def _find_plain(text: str, old: str, meant: str, new: str) -> list[Found]:
    plain = endings_of(text)(meant)
    if plain == old or not plain:
        return []
    spans = [match.start() for match in re.finditer(re.escape(plain), text)]
    return [Found(start, start + len(plain), new) for start in spans]


def _line_spans(text: str, old: str, trim: Callable[[str], str]) -> list[tuple[int, int]]:
    """Where whole lines of the text equal those of `old` once trimmed: start, and end without line feed."""
    lines = text.split("\n")
    trimmed = "\n" + "\n".join(map(trim, lines)) + "\n"
    wanted = "\n" + "\n".join(map(trim, old.removesuffix("\n").split("\n"))) + "\n"
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    spans = []
    at = line_at = counted = 0
    while (at := trimmed.find(wanted, at)) >= 0:
        line_at += trimmed.count("\n", counted, at)
        counted = at
        last = line_at + wanted.count("\n") - 1
        spans.append((starts[line_at], starts[last] - 1))
        at += 1
    return spans


def _cut(text: str, span: tuple[int, int], old: str) -> tuple[int, int]:
    """The line ending of the last line stays: `old` is read without its own."""
    start, end = span
    return start, end - 1 if end > start and text[end - 1] == "\r" and end < len(text) else end


def _cut_new(new: str, old: str) -> str:
    return new.removesuffix("\n").removesuffix("\r") if old.endswith("\n") else new


def indent_of(block: str) -> str:
    line = next((line for line in block.split("\n") if line.strip()), "")
    return line[: len(line) - len(line.lstrip())]


def indented(new: str, was: str, now: str) -> str:
    """The new lines, moved as far as the old ones stand from where the model thought they were."""
    lines = new.split("\n")
    return "\n".join(
        now + line[len(was) :] if line.strip() and line.startswith(was) else line for line in lines
    )


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)
