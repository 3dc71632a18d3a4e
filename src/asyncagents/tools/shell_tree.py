"""The tree of a shell line: how it is parsed, and where in it a command stands."""

import re
import warnings
from collections.abc import Sequence, Set
from threading import Lock

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

from asyncagents.tools.shell_command import find_files
from asyncagents.tools.shell_word import Words

LONGEST_PARSE = 200_000
"""Microseconds: the longest usual lines take a twentieth of it."""
MOST_OPERATORS = 2_000
_OPERATOR = re.compile(rb"[|&;<>()]")
_LANGUAGE = Language(tree_sitter_bash.language())
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # what is to come instead takes no text
    _parser = Parser(_LANGUAGE, timeout_micros=LONGEST_PARSE)
_parsing = Lock()
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def parse_line(source: bytes) -> Tree | None:
    """Parse a line; None if that takes too long: nothing else of this process runs meanwhile."""
    if len(_OPERATOR.findall(source)) > MOST_OPERATORS:  # it looks at its clock too seldom for these
        return None
    with _parsing:
        try:
            return _parser.parse(_shadow(source))
        except ValueError:
            _parser.reset()  # else it would go on with this line
            return None


def is_within(node: Node, types: Set[str]) -> bool:
    above = node.parent
    while above is not None:
        if above.type in types:
            return True
        above = above.parent
    return False


def may_read_late(node: Node, added: Sequence[Words]) -> bool:
    """Say whether a command of a pipe may open a file when the others have run: not at once, or several."""
    above = node.parent
    if above is not None and above.type == "redirected_statement":
        above = above.parent
    several = any(words[0] == "tail" or len(list(find_files(words))) > 1 for words in added)
    return several or above is None or above.type != "pipeline"


def is_quoted(node: Node) -> bool:
    return node.parent is not None and node.parent.type in {"string", "heredoc_body"}


def has_within(node: Node, types: set[str]) -> bool:
    nodes = [node]
    while nodes:
        at = nodes.pop()
        if at.type in types:
            return True
        nodes.extend(at.children)
    return False


def _shadow(source: bytes) -> bytes:
    """The grammar looks characters up in a table without looking at its end: what is not ASCII would kill
    the process. To bash all of that is like letters, and each has two bytes or more: no keyword comes of it.
    """
    return _NOT_ASCII.sub(b"x", source)
