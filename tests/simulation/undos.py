"""A world where people undo and redo what was said and done, while processes die."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from asyncagents.app.assemble import Setup
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import Outcome, Pending, Tool, ToolContext
from asyncagents.engine.workplace.workplace import FixedWorkplace
from asyncagents.errors import NotFound, SessionBusy
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
    StepFinish,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    UserTurn,
)
from asyncagents.testing.process import Process
from tests.simulation.cast import Do
from tests.simulation.checker import all_calls, check_mirror
from tests.simulation.scenario import ACTIVE_SECONDS, Scenario
from tests.simulation.stage import Violation, session_of
from tests.simulation.undo_files import Disk, DiskSnapshots

UNDOS = 4_000_000
"""From this seed on."""
MOST_CALLS = 3


def allow(ask: Any, context: Any) -> Any:
    return "allow"


class UndoModel:
    """It edits files and sends out jobs for each prompt, and looks whether what it is told may be told."""

    def __init__(self, world: "UndoWorld", process: Process, seed: int) -> None:
        self._world = world
        self._process = process
        self._seed = seed

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        if not self._process.dead and self._process.number not in self._world.stage.suspects:
            self._world.check_told(request)
        rng = random.Random(f"{self._seed}:{len(request.messages)}:{request.messages[-1]}")
        yield StreamStart()
        await asyncio.sleep(rng.random())
        yield TextStart("t")
        yield TextDelta("t", "so be it")
        yield TextEnd("t")
        prompts = [at for at, told in enumerate(request.messages) if isinstance(told, UserTurn)]
        since = request.messages[prompts[-1] :]
        if (
            sum(len(told.calls) for told in since if isinstance(told, ModelTurn)) < MOST_CALLS
            and rng.random() < 0.8
        ):
            for number in range(rng.choice([1, 1, 2])):
                key, tool = (
                    f"c{len(request.messages)}_{number}_{rng.random()}",
                    rng.choice(["edit", "edit", "job"]),
                )
                said = {"n": rng.randrange(4)}
                yield ToolCallStart(key, tool)
                yield ToolCallReady(key, tool, said)
        yield StepFinish("stop", None)
        yield StreamFinish()


class UndoWorld(Scenario):
    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed, path)
        self._seed = seed
        self._path = path
        self.disk = Disk()
        self._writes = 0

    def setup_of(self, process: Process) -> Setup:
        place = FixedWorkplace((self._edit(process), self._job(process)), allow)
        place.snapshots = DiskSnapshots(self.disk, process, self._seed)
        return Setup(
            model=UndoModel(self, process, self._seed), open_workplaces=lambda launcher: nullcontext(place)
        )

    def _start(self) -> None:
        self.setup = self.setup_of
        super()._start()

    def _edit(self, process: Process) -> Tool[Do]:
        async def run(args: Do, context: ToolContext) -> Outcome:
            await asyncio.sleep(0.3 * args.n)
            if process.dead:
                raise asyncio.CancelledError
            self._writes += 1
            name = f"{context.session_id}/{args.n}"
            if args.n == 3:
                self.disk.files.pop(f"{context.session_id}/0", None)
            self.disk.files[name] = f"{context.call_id} {self._writes}"
            return Completed("edited")

        return Tool("edit", Do, run, timeout=20)

    def _job(self, process: Process) -> Tool[Do]:
        async def run(args: Do, context: ToolContext) -> Outcome:
            await asyncio.sleep(0.1)
            if not process.dead:
                self.stage.jobs.append(context.call_id)
            return Pending(note="sent out", seconds=None)

        return Tool("job", Do, run, effect="idempotent", timeout=20)

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        acts = [group.create_task(self._act()) for _ in range(self.rng.randrange(10, 40))]
        acts.append(group.create_task(self._nemesis()))
        acts.append(group.create_task(self._follow()))
        return acts

    async def _act(self) -> None:
        await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS)
        session_id = self.rng.choice(self.stage.sessions)
        acts = [self.send, self.quiet, self.abort, self._deliver, self._undo, self._redo, self.compact]
        act = self.rng.choices(acts, [30, 4, 4, 12, 40, 20, 4])[0]
        await self.attempt(lambda: act(session_id))

    async def _undo(self, session_id: SessionId) -> None:
        entries = await self.insist(lambda r: r.messages(session_id))
        if not entries:
            return
        entry = self.rng.choice(entries[-6:])
        parts = [part.id for part in entry.parts if part.id is not None]
        part_id = self.rng.choice(parts) if parts and self.rng.random() < 0.3 else None
        try:
            session = await self.request(lambda r: r.reverts.revert(session_id, entry.info.id, part_id))
        except SessionBusy:
            self.stage.count("busy")
        except NotFound:
            self.stage.count("gone")
        else:
            self.stage.count("undone")
            self._check_files(session)

    async def _redo(self, session_id: SessionId) -> None:
        try:
            await self.request(lambda r: r.reverts.unrevert(session_id))
        except SessionBusy:
            self.stage.count("busy")
        else:
            self.stage.count("redone")

    def _rows(self, query: str, *params: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute(query, params).fetchall()

    def _mark(self, session_id: str) -> dict[str, Any] | None:
        ((info, state),) = self._rows("SELECT info, state FROM session WHERE id = ?", session_id)
        mark = json.loads(info).get("revert")
        return mark if mark is not None and state == "idle" else None

    def _check_files(self, session: Session) -> None:
        """Each as it was before the first step that is undone and changed it, if nobody has spoken since.

        Others that worked at the same time count what they saw of it as theirs, and may have undone that.
        """
        mark = self._mark(session.id)
        if mark is None or session.revert is None or mark["messageID"] != session.revert.message_id:
            return
        query = (
            "SELECT part.id, part.body FROM message JOIN part ON part.message_id = message.id"
            " WHERE message.session_id = ? AND message.id >= ? ORDER BY message.id, part.id"
        )
        cut = mark.get("partID", "")
        was: dict[str, str | None] = {}
        for part_id, body in self._rows(query, session.id, mark["messageID"]):
            part = json.loads(body)
            if part["type"] == "patch" and (part["messageID"] != mark["messageID"] or part_id >= cut):
                for file in part["files"]:
                    was.setdefault(file, self.disk.kept[part["hash"]].get(file))
        for file, text in was.items():
            if file.startswith(f"{session.id}/") and self.disk.files.get(file) != text:
                self.stage.violate(f"X-01: {session.id} is undone, and {file} is not as it was")
            self.stage.count("files as they were")

    def check_told(self, request: ChatRequest) -> None:
        """X-01: while something is undone no model is asked, and what has gone is told to none."""
        name = session_of(request.messages)
        known = {self.stage.name(each): each for each in self.stage.sessions}
        if name not in known or "compaction" in request.system:
            return
        ((info,),) = self._rows("SELECT info FROM session WHERE id = ?", known[name])
        if json.loads(info).get("revert") is not None:
            self.stage.violate(f"X-01: a model is asked in {name}, where something is undone")
        there = {
            json.loads(body).get("text")
            for (body,) in self._rows("SELECT body FROM part WHERE session_id = ?", known[name])
        }
        for told in request.messages:
            if isinstance(told, UserTurn) and told.text.startswith(f"{name}:") and told.text not in there:
                self.stage.violate(f"X-01: {told.text!r} was undone for good, and a model reads it")

    async def _drain(self, acts: list[asyncio.Task[None]]) -> None:
        """At last all that is undone goes for good: then nothing of it is left."""
        await super()._drain(acts)
        check_marked(self._path)
        for session_id in self.stage.sessions:
            _, text = self.text(session_id)
            await self.insist(lambda r, session_id=session_id, text=text: _say(r, session_id, text))  # type: ignore[misc]
        await super()._drain([])


async def _say(runtime: Runtime, session_id: SessionId, text: str) -> MessageId:
    return await runtime.send(session_id, text, key=text)


def check_marked(path: Path) -> None:
    """Nothing that is undone waits for anybody, nor works."""
    with closing(sqlite3.connect(path)) as db:
        calls = all_calls(db)
        for session_id, info in db.execute("SELECT id, info FROM session"):
            mark = json.loads(info).get("revert")
            for call in calls.values() if mark is not None else ():
                undone = call.message_id > mark["messageID"] or (
                    call.message_id == mark["messageID"] and call.part_id >= mark.get("partID", "")
                )
                if call.session_id == session_id and undone and not call.is_settled:
                    raise Violation(f"X-01: {call.id} is undone, and waits: {call.state}")


def check_undos(world: UndoWorld, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        for mirror in world.stage.mirrors:
            check_mirror(db, mirror)
        for session_id, info, state in db.execute("SELECT id, info, state FROM session"):
            if json.loads(info).get("revert") is not None or state != "idle":
                raise Violation(f"X-01: {session_id} was spoken to, and something is undone still")
        lost = "SELECT id FROM part WHERE message_id NOT IN (SELECT id FROM message)"
        if odd := db.execute(lost).fetchall():
            raise Violation(f"X-01: parts of nothing: {odd[:3]}")
        if open_calls := [call.id for call in all_calls(db).values() if not call.is_settled]:
            raise Violation(f"X-01: calls wait still: {open_calls}")
