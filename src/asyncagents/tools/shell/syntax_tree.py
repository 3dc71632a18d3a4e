"""Parse a shell line with tree-sitter, and find where in the tree a command is."""

import re
import warnings
from collections.abc import Callable, Sequence, Set
from threading import Lock
from typing import TypeAlias

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

from asyncagents.tools.shell.command import find_file_arguments
from asyncagents.tools.shell.word import Words

ParseLine: TypeAlias = Callable[[bytes], Tree | None]
"""`parse_line`, or a cache of it for one line that is read several times."""

PARSE_TIMEOUT_MICROS = 200_000
"""The longest usual lines take a twentieth of this time."""
MOST_OPERATORS = 2_000
_OPERATOR = re.compile(rb"[|&;<>()]")
_LANGUAGE = Language(tree_sitter_bash.language())
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the successor of `timeout_micros` takes no text
    _parser = Parser(_LANGUAGE, timeout_micros=PARSE_TIMEOUT_MICROS)
_parser_lock = Lock()
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def parse_line(source: bytes) -> Tree | None:
    """Parse a line; return None if that takes too long, since it blocks the whole process."""
    if len(_OPERATOR.findall(source)) > MOST_OPERATORS:  # the parser checks its timeout too seldom for these
        return None
    with _parser_lock:
        try:
            return _parser.parse(_mask_non_ascii(source))
        except ValueError:
            _parser.reset()  # or the next parse would resume this line
            return None


def has_ancestor(node: Node, types: Set[str]) -> bool:
    above = node.parent
    while above is not None:
        if above.type in types:
            return True
        above = above.parent
    return False


def may_read_late(node: Node, added: Sequence[Words]) -> bool:
    """Return whether a command of a pipe may open a file after the others ran: it opens several, or later."""
    above = node.parent
    if above is not None and above.type == "redirected_statement":
        above = above.parent
    several = any(words[0] == "tail" or len(list(find_file_arguments(words))) > 1 for words in added)
    return several or above is None or above.type != "pipeline"


def is_quoted(node: Node) -> bool:
    return node.parent is not None and node.parent.type in {"string", "heredoc_body"}


def has_descendant(node: Node, types: set[str]) -> bool:
    nodes = [node]
    while nodes:
        at = nodes.pop()
        if at.type in types:
            return True
        nodes.extend(at.children)
    return False


def _mask_non_ascii(source: bytes) -> bytes:
    """Replace non-ASCII bytes by `x`: the grammar reads beyond the end of a table for them and crashes.

    Bash treats these characters as letters, and each has two bytes or more, so no keyword is formed.
    """
    return _NOT_ASCII.sub(b"x", source)
