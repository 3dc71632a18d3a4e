"""A PostgreSQL with very many parked sessions: the rows that one of them really left, copied by SQL."""

from typing import Any

from benchmarks.multiply import DIGITS, REVISIONS, TABLES, renamed

CHUNK = 50_000


async def multiply(admin: Any, count: int) -> None:
    """Until there are so many. As in `benchmarks.multiply`: ids end with the number of the copy, and
    revisions and due times differ. The queue is empty, as it is when all are parked."""
    ids, times = await _ids(admin), await _due_times(admin)
    await admin.execute("SET statement_timeout = 0")
    await admin.execute("UPDATE revision SET base = base + $1", REVISIONS * count)
    rows = [(table, row) for table in TABLES for row in await admin.fetch(f"SELECT * FROM {table}")]  # noqa: S608
    for first in range(1, count, CHUNK):
        last = min(first + CHUNK, count) - 1
        for table, row in rows:
            picked = ", ".join(_copied(column, value, ids, times) for column, value in row.items())
            await admin.execute(
                f"WITH copy AS (SELECT i, lpad(i::text, {DIGITS}, '0') AS s "  # noqa: S608
                f"FROM generate_series({first}, {last}) AS i) INSERT INTO {table} SELECT {picked} FROM copy"
            )
    await admin.execute("VACUUM ANALYZE")
    await admin.execute("CHECKPOINT")


async def _ids(admin: Any) -> list[str]:
    named = [table for table in TABLES if table != "input"]  # it is named by its message
    return [row[0] for table in named for row in await admin.fetch(f"SELECT id FROM {table}")]  # noqa: S608


async def _due_times(admin: Any) -> list[int]:
    """When people are warned, and when it is over."""
    state = "readable(body) #>> '{state,%s}'"
    row = await admin.fetchrow(f"SELECT {state % 'warn'}, {state % 'due'} FROM call")  # noqa: S608
    return [int(each) for each in row if each is not None]


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
            return f"convert_to({renamed(value.decode(), ids, times)}, 'UTF8')"
        case _:
            raise TypeError(f"{column} is {value!r}: a copy of it is not known")
