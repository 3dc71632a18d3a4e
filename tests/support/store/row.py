"""Rows as another release, or a broken disk, may have left them."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.pending_tool import pending_status
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.store.postgres.transaction import PostgresTx
from asyncagents.store.tx import Row, Tx
from tests.support.store.lab import Lab


async def session_row(lab: Lab, session_id: SessionId) -> tuple[bytes, int]:
    row = await lab.database.read(lambda tx: tx.one("session", session_id))
    assert row is not None
    return row[-2], row[-1]


async def message_row(lab: Lab, message_id: MessageId) -> tuple[bytes, int]:
    row = await lab.database.read(lambda tx: tx.one("message", message_id))
    assert row is not None
    return row[5], row[6]


async def part_row(lab: Lab, part_id: PartId) -> tuple[bytes, int]:
    row = await lab.database.read(lambda tx: tx.one("part", part_id))
    assert row is not None
    return row[0], row[1]


async def call_row(lab: Lab, call: Call) -> tuple[bytes, int]:
    row = await lab.database.read(lambda tx: tx.one("call", call.id))
    assert row is not None
    return row[0], row[1]


async def rewrite_session(lab: Lab, session_id: SessionId, raw: bytes, version: int) -> None:
    async def verb(tx: Tx) -> None:
        row: Row | None = await tx.one("session", session_id)
        assert row is not None
        await tx.one("save_session", *row[5:21], row[22], raw, version, await tx.rev(), session_id)

    await lab.database.write(verb)


async def rewrite_status(lab: Lab, session_id: SessionId, text: str) -> None:
    async def verb(tx: Tx) -> None:
        row: Row | None = await tx.one("session", session_id)
        assert row is not None
        await tx.one("save_session", *row[5:21], text, *row[-2:], await tx.rev(), session_id)

    await lab.database.write(verb)


async def rewrite_message(lab: Lab, message_id: MessageId, raw: bytes, version: int) -> None:
    async def verb(tx: Tx) -> None:
        await tx.one("save_message", False, raw, version, await tx.rev(), message_id)

    await lab.database.write(verb)


async def rewrite_part(lab: Lab, part_id: PartId, raw: bytes, version: int, *, message_id: MessageId) -> None:
    async def verb(tx: Tx) -> None:
        row = await tx.one("message", message_id)
        assert row is not None
        await tx.one("put_part", part_id, message_id, row[1], raw, version, await tx.rev())

    await lab.database.write(verb)


async def rewrite_call(lab: Lab, call: Call, raw: bytes, version: int) -> None:
    async def verb(tx: Tx) -> None:
        state = type(call.state).__name__.lower()
        due = call.open.due if call.open else None
        await tx.one(
            "put_call",
            call.id,
            call.session_id,
            call.part_id,
            call.ask_id,
            call.tool,
            state,
            due,
            call.shown_pending,
            pending_status(call),
            raw,
            version,
            await tx.rev(),
        )

    await lab.database.write(verb)


async def plan(tx: Tx, statement: str, params: Row) -> list[str]:
    """How the database would go about it, in SQLite's words."""
    if not isinstance(tx, PostgresTx):
        explained = f"EXPLAIN QUERY PLAN {tx._sql[statement]}"  # type: ignore[attr-defined]
        return [row[3] for row in tx._execute(explained, params).fetchall()]  # type: ignore[attr-defined]
    connection, text, _ = await tx._prepare(statement, params)
    await connection.execute("SET LOCAL enable_seqscan = off")  # in a few rows it would not look for an index
    told = [row[0] for row in await connection.fetch(f"EXPLAIN {text}", *params)]
    return [_describe_plan(each) for each in told]


def _describe_plan(line: str) -> str:
    scanned = re.sub(r".*Seq Scan on (\w+).*", r"SCAN \1", line)
    return re.sub(r".*Index (?:Only )?Scan (?:Backward )?(?:using|on) (\w+).*", r"INDEX \1", scanned)


SPOIL = {
    "task": "UPDATE task SET body = ? WHERE id = ?",
    "session": "UPDATE session SET info = ? WHERE id = ?",
    "call": "UPDATE call SET body = ? WHERE session_id = ?",
}


def spoil_row(data: Path, task_id: SessionId, table: str = "task") -> None:
    with closing(sqlite3.connect(data / "asyncagents.db")) as database, database:
        database.execute(SPOIL[table], (b"{no", task_id))
