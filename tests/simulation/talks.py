"""A world where people copy conversations, rename them and cut the copies, whatever crashes."""

import asyncio
import json
import sqlite3
from functools import partial
from pathlib import Path

from asyncagents.domain.conversation.session import Session, SessionChanges
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound, SessionBusy
from tests.simulation.scenario import ACTIVE_SECONDS, Scenario
from tests.simulation.stage import Violation

TALKS = 5_000_000
"""From this seed on."""


class TalkWorld(Scenario):
    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed, path)
        self.copies: dict[SessionId, SessionId] = {}
        """What was acknowledged: each copy, and what it is of."""
        self.wished = 0
        self.gone: set[MessageId] = set()

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        talks = [group.create_task(self._talk()) for _ in range(self.rng.randrange(4, 14))]
        return [*super()._begin(group), *talks]

    async def _talk(self) -> None:
        await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS)
        act = self.rng.choice([self._copy, self._copy, self._cut, self._cut_what_works, self._rename])
        await self.attempt(act)

    async def _copy(self) -> None:
        """Of a session, or of a copy; and all of it, or what came before a message."""
        of = self.rng.choice([*self.stage.sessions, *self.copies])
        entries = await self.insist(lambda r: r.messages(of))
        before = self.rng.choice([None, *(entry.info.id for entry in entries)])
        self.wished += 1
        key = f"copy{self.wished}"
        send = self.insist if self.rng.random() < 0.8 else self.request
        try:
            made: Session = await send(lambda r: r.conversations.fork(of, before=before, key=key))
        except NotFound:
            if before not in self.gone:
                raise
            return
        again = await self.insist(lambda r: r.conversations.fork(of, before=before, key=key))
        if made.id != again.id:
            raise Violation(f"X-01: one wish for a copy gave {made.id} and {again.id}")
        self.copies[made.id] = of
        self.stage.count("copies")
        if self.rng.random() < 0.5:
            await self._cut()

    async def _cut(self) -> None:
        if not self.copies:
            return
        copy = self.rng.choice(list(self.copies))
        entries = await self.insist(lambda r: r.messages(copy))
        if entries:
            gone = self.rng.choice(entries).info.id
            try:
                await self.insist(partial(_remove, session_id=copy, message_id=gone))
            finally:
                self.gone.add(gone)
            self.stage.count("cuts")

    async def _cut_what_works(self) -> None:
        """What a session that works has said stays; one that rests is left alone here."""
        session_id = self.rng.choice(self.stage.sessions)
        busy = await self.insist(lambda r: r.statuses())
        entries = await self.insist(lambda r: r.messages(session_id))
        if session_id not in busy or not entries:
            return
        part = entries[0].parts[0]
        try:
            await self.request(lambda r: r.conversations.change_part(part))  # type: ignore[arg-type]
        except SessionBusy:
            self.stage.count("refused cuts")

    async def _rename(self) -> None:
        session_id = self.rng.choice([*self.stage.sessions, *self.copies])
        title = f"title {self.rng.randrange(9)}"
        await self.insist(lambda r: r.conversations.change(session_id, SessionChanges(title=title)))


async def _remove(runtime: Runtime, *, session_id: SessionId, message_id: MessageId) -> None:
    """Whoever repeats it may find that it is done."""
    try:
        await runtime.conversations.remove_message(session_id, message_id)
    except NotFound as error:
        if error.kind != "message":
            raise


def check_talks(world: TalkWorld, path: Path) -> None:
    """X-01: acknowledged copies are there, each once and closed; what was taken out is gone."""
    db = sqlite3.connect(path)
    try:
        sessions = dict(db.execute("SELECT id, info FROM session").fetchall())
        if missing := world.copies.keys() - sessions.keys():
            raise Violation(f"X-01: acknowledged copies are gone: {sorted(missing)}")
        if len(sessions) > len(world.stage.sessions) + world.wished:
            raise Violation(f"X-01: {len(sessions)} sessions, of {world.wished} wishes for copies")
        for message_id in world.gone:
            for query in ("message WHERE id", "part WHERE message_id", "input WHERE message_id"):
                if db.execute(f"SELECT 1 FROM {query} = ?", (message_id,)).fetchone():  # noqa: S608  ours
                    raise Violation(f"X-01: {message_id} was taken out, and is there: {query}")
        for copy, of in world.copies.items():
            _check_copy(db, copy, of)
    finally:
        db.close()


def _check_copy(db: sqlite3.Connection, copy: SessionId, of: SessionId) -> None:
    """It says what the other said, and has no calls or requests of its own to pay for."""
    if db.execute("SELECT 1 FROM call WHERE session_id = ?", (copy,)).fetchone():
        raise Violation(f"X-01: {copy} has calls of its own")
    (raw,) = db.execute("SELECT info FROM session WHERE id = ?", (copy,)).fetchone()
    if "parentID" in (info := json.loads(raw)) or info["tokens"]["input"]:
        raise Violation(f"X-01: {copy} is not a session of its own: {info}")
    parents = [
        json.loads(row[0]) for row in db.execute("SELECT info FROM message WHERE session_id = ?", (copy,))
    ]
    strangers = [each["id"] for each in parents if each["sessionID"] != copy]
    if strangers:
        raise Violation(f"X-01: {strangers} of {copy} say they are of another session than {of}")
