"""Compute what the answer "always" approves of a shell line: what was shown, and nothing more dangerous.

A pattern covers a command that `known_commands` lists, if its arguments are harmless there. One other
command may be the first of a line: it is approved word for word. Any other line is approved as exact text.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.agent.permission import match
from asyncagents.tools.shell.known_commands import (
    COVERED_GIT_READERS,
    COVERED_READERS,
    RUNNERS,
    USAGES,
    does_more_than_print,
    is_plain_word,
)
from asyncagents.tools.shell.wrappers import WRAPPERS

LONGEST_EXACT = 2_000
MOST_EXACT_LINES = 20
_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
# Words that need no quotes and have no special meaning in a pattern.
_LITERAL = re.compile(r"[\w@%+=:,./-]+")
_LONGEST_NAME = 3

Words: TypeAlias = tuple[str, ...]


class Coverage(Struct, frozen=True):
    """The pattern under which one command may be approved."""

    kind: Literal["reader", "known", "literal", "nothing"]
    pattern: str = ""


class LineContext(Struct, frozen=True):
    """A shell line, and where its commands run."""

    line: str
    at_top: bool
    """Whether all commands run in the root folder of the project."""


def line_patterns(commands: Sequence[Words], line_context: LineContext) -> tuple[str, ...]:
    """Return the patterns that cover a plain line; none if it can only be approved as its exact text."""
    covered = [cover_command(words) for words in commands]
    first = next((place for place, words in enumerate(commands) if not _is_prefix_command(words)), 0)
    fed, piped = "<" in line_context.line, "|" in line_context.line
    for place, each in enumerate(covered):
        alone = line_context.at_top and not fed and (place == first or not piped)
        if each.kind == "nothing" or (each.kind != "reader" and not alone):
            return ()
        if each.kind == "literal" and place != first:
            return ()  # the command before it may have been a condition
    literal = [each.pattern for each in covered if each.kind == "literal"]
    wider = [each.pattern for each in covered if each.kind != "literal"]
    if any(match(pattern, text) for pattern in wider for text in literal):
        return ()  # the pattern of another command would also match this one
    return tuple(dict.fromkeys(each.pattern for each in covered))


def reads_only(commands: Sequence[Words]) -> bool:
    """Return whether all commands of a plain line only print files."""
    return bool(commands) and all(cover_command(words).kind == "reader" for words in commands)


def cover_command(words: Words) -> Coverage:
    name = words[0]
    if name in WRAPPERS:  # the command that they run is judged on its own
        return Coverage("reader", f"{name} *")
    if not all(map(is_plain_word, words[1:])):
        return Coverage("nothing")
    if name in COVERED_READERS and not does_more_than_print(words):
        return Coverage("reader", f"{name} *")
    if known := known_usage(words):
        return Coverage("known", f"{' '.join(known)} *")
    if all(map(_LITERAL.fullmatch, words)):
        return Coverage("literal", " ".join(words))
    return Coverage("nothing")


def known_usage(words: Words) -> Words:
    """Return the words of a command that a pattern names, if its other words are allowed by that usage."""
    if words[:2] in RUNNERS:
        inner = known_usage(words[2:]) if len(words) > 2 and words[2:4] not in RUNNERS else ()
        return (*words[:2], *inner) if inner and inner[0] != "git" else ()
    if words[0] == "git" and len(words) > 1 and words[1] in COVERED_GIT_READERS:
        return words[:2]
    plain = ("python", *words[1:]) if _INTERPRETER.fullmatch(words[0]) else words
    for count in range(_LONGEST_NAME, 0, -1):
        usage = USAGES.get(plain[:count])
        if usage is not None:
            return words[:count] if usage.allows(words[count:]) else ()
    return ()


def exact_line(command: str, folder: str) -> tuple[str, ...]:
    """Return the line as an exact text to approve; nothing if a person would not see all of it.

    `folder`: where the line starts, if not in the project's root; the text then begins with a `cd` to it.
    """
    text = f"cd {shlex.quote(folder)} || exit\n{command}" if folder else command
    shown = all(letter.isprintable() or letter in "\n\t" for letter in text)
    short = len(text) <= LONGEST_EXACT and text.count("\n") < MOST_EXACT_LINES
    return (text,) if command.strip() and shown and short else ()


def _is_prefix_command(words: Words) -> bool:
    return words[0] in WRAPPERS or words[0] == "cd"
