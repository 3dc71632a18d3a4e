"""What an answer "always" covers of a shell line: as much as was shown, and nothing that is more dangerous.

A command is covered by a pattern if it is listed in `shell_usage` and its words are harmless there. One other
command may stand first in a line: it is covered word for word. Every other line is covered letter by letter.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.permission import match
from asyncagents.tools.shell_usage import GIT_READERS, READERS, RUNNERS, USAGES, does_more, is_plain
from asyncagents.tools.shell_wrappers import WRAPPERS

LONGEST_EXACT = 2_000
MOST_EXACT_LINES = 20
_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
# Such words need no quotes, and mean themselves in a pattern.
_LITERAL = re.compile(r"[\w@%+=:,./-]+")
_LONGEST_NAME = 3

Words: TypeAlias = tuple[str, ...]


class Covered(Struct, frozen=True):
    """What may be approved of one command."""

    kind: Literal["reader", "known", "literal", "nothing"]
    pattern: str = ""


class Setting(Struct, frozen=True):
    """Where a line stands that is to be covered."""

    line: str
    at_top: bool
    """Whether all of its commands run in the project's own folder."""


def line_patterns(commands: Sequence[Words], setting: Setting) -> tuple[str, ...]:
    """The patterns that cover a plain line; none, if it can only be approved as it stands."""
    covered = [cover(words) for words in commands]
    first = next((place for place, words in enumerate(commands) if not _leads_in(words)), 0)
    fed, piped = "<" in setting.line, "|" in setting.line
    for place, each in enumerate(covered):
        alone = setting.at_top and not fed and (place == first or not piped)
        if each.kind == "nothing" or (each.kind != "reader" and not alone):
            return ()
        if each.kind == "literal" and place != first:
            return ()  # what stood before it may have been a condition
    literal = [each.pattern for each in covered if each.kind == "literal"]
    wider = [each.pattern for each in covered if each.kind != "literal"]
    if any(match(pattern, text) for pattern in wider for text in literal):
        return ()  # what is for another command would be for this one
    return tuple(dict.fromkeys(each.pattern for each in covered))


def reads_only(commands: Sequence[Words]) -> bool:
    """Say whether a plain line does no more with files than to print them."""
    return bool(commands) and all(cover(words).kind == "reader" for words in commands)


def cover(words: Words) -> Covered:
    name = words[0]
    if name in WRAPPERS:  # what they run is a command of its own
        return Covered("reader", f"{name} *")
    if not all(map(is_plain, words[1:])):
        return Covered("nothing")
    if name in READERS and not does_more(words):
        return Covered("reader", f"{name} *")
    if known := known_usage(words):
        return Covered("known", f"{' '.join(known)} *")
    if all(map(_LITERAL.fullmatch, words)):
        return Covered("literal", " ".join(words))
    return Covered("nothing")


def known_usage(words: Words) -> Words:
    """The words of a command that a pattern names, if the others are as harmless as any that fit it."""
    if words[:2] in RUNNERS:
        inner = known_usage(words[2:]) if len(words) > 2 and words[2:4] not in RUNNERS else ()
        return (*words[:2], *inner) if inner and inner[0] != "git" else ()
    if words[0] == "git" and len(words) > 1 and words[1] in GIT_READERS:
        return words[:2]
    plain = ("python", *words[1:]) if _INTERPRETER.fullmatch(words[0]) else words
    for count in range(_LONGEST_NAME, 0, -1):
        usage = USAGES.get(plain[:count])
        if usage is not None:
            return words[:count] if usage.allows(words[count:]) else ()
    return ()


def exact_line(command: str, folder: str) -> tuple[str, ...]:
    """The line itself, to be allowed letter by letter; nothing if a person would not see all of it.

    `folder`: where it starts, if that is not the project's own. The text then goes there first.
    """
    text = f"cd {shlex.quote(folder)} || exit\n{command}" if folder else command
    shown = all(letter.isprintable() or letter in "\n\t" for letter in text)
    short = len(text) <= LONGEST_EXACT and text.count("\n") < MOST_EXACT_LINES
    return (text,) if command.strip() and shown and short else ()


def _leads_in(words: Words) -> bool:
    return words[0] in WRAPPERS or words[0] == "cd"
