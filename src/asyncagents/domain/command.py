"""A prompt that stands behind `/name`: its template is split into pieces first and only then filled.

So nothing that somebody types after the name can become a piece. In a template,

* `$ARGUMENTS` is all that was typed; `$1` to `$9` are its words, and the highest of them in the template
  takes all that are left. `$10` is no placeholder. Without any, the arguments follow after a blank line.
* ``!`command` `` is for the shell, in fenced code too; not right after a letter, a backslash or a backtick.
* `@path` is a file, where a word begins: so no e-mail address is one, nothing in code (fenced or between
  backticks), and no call such as `@app.route("/")`. A bare `@name` is one; if there is no such file,
  it may be an agent's name or a mere word, and `FilePiece.text` is what was written.
"""

import re
import shlex
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias, assert_never

from msgspec import Struct

from asyncagents.domain.text import whole

_INVOCATION = re.compile(r"/(\w[\w.@/+:-]{0,99})(?:\s+(.*))?", re.DOTALL)
_PLACE = re.compile(r"\$(?:ARGUMENTS(?!\w)|[1-9](?!\d))")
_ALL = "$ARGUMENTS"

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

_BARE = re.compile(rf"""\\.|'[^']*'|"|\$?\(|\)|{_PLACE.pattern}""", re.DOTALL)
_IN_QUOTES = re.compile(rf"""\\.|"|\$\(|{_PLACE.pattern}""", re.DOTALL)


class Invocation(Struct, frozen=True):
    name: str
    arguments: str


class TextPiece(Struct, frozen=True, tag="text"):
    text: str


class ShellPiece(Struct, frozen=True, tag="shell"):
    command: str
    """As the template has it, whatever the arguments are."""
    script: str
    """What bash is to run: the arguments, quoted, become its parameters, and then comes the command."""


class FilePiece(Struct, frozen=True, tag="file"):
    path: str
    typed: bool = False
    """Whether the arguments have a say in the path, as in `@$1`: it may lead anywhere."""

    @property
    def text(self) -> str:
        return f"@{self.path}"


Piece: TypeAlias = TextPiece | ShellPiece | FilePiece


class Mention(Struct, frozen=True):
    """What somebody wrote behind an `@`, and where the `@` stands."""

    path: str
    start: int

    @property
    def text(self) -> str:
        return f"@{self.path}"


class _Shell(Struct, frozen=True):
    written: str
    command: str
    places: tuple[str, ...]


_Part: TypeAlias = TextPiece | _Shell | FilePiece


class _Words(Struct, frozen=True):
    """What was typed, and the highest number that the template asks for."""

    text: str
    words: tuple[str, ...]
    highest: int

    def numbered(self, number: int) -> str:
        end = None if number == self.highest else number
        return " ".join(self.words[number - 1 : end])

    def fill(self, text: str) -> str:
        """In one pass: a placeholder that was typed stays one."""
        return _PLACE.sub(lambda place: self._value(place[0]), text)

    def _value(self, place: str) -> str:
        return self.text if place == _ALL else self.numbered(int(place[1:]))


def invocation(prompt: str) -> Invocation | None:
    """The command that a prompt calls, if it looks like one; whether there is such a command is not asked."""
    called = _INVOCATION.fullmatch(prompt)
    return Invocation(called[1], (called[2] or "").strip()) if called else None


def split_arguments(text: str) -> tuple[str, ...]:
    """The words as a shell would have them; a quote that nothing closes is a character like others."""
    parts = _WORD_PART.finditer(text)
    runs = groupby(parts, key=lambda part: part["space"] is None)
    return tuple("".join(map(_unquoted, run)) for is_word, run in runs if is_word)


def _unquoted(part: re.Match[str]) -> str:
    if part["double"] is not None:
        return _ESCAPED_IN_QUOTES.sub(r"\1", part["double"])
    return part["single"] or part["escaped"] or part["plain"] or ""


def mentions(text: str) -> tuple[Mention, ...]:
    """What may be a file or an agent in a text that somebody typed; never what stands in code."""
    fences = _fences(text)
    found = []
    for mark in _MARK.finditer(text):
        in_code = bisect(fences, mark.start()) % 2 == 1
        path = "" if in_code or mark["shell"] else _path(mark["file"] or "")
        if path:
            found.append(Mention(path, mark.start()))
    return tuple(found)


def hints(template: str) -> tuple[str, ...]:
    """The placeholders of a template, for those who type the arguments."""
    return tuple(sorted(set(_places(_split(template))), key=lambda place: (place == _ALL, place)))


def fill(template: str, arguments: str) -> tuple[Piece, ...]:
    """The pieces of a template, in order; the arguments add none for the shell and no file."""
    parts = list(_split(template))
    places = set(_places(parts))
    highest = max((int(place[1:]) for place in places if place != _ALL), default=0)
    typed = _Words(arguments.strip(), split_arguments(arguments), highest)
    pieces = [_filled(part, typed) for part in parts]
    if typed.text and not places:
        return _followed(pieces, typed.text)
    return tuple(pieces)


