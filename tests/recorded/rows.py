"""The rows of a store, as its tables hold them, whatever program wrote them."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Row]]

OWN = frozenset({"schema", "asyncagents_schema", "revision", "mark", "worker", "noted_day"})
"""What each database keeps of itself; and a queue of jobs, which only says where to look."""
QUEUE = "pgqueuer"
KEYS = {
    "approval": ("project_id", "permission", "pattern"),
    "answered": ("ask_id",),
    "call_secret": ("call_id", "direction"),
    "cancel": ("session_id", "rev"),
    "input": ("message_id",),
    "notice": ("task_id", "run"),
    "todo": ("session_id",),
    "tombstone": ("rev", "kind", "id"),
}
"""What tells two rows of a table apart; where it is not said, their id."""
STATES = {
    "session": ("state", "status"),
    "call": ("state", "pending", "shown_pending"),
    "input": ("state", "source"),
    "request": ("state",),
    "task": ("status", "live"),
    "notice": ("state", "open"),
    "delivery": ("state",),
    "tombstone": ("kind",),
    "call_secret": ("direction",),
}
"""Columns that say in which state a row is."""


def sqlite_rows(path: Path) -> Tables:
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        names = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [dict(row) for row in file.execute(f'SELECT * FROM "{name}"')]  # noqa: S608  its own name
            for name in names
            if is_kept(name)
        }


async def postgres_rows(dsn: str) -> Tables:
    connection = await asyncpg.connect(dsn)
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {
            name: [dict(row) for row in await connection.fetch(f'TABLE "{name}"')]
            for (name,) in names
            if is_kept(name)
        }
    finally:
        await connection.close()


def is_kept(table: str) -> bool:
    return table not in OWN and not table.startswith((QUEUE, "sqlite_"))


def by_key(table: str, rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    columns = KEYS.get(table, ("id",))
    return {tuple(row[column] for column in columns): row for row in rows}


def differences(before: Tables, after: Tables) -> list[str]:
    """Name every row and column of `before` that is not in `after` as it was; what was added is no matter."""
    found = [f"the table {name} is gone" for name in sorted(before.keys() - after.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = by_key(name, before[name]), by_key(name, after[name])
        found += [f"{name} {key} is gone" for key in old if key not in new]
        found += [f"{name} {key} is new" for key in new if key not in old]
        found += [
            f"{name} {key}: {column} was {value!r} and is {new[key].get(column)!r}"
            for key, row in old.items()
            if key in new
            for column, value in row.items()
            if column not in new[key] or new[key][column] != value
        ]
    return found


def counts(tables: Tables) -> dict[str, Any]:
    """Count the rows of each table, and by each state that they can be in."""
    return {
        name: {
            "rows": len(rows),
            **{column: _counted(row[column] for row in rows) for column in STATES.get(name, ())},
        }
        for name, rows in sorted(tables.items())
    }


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(_kind(value) for value in values).items()))


def _kind(value: Any) -> str:
    """Of a status only what it is."""
    text = str(value)
    return text.split('"')[3] if text.startswith('{"type":') else text
