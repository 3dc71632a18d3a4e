"""What a database holds, whichever it is: rows as they are, revisions by their order."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

Row: TypeAlias = dict[str, Any]
State: TypeAlias = dict[str, list[Row]]

OWN = {"schema", "revision", "mark", "worker", "noted_day", "asyncagents_schema"}
"""What each database keeps of itself; and a queue of jobs, which only says where to look."""
QUEUE = "pgqueuer"
REVISIONS = {
    "session": {"rev", "turn_rev", "cancel_rev"},
    "message": {"rev"},
    "part": {"rev"},
    "input": {"rev", "seq"},
    "call": {"rev"},
    "cancel": {"rev"},
    "tombstone": {"rev"},
    "todo": {"rev"},
    "task": {"rev", "born", "done", "turned"},
    "notice": {"seq"},
    "delivery": {"rev"},
}
"""They differ between databases; which came first does not."""


def in_sqlite(path: Path) -> State:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return _logical(
            (name, db.execute(f'SELECT * FROM "{name}"').fetchall())  # noqa: S608  a name of ours
            for (name,) in tables
            if _counts(name)
        )


async def in_postgres(dsn: str, *, after: str = "") -> State:
    """As it is, or as it would be after a statement."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"BEGIN; {after}")
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = [(name, await connection.fetch(f'TABLE "{name}"')) for (name,) in tables if _counts(name)]
        return _logical(rows)
    finally:
        await connection.close()


def _counts(name: str) -> bool:
    return name not in OWN and not name.startswith(QUEUE)


def _logical(tables: Iterable[tuple[str, Iterable[Any]]]) -> State:
    found = {name: [dict(row) for row in rows] for name, rows in tables}
    used = {row[column] for name, columns in REVISIONS.items() for row in found[name] for column in columns}
    rank = {rev: place for place, rev in enumerate(sorted(used - {0}), start=1)} | {0: 0}
    for name, columns in REVISIONS.items():
        for row in found[name]:
            row.update({column: rank[row[column]] for column in columns})
    return {name: sorted(rows, key=_sortable) for name, rows in found.items()}


def _sortable(row: Row) -> str:
    return repr(sorted(row.items()))


def differences(one: State, other: State) -> list[str]:
    """Of two states: nothing, if they are the same; else every row that only one of them has."""
    found = [f"only one has a table {name}" for name in sorted(one.keys() ^ other.keys())]
    for name in sorted(one.keys() & other.keys()):
        if one[name] != other[name]:
            found += _odd(name, one[name], other[name])
    return found


def _odd(name: str, one: list[Row], other: list[Row]) -> list[str]:
    if len(one) == len(other):
        return [
            f"{name} {next(iter(a.values()))}: {column} {a.get(column)!r} and {b.get(column)!r}"
            for a, b in zip(one, other, strict=True)
            for column in sorted(a.keys() | b.keys())
            if a.get(column) != b.get(column) or type(a.get(column)) is not type(b.get(column))
        ]
    return [
        f"{name}, only in the {which}: {row}"
        for which, rows, without in (("first", one, other), ("second", other, one))
        for row in rows
        if row not in without
    ]
