"""Slash commands: a template is split into pieces first and only then filled.

So nothing that is typed after the name can become a piece. In a template,

* `$ARGUMENTS` is all that was typed; `$1` to `$9` are its words, and the highest of them in the template
  takes all remaining words. `$10` is not a placeholder. Without any, the arguments follow after a blank line.
* ``!`command` `` is for the shell, in fenced code too; not right after a letter, a backslash or a backtick.
* `@path` is a file at the start of a word: not in an e-mail address, in code (fenced or between backticks)
  or in a call such as `@app.route("/")`. A bare `@name` is one; if there is no such file, it may be an
  agent's name or a plain word, and `FilePiece.text` is what was written.
"""

import re
import shlex
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias, assert_never

from msgspec import Struct

from asyncagents.domain.text import replace_surrogates

_INVOCATION = re.compile(r"/(\w[\w.@/+:-]{0,99})(?:\s+(.*))?", re.DOTALL)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS(?!\w)|[1-9](?!\d))")
_ALL_ARGUMENTS = "$ARGUMENTS"

_WORD_PART = re.compile(
    r"""(?P<space>[ \t\r\n]+)|"(?P<double>(?:\\.|[^"\\])*+)"|'(?P<single>[^']*+)'"""
    r"""|\\(?P<escaped>.)|(?P<plain>[^ \t\r\n"'\\]+|.)""",
    re.DOTALL,
)
_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\])')

_MARK = re.compile(
    r"""(?<![\w!`\\])!`(?P<shell>[^`]+)`|`[^`\n]*[^`\n!]`|(?<![^\s(\[{<"'])@(?P<file>[^\s`"'<>,;@]++)(?!@)"""
)
_FENCE = re.compile(r"^[ ]{0,3}(```|~~~)", re.MULTILINE)
_CALL = re.compile(r"[\w.]+\(")
_MAX_PATH = 4096
_CLOSING = {")": "(", "]": "[", "}": "{"}

_BARE = re.compile(rf"""\\.|'[^']*'|"|\$?\(|\)|{_PLACEHOLDER.pattern}""", re.DOTALL)
_IN_QUOTES = re.compile(rf"""\\.|"|\$\(|{_PLACEHOLDER.pattern}""", re.DOTALL)


class Invocation(Struct, frozen=True):
    name: str
    arguments: str


class TextPiece(Struct, frozen=True, tag="text"):
    text: str


class ShellPiece(Struct, frozen=True, tag="shell"):
    command: str
    """The command as the template has it, without arguments."""
    script: str
    """The script for bash: it sets the quoted arguments as parameters, then runs the command."""


class FilePiece(Struct, frozen=True, tag="file"):
    path: str
    typed: bool = False
    """Whether arguments are part of the path, as in `@$1`: it may lead anywhere."""

    @property
    def text(self) -> str:
        return f"@{self.path}"


Piece: TypeAlias = TextPiece | ShellPiece | FilePiece


class Mention(Struct, frozen=True):
    """A path or agent name after an `@`, and the position of the `@`."""

    path: str
    start: int

    @property
    def text(self) -> str:
        return f"@{self.path}"


class _ShellTemplate(Struct, frozen=True):
    written: str
    command: str
    placeholders: tuple[str, ...]


_Part: TypeAlias = TextPiece | _ShellTemplate | FilePiece


class _Arguments(Struct, frozen=True):
    """The typed arguments, and the highest number among the template's placeholders."""

    text: str
    words: tuple[str, ...]
    highest: int

    def argument(self, number: int) -> str:
        end = None if number == self.highest else number
        return " ".join(self.words[number - 1 : end])

    def fill(self, text: str) -> str:
        """Replace placeholders in one pass, so that a typed placeholder is not replaced."""
        return _PLACEHOLDER.sub(lambda place: self._value(place[0]), text)

    def _value(self, place: str) -> str:
        return self.text if place == _ALL_ARGUMENTS else self.argument(int(place[1:]))


def parse_invocation(prompt: str) -> Invocation | None:
    """Parse a prompt of the form `/name arguments`; does not check that the command exists."""
    called = _INVOCATION.fullmatch(prompt)
    return Invocation(called[1], (called[2] or "").strip()) if called else None


def split_arguments(text: str) -> tuple[str, ...]:
    """Split words as a shell does; an unclosed quote is an ordinary character."""
    parts = _WORD_PART.finditer(text)
    runs = groupby(parts, key=lambda part: part["space"] is None)
    return tuple("".join(map(_unquote, run)) for is_word, run in runs if is_word)


def _unquote(part: re.Match[str]) -> str:
    if part["double"] is not None:
        return _ESCAPED_IN_QUOTES.sub(r"\1", part["double"])
    return part["single"] or part["escaped"] or part["plain"] or ""


def parse_mentions(text: str) -> tuple[Mention, ...]:
    """Find possible mentions of files and agents in a typed text, outside of code."""
    fences = _fence_bounds(text)
    found = []
    for mark in _MARK.finditer(text):
        in_code = bisect(fences, mark.start()) % 2 == 1
        path = "" if in_code or mark["shell"] else _trim_path(mark["file"] or "")
        if path:
            found.append(Mention(path, mark.start()))
    return tuple(found)


def argument_hints(template: str) -> tuple[str, ...]:
    """List the placeholders of a template, as hints for typing the arguments."""
    return tuple(
        sorted(
            set(_placeholders(_split_template(template))), key=lambda place: (place == _ALL_ARGUMENTS, place)
        )
    )


