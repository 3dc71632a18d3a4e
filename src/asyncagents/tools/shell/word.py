"""One word of a shell line: its text, and which of its characters the shell still expands."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Self, TypeAlias

from tree_sitter import Node

WILDCARDS = frozenset("*?[")
MOST_STARS = 8
"""After so many stars the rest of a pattern matches anything."""
_ANY_WILD = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_STRING = re.compile(r"\\([\n\"\\$`])")
_PART = re.compile(r"\\(?:\n|.)|[^\\]+|\\", re.DOTALL)
_SPLIT = re.compile(r"[\s*?\[\\]|^-")


class Word(str):
    """A word as its program gets it; in `shape`, quoted wildcards are replaced by another character."""

    __slots__ = ("shape",)
    shape: str

    def __new__(cls, text: str, shape: str | None = None) -> Self:
        word = super().__new__(cls, text)
        word.shape = text if shape is None else shape
        return word

    def slice_from(self, start: int) -> "Word":
        """Return the word from index `start` on."""
        return Word(self[start:], self.shape[start:])

    def fill_variables(self, values: Mapping[str, str]) -> "Word":
        """Replace variables by their values; wildcards in a value count as quoted."""
        text, shape = str(self), self.shape
        for name, value in values.items():
            for spelling in (f"${{{name}}}", f"${name}"):
                text = text.replace(spelling, value)
                shape = shape.replace(spelling, mask_wildcards(value))
        return Word(text, shape if len(shape) == len(text) else None)


Words: TypeAlias = tuple[Word, ...]


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def as_words(words: Iterable[str]) -> Words:
    """Convert plain texts to words whose wildcards are not quoted."""
    return tuple(word if isinstance(word, Word) else Word(word) for word in words)


def mask_wildcards(text: str) -> str:
    """Replace each wildcard by `_`."""
    return _ANY_WILD.sub("_", text)


def has_wildcard(word: Word) -> bool:
    """Return whether the shell may replace this word by file names."""
    return not WILDCARDS.isdisjoint(word.shape)


def compile_pattern(word: Word, *, by_bytes: bool = False) -> re.Pattern[str]:
    """Compile the shell's pattern to a regular expression, rather too wide than too narrow.

    What a bracket matches depends on the shell and its locale: from the first one on, anything matches.
    `by_bytes`: for names that are not ASCII; how many `?` such a character takes depends on the locale, too.
    """
    pieces: list[str] = []
    for letter, formed in zip(word, word.shape, strict=True):
        if by_bytes and formed == "?":
            pieces.append("*")
            continue
        if formed == "[" or pieces.count("*") >= MOST_STARS:
            pieces.append("*")
            break
        pieces.append(f"[{letter}]" if letter in WILDCARDS and formed not in WILDCARDS else letter)
    return re.compile(translate("".join(pieces)))


def may_split(value: str) -> bool:
    """Return whether the shell may expand an unquoted variable of this value to other than one word."""
    return not value or bool(_SPLIT.search(value))


def node_text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def read_word(node: Node, source: bytes) -> Word:
    """Return the word as its program would get it, without expansion of variables and wildcards."""
    text = node_text(node, source)
    match node.type:
        case "raw_string":
            return Word(text[1:-1], mask_wildcards(text[1:-1]))
        case "string":
            inside = _ESCAPED_IN_STRING.sub(_unescape, text[1:-1])
            return Word(inside, mask_wildcards(inside))
        case "ansi_c_string":
            inside = _ESCAPED.sub(_unescape, text[2:-1])
            return Word(inside, mask_wildcards(inside))
        case "concatenation" | "command_name":
            parts = [read_word(child, source) for child in node.children]
            return Word("".join(parts), "".join(part.shape for part in parts))
        case _:
            shape = "".join(_shape_part(part) for part in _PART.findall(text))
            return Word(_ESCAPED.sub(_unescape, text), shape)


def spellings(words: Words, values: Mapping[str, str]) -> Iterator[Words]:
    """Yield the words with possible values of their variables; `$USER` may be empty, which drops the word."""
    if not any("$" in word for word in words):
        yield words
        return
    for user in ("", "user"):
        known = {**values, "USER": user}
        filled = [(word, word.fill_variables(known)) for word in words[1:]]
        yield (words[0], *(after for before, after in filled if after or not before))


def _shape_part(part: str) -> str:
    if part[0] != "\\" or part == "\\":
        return part
    return "" if part == "\\\n" else mask_wildcards(part[1])


def _unescape(found: re.Match[str]) -> str:
    return "" if found.group(1) == "\n" else found.group(1)
