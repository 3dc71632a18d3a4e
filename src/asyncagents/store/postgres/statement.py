"""Loads PostgreSQL's statements, each with the locks that a writing transaction takes before running it."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

from asyncagents.store.sql_file import migrations, read_statements, strip_comments

_HERE = files("asyncagents.store.postgres")
_TREE = re.compile(r"^-- tree: (session|call|ask|message|part) (\d+)$", re.MULTILINE)
_LOCK = re.compile(r"^-- lock: (.+)$", re.MULTILINE)


class Statement(Struct, frozen=True):
    text: str
    kind: str | None = None
    """What the parameter at `place` names, if its tree of sessions must be locked first."""
    place: int = 0
    lock: str | None = None
    """The name of another lock that must be taken first."""
    is_read: bool = False
    """Whether the statement only reads."""


@cache
def load_statements() -> dict[str, Statement]:
    return {name: _statement(text) for name, text in read_statements(_HERE.joinpath("sql"))}


def _statement(text: str) -> Statement:
    tree, lock = _TREE.search(text), _LOCK.search(text)
    return Statement(
        strip_comments(text),
        kind=tree[1] if tree else None,
        place=int(tree[2]) - 1 if tree else 0,
        lock=lock[1] if lock else None,
        is_read=strip_comments(text).startswith("SELECT"),
    )


@cache
def migration_files() -> tuple[Traversable, ...]:
    return migrations(_HERE.joinpath("migrations"))
