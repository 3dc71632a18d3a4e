"""An import of a long session: how long each of its transactions holds the write lock."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from asyncagents import ScriptedModel, open_runtime
from asyncagents.domain.conversation.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import Ids
from asyncagents.domain.shape import encode
from asyncagents.domain.transfer.records import (
    ImportedMessage,
    ImportedPart,
    MessageMark,
    SessionImport,
    SessionMark,
)
from asyncagents.store.facade import TransferStore
from asyncagents.store.tx import Commit, Database, Verb
from benchmarks.machine import measure as machine
from benchmarks.report import Figure, table

MESSAGES, PARTS = 20_000, 3
NOW = 1_700_000_000_000
T = TypeVar("T")


class Timed:
    """A database that notes how long each transaction that writes took, until it was durable."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.took: list[float] = []

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        begun = time.perf_counter()
        try:
            return await self._database.write(verb, inline=inline)
        finally:
            self.took.append((time.perf_counter() - begun) * 1e3)

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        return await self._database.read(verb, inline=inline)

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._database.listen(listener)


async def measure(directory: Path) -> list[Figure]:
    async with open_runtime(directory, model=ScriptedModel({}), serve=False) as runtime:
        first = await runtime.create_session(directory="/project")
        new = _brought(runtime.conversations._session_factory.ids, first)
        timed = Timed(runtime._store.transfer._database)
        begun, cpu = time.perf_counter(), time.process_time()
        await TransferStore(timed).import_session(new, pool="here")
        took, spent = time.perf_counter() - begun, time.process_time() - cpu
    longest = sorted(timed.took)
    return [
        Figure(f"import of {MESSAGES * (1 + PARTS):,} rows: wall", took, "s"),
        Figure("… CPU", spent, "s"),
        Figure("… transactions", len(longest), ""),
        Figure("… one of them, sync included, p50", longest[len(longest) // 2], "ms", "≤ 50"),
        Figure("… the longest", longest[-1], "ms"),
    ]


def _brought(ids: Ids, like: Session) -> SessionImport:
    info = Session(**{name: getattr(like, name) for name in like.__struct_fields__} | {"id": ids.session()})
    model = ModelRef(provider_id="scripted", model_id="scripted")
    messages = [
        UserMessage(id=each, session_id=info.id, time=MessageTime(created=NOW), agent="build", model=model)
        for each in ids.messages(MESSAGES)
    ]
    parts = [
        TextPart(id=part_id, session_id=info.id, message_id=each.id, text="some words " * 20)
        for each in messages
        for part_id in ids.parts(PARTS)
    ]
    return SessionImport(
        info=info,
        raw=encode(info),
        mark=SessionMark(),
        messages=tuple(
            ImportedMessage(info=each, raw=encode(each), mark=MessageMark(position=place))
            for place, each in enumerate(messages, 1)
        ),
        parts=tuple(ImportedPart(each, encode(each)) for each in parts),
    )


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        print(table(machine() + asyncio.run(measure(Path(directory)))), file=sys.stdout)


if __name__ == "__main__":
    main()
