"""A store with very many parked sessions: the rows that one of them really left, copied by SQL."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

TABLES = ("session", "message", "part", "input", "call", "request")
DIGITS = 7
REVISIONS = 20
"""A parked session took about so many."""
FAST = ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000", "temp_store = MEMORY")


def multiply(path: Path, count: int) -> None:
    """Until there are so many; in each copy all ids end with the number of the copy.

    Revisions differ, and so do the due times, by a millisecond each.
    """
    with closing(sqlite3.connect(path)) as db:
        for pragma in FAST:
            db.execute(f"PRAGMA {pragma}")
        ids = _ids(db)
        times = _due_times(db)
        for table in TABLES:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            for row in db.execute(f"SELECT * FROM {table}").fetchall():  # noqa: S608
                picked = ", ".join(
                    _copied(column, value, ids, times) for column, value in zip(columns, row, strict=True)
                )
                db.execute(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?), "  # noqa: S608
                    f"copy (i, s) AS (SELECT i, printf('%0{DIGITS}d', i) FROM n) "
                    f"INSERT INTO {table} SELECT {picked} FROM copy",
                    (count - 1,),
                )
        db.execute("UPDATE revision SET rev = rev + ?", (REVISIONS * count,))
        db.commit()
        db.execute("PRAGMA journal_mode = WAL")


def _ids(db: sqlite3.Connection) -> list[str]:
    named = [table for table in TABLES if table != "input"]  # it is named by its message
    return [row[0] for table in named for row in db.execute(f"SELECT id FROM {table}")]  # noqa: S608


def _due_times(db: sqlite3.Connection) -> list[int]:
    """When people are warned, and when it is over."""
    row = db.execute("SELECT body ->> '$.state.warn', body ->> '$.state.due' FROM call").fetchone()
    return [each for each in row if each is not None]


def _copied(column: str, value: Any, ids: list[str], times: list[int]) -> str:
    """An expression over `i`, and `s`: the same in digits."""
    match value:
        case None:
            return "NULL"
        case int() if column in ("rev", "seq", "turn_rev"):
            return f"{value} + i * {REVISIONS}"
        case int() if column == "due":
            return f"{value} + i"
        case int():
            return str(value)
        case str():
            return renamed(value, ids, times)
        case bytes():
            return f"CAST({renamed(value.decode(), ids, times)} AS BLOB)"
        case _:
            raise TypeError(f"{column} is {value!r}: a copy of it is not known")


def renamed(text: str, ids: list[str], times: list[int]) -> str:
    """Pieces that are the same in each copy, and between them what is not."""
    text = text.replace("'", "''")
    for each in ids:
        text = text.replace(each, f"{each[:-DIGITS]}' || s || '")
    for due in times:
        text = text.replace(str(due), f"' || ({due} + i) || '")
    return f"'{text}'"