def fill_template(template: str, arguments: str) -> tuple[Piece, ...]:
    """Return the pieces of a template in order; arguments never add a shell or file piece."""
    parts = list(_split_template(template))
    places = set(_placeholders(parts))
    highest = max((int(place[1:]) for place in places if place != _ALL_ARGUMENTS), default=0)
    given_arguments = _Arguments(arguments.strip(), split_arguments(arguments), highest)
    pieces = [_fill_part(part, given_arguments) for part in parts]
    if given_arguments.text and not places:
        return _append_arguments(pieces, given_arguments.text)
    return tuple(pieces)


def _append_arguments(pieces: list[Piece], text: str) -> tuple[Piece, ...]:
    match pieces:
        case []:
            return (TextPiece(text),)
        case [*before, TextPiece(text=last)]:
            return (*before, TextPiece(f"{last.rstrip()}\n\n{text}"))
        case _:
            return (*pieces, TextPiece(f"\n\n{text}"))


def _fill_part(part: _Part, given_arguments: _Arguments) -> Piece:
    match part:
        case TextPiece():
            return TextPiece(given_arguments.fill(part.text))
        case _ShellTemplate():
            return ShellPiece(part.written, _script(part, given_arguments))
        case FilePiece():
            path = _shell_safe(given_arguments.fill(part.path)).strip()
            # An empty path would be the folder itself.
            return FilePiece(path, typed=part.typed) if path else TextPiece(part.text)
        case _:
            assert_never(part)


def _placeholders(parts: Iterable[_Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _ShellTemplate):
            yield from part.placeholders
        else:
            yield from _PLACEHOLDER.findall(part.text)


def _split_template(template: str) -> Iterator[_Part]:
    fences = _fence_bounds(template)
    done = 0
    for mark in _MARK.finditer(template):
        part = _parse_mark(mark, in_code=bisect(fences, mark.start()) % 2 == 1)
        if part is None:
            continue
        if mark.start() > done:
            yield TextPiece(template[done : mark.start()])
        yield part
        done = mark.start() + len(part.text) if isinstance(part, FilePiece) else mark.end()
    if done < len(template):
        yield TextPiece(template[done:])


def _parse_mark(mark: re.Match[str], *, in_code: bool) -> _ShellTemplate | FilePiece | None:
    command = _shell_safe(mark["shell"] or "").strip()
    if command:
        return _parse_shell(command)
    path = "" if in_code else _trim_path(mark["file"] or "")
    return FilePiece(path, typed=bool(_PLACEHOLDER.search(path))) if path else None


def _fence_bounds(template: str) -> list[int]:
    """Return the positions where fenced code begins and ends, alternating; an unclosed fence has no end."""
    bounds: list[int] = []
    opened = ""
    for fence in _FENCE.finditer(template):
        if opened in {"", fence[1]}:
            bounds.append(fence.start())
            opened = "" if opened else fence[1]
    return bounds


def _trim_path(text: str) -> str:
    """Strip trailing punctuation of the sentence; empty if the text is a call or not a path."""
    if _CALL.match(text) or len(text) > _MAX_PATH:
        return ""
    counts, end = Counter(text), len(text)
    while end and (
        text[end - 1] in ".:!?" or counts[text[end - 1]] > counts[_CLOSING.get(text[end - 1], text[end - 1])]
    ):
        end -= 1
        counts[text[end]] -= 1
    return text[:end]


def _parse_shell(command: str) -> _ShellTemplate:
    """Turn placeholders into shell parameters, quoted where the template does not quote them.

    The shell reads the template's text only: a misjudged quote can split a value into words, but never
    makes it a command. In single quotes `$1` stays text, as for awk. As in every script, `eval` and
    arithmetic run what they are given.
    """
    # In a here-document quotes are ordinary characters, so no quotes are added.
    has_document = "<<" in command
    quoted = [False]
    written: list[str] = []
    places: list[str] = []
    at = 0
    while token := (_IN_QUOTES if quoted[-1] else _BARE).search(command, at):
        found = token[0]
        written += command[at : token.start()], found
        at = token.end()
        if _PLACEHOLDER.fullmatch(found):
            places.append(found)
            written[-1] = _parameter(found, bare=not (quoted[-1] or has_document))
        elif found in {'"', "(", "$(", ")"}:
            _step_quotes(quoted, found)
    return _ShellTemplate(command, "".join([*written, command[at:]]), tuple(places))


def _step_quotes(quoted: list[bool], found: str) -> None:
    """Enter or leave quotes or brackets."""
    if found == ")" or (found == '"' and quoted[-1]):
        del quoted[max(1, len(quoted) - 1) :]
    else:
        quoted.append(found == '"')


def _parameter(place: str, *, bare: bool) -> str:
    if not bare:
        return place
    return '"$@"' if place == _ALL_ARGUMENTS else f'"{place}"'


def _script(shell: _ShellTemplate, given_arguments: _Arguments) -> str:
    if not shell.placeholders:
        return shell.command
    numbers = [int(place[1:]) for place in shell.placeholders if place != _ALL_ARGUMENTS]
    words = (
        [given_arguments.argument(number) for number in range(1, max(numbers) + 1)]
        if numbers
        else given_arguments.words
    )
    lines = [" ".join(["set --", *map(_quote, words)]), shell.command]
    return "\n".join(
        [f"ARGUMENTS={_quote(given_arguments.text)}", *lines]
        if _ALL_ARGUMENTS in shell.placeholders
        else lines
    )


def _quote(text: str) -> str:
    return shlex.quote(_shell_safe(text))


def _shell_safe(text: str) -> str:
    """Remove what a shell argument cannot hold: NUL and unpaired surrogates."""
    return replace_surrogates(text.replace("\0", ""))