def _followed(pieces: list[Piece], text: str) -> tuple[Piece, ...]:
    match pieces:
        case []:
            return (TextPiece(text),)
        case [*before, TextPiece(text=last)]:
            return (*before, TextPiece(f"{last.rstrip()}\n\n{text}"))
        case _:
            return (*pieces, TextPiece(f"\n\n{text}"))


def _filled(part: _Part, typed: _Words) -> Piece:
    match part:
        case TextPiece():
            return TextPiece(typed.fill(part.text))
        case _Shell():
            return ShellPiece(part.written, _script(part, typed))
        case FilePiece():
            path = _speakable(typed.fill(part.path)).strip()
            # An empty path would be the folder itself, which nobody asked for.
            return FilePiece(path, typed=part.typed) if path else TextPiece(part.text)
        case _:
            assert_never(part)


def _places(parts: Iterable[_Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, _Shell):
            yield from part.places
        else:
            yield from _PLACE.findall(part.text)


def _split(template: str) -> Iterator[_Part]:
    fences = _fences(template)
    done = 0
    for mark in _MARK.finditer(template):
        part = _part(mark, in_code=bisect(fences, mark.start()) % 2 == 1)
        if part is None:
            continue
        if mark.start() > done:
            yield TextPiece(template[done : mark.start()])
        yield part
        done = mark.start() + len(part.text) if isinstance(part, FilePiece) else mark.end()
    if done < len(template):
        yield TextPiece(template[done:])


def _part(mark: re.Match[str], *, in_code: bool) -> _Shell | FilePiece | None:
    command = _speakable(mark["shell"] or "").strip()
    if command:
        return _shell(command)
    path = "" if in_code else _path(mark["file"] or "")
    return FilePiece(path, typed=bool(_PLACE.search(path))) if path else None


def _fences(template: str) -> list[int]:
    """Where code begins, where it ends, and so on; a fence that nothing closes goes on to the end."""
    bounds: list[int] = []
    opened = ""
    for fence in _FENCE.finditer(template):
        if opened in {"", fence[1]}:
            bounds.append(fence.start())
            opened = "" if opened else fence[1]
    return bounds


def _path(text: str) -> str:
    """Without the punctuation of the sentence around it; nothing if it is a call, or no path at all."""
    if _CALL.match(text) or len(text) > _MAX_PATH:
        return ""
    counts, end = Counter(text), len(text)
    while end and (
        text[end - 1] in ".:!?" or counts[text[end - 1]] > counts[_CLOSING.get(text[end - 1], text[end - 1])]
    ):
        end -= 1
        counts[text[end]] -= 1
    return text[:end]


def _shell(command: str) -> _Shell:
    """Placeholders become the shell's own parameters, in quotes where they stand in none.

    The text that the shell reads is the template's alone: were a quote misjudged here, a value would be
    split into words at worst, never read as a command. In single quotes `$1` is what it is to a shell:
    text, as awk likes it. As in every script, `eval` and arithmetic run what they are given.
    """
    # In a here-document a quote is a character like others: there the shell is left to itself.
    has_document = "<<" in command
    quoted = [False]
    written: list[str] = []
    places: list[str] = []
    at = 0
    while token := (_IN_QUOTES if quoted[-1] else _BARE).search(command, at):
        found = token[0]
        written += command[at : token.start()], found
        at = token.end()
        if _PLACE.fullmatch(found):
            places.append(found)
            written[-1] = _parameter(found, bare=not (quoted[-1] or has_document))
        elif found in {'"', "(", "$(", ")"}:
            _step(quoted, found)
    return _Shell(command, "".join([*written, command[at:]]), tuple(places))


def _step(quoted: list[bool], found: str) -> None:
    """Into quotes or brackets, or out of them."""
    if found == ")" or (found == '"' and quoted[-1]):
        del quoted[max(1, len(quoted) - 1) :]
    else:
        quoted.append(found == '"')


def _parameter(place: str, *, bare: bool) -> str:
    if not bare:
        return place
    return '"$@"' if place == _ALL else f'"{place}"'


def _script(shell: _Shell, typed: _Words) -> str:
    if not shell.places:
        return shell.command
    numbers = [int(place[1:]) for place in shell.places if place != _ALL]
    words = [typed.numbered(number) for number in range(1, max(numbers) + 1)] if numbers else typed.words
    lines = [" ".join(["set --", *map(_quoted, words)]), shell.command]
    return "\n".join([f"ARGUMENTS={_quoted(typed.text)}", *lines] if _ALL in shell.places else lines)


def _quoted(text: str) -> str:
    return shlex.quote(_speakable(text))


def _speakable(text: str) -> str:
    """What a shell can be told: it has no way to hold a NUL or half a character."""
    return whole(text.replace("\0", ""))
