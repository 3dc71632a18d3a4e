"""One seed of a world of async calls: processes that crash, or all are gone, and an outside that sends."""

import asyncio
import random
from functools import partial
from pathlib import Path

from asyncagents.domain.call.call import START_UNSURE, Answers, Completed, Once, Open
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound
from asyncagents.testing.clock import EPOCH_MS
from tests.simulation.park_cast import LAST, ParkCast
from tests.simulation.park_clients import ParkClients
from tests.simulation.park_stage import ParkStage
from tests.simulation.parks import park
from tests.simulation.rows import Rows
from tests.simulation.scenario import ACTIVE_SECONDS, Scenario
from tests.simulation.tree_clients import tasks_of

SWEPT = 40
"""So long after its time something may be found."""
FORGOTTEN = 700
"""So long after its time somebody looks for what is old."""


class ParkWorld(Scenario):
    crews = (1, 2, 2)
    quiet_seconds = 4000
    look_seconds = 25

    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed, path)
        self._seed = seed
        self.park = park(seed)
        self.machine.poll_seconds = self.rng.choice([0.5, 3, 5])
        self.book = ParkStage(Rows(path), seed)
        self.book.dead = self.stage.dead
        self.book.forgets = self.park.keep < FORGOTTEN
        self.stage = self.book
        self._cast = ParkCast(self.book, seed, self.park)
        self.setup = self._cast.setup
        self.clients = ParkClients(self)
        self.book.serve = self.clients.serve

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        acts = self.clients.begin(group)
        acts.append(group.create_task(self._nemesis()))
        acts.append(group.create_task(self._follow()))
        return acts

    async def black_out(self) -> None:
        """Nobody is there, while deadlines pass."""
        await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS)
        clock = asyncio.get_running_loop().time
        self.dark_until = clock() + self.park.dark
        while clock() < self.dark_until:
            for process in self._living():
                process.crash()
            await asyncio.sleep(1)

    async def _drain(self, acts: list[asyncio.Task[None]]) -> None:
        """Then everybody is spoken to once more, and so the model reads all that it has not read yet."""
        await super()._drain(acts)
        if self.book.forgets:
            await asyncio.sleep(FORGOTTEN)
        self.book.lasting = {number for number in self.everybody if self.lasts(number)}
        if not self.stage.counts.get("aborts"):
            self.book.heard = {each for each, number in self.book.opened_by.items() if self.lasts(number)}
        for session_id in self.stage.sessions:
            if session_id not in self.stage.deleted:
                key, text = self.text(session_id, LAST)
                await self.insist(partial(Runtime.send, session_id=session_id, text=text, key=key))
        await super()._drain([])
        await self.clients.check_secrets()

    async def _waiting(self) -> list[SessionId]:
        self.stage.check_unbroken()
        self._check_awake()
        return list(await self.insist(lambda r: r.statuses()))

    def _check_awake(self) -> None:
        assert self.stage.rows is not None
        if asleep := self.stage.rows.asleep():
            self.stage.violate(f"P-04: {asleep} sleep in a turn with nothing left to wait for")

    async def _settle_all(self, session_id: SessionId) -> None:
        for call in await self.insist(lambda r: r.open_calls(session_id)):
            assert call.open is not None
            due = call.open.due
            self._check_overdue(call.id, due)
            self._check_overdue(call.id, call.open.warn)
            _check_warned(self.book, call.open)
            if call.open.note == START_UNSURE:
                self.stage.count("reopened")
            if call.open.ask and call.ask_id:
                await self._reply(call.ask_id, Once())
            elif call.open.question and call.ask_id and self.rng.random() < 0.5:
                await self._reply(call.ask_id, Answers((("A",),)))
            elif call.open.kind == "async" and not self._left_alone(call.id, due):
                await self.clients.send(call.id, Completed(f"in the end {call.id}"), insists=True)

    def _check_overdue(self, call_id: str, due: int | None) -> None:
        """Once nothing crashes any more, what is over is over."""
        now = asyncio.get_running_loop().time()
        if due is None or now < ACTIVE_SECONDS + self.park.dark + SWEPT:
            return
        if due + SWEPT * 1000 < EPOCH_MS + now * 1000:
            self.stage.violate(f"P-07: {call_id} was due at {due} and is still open")

    def _left_alone(self, call_id: str, due: int | None) -> bool:
        """Some time out, to the very end."""
        soon = EPOCH_MS + (asyncio.get_running_loop().time() + 1000) * 1000
        return due is not None and due < soon and random.Random(f"{self._seed}:{call_id}").random() < 0.6

    async def _at_rest(self) -> bool:
        if await self.insist(lambda r: r.statuses()):
            return False
        owed = await self.insist(lambda r: r.deliveries.list("owed"))
        return not owed and not await self.insist(partial(tasks_of, live=True))

    def lasts(self, number: int | None) -> bool:
        """A process that lives to the end, and can write: what it hears is written down."""
        if number is None or self.writes_fail or number in self.stage.suspects:
            return False
        return not self.everybody[number].dead and not self.everybody[number].over.is_set()

    def may_be_forgotten(self, call_id: CallId) -> bool:
        """Its row, not its result."""
        old = EPOCH_MS + (asyncio.get_running_loop().time() - self.park.keep) * 1000
        settled = self.book.settled.get(call_id)
        return self.book.forgets and (settled is None or (settled.time.completed or 0) <= old)

    async def delete(self, session_id: SessionId) -> None:
        self.stage.deleted.add(session_id)
        try:
            await self.request(lambda r: r.delete_session(session_id))
        except NotFound:
            return
        self.stage.count("deleted")


def _check_warned(book: ParkStage, state: Open) -> None:
    """P-07: people are warned before, and not long before."""
    now = EPOCH_MS + int(asyncio.get_running_loop().time() * 1000 + 0.001)
    if state.warned:
        book.count("warned")
        if state.due is None or now < state.due - (state.due - state.since) // 10:
            book.violate(f"P-07: {state} was warned of too early, at {now}")
