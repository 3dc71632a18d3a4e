"""Clients of worlds in which sessions launch sessions: they cancel, resume and move tasks, and more."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Conflict, NotFound

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

SECONDS = 25
LONGEST_AMBUSH = 300
SWEPT = 40
CLEARED_BY = 70


class TreeClients:
    def __init__(self, scenario: "Scenario") -> None:
        self._world = scenario
        self._rng = scenario.rng
        self._stuck: set[str] = set()

    def begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        acts = [group.create_task(self._client()) for _ in range(self._rng.randrange(2, 12))]
        visits = self._world.grove.visits if self._world.grove else 0
        return acts + [group.create_task(self._visit()) for _ in range(visits)]

    async def _visit(self) -> None:
        """Speak to a child that is no task any more, as soon as there is one; several clients at once."""
        rows, clock = self._world.stage.rows, asyncio.get_running_loop().time
        assert rows is not None
        await asyncio.sleep(self._rng.randrange(4) * 8)
        while clock() < CLEARED_BY:
            await asyncio.sleep(0.5)
            if found := rows.cleared():
                child = SessionId(self._rng.choice(found))
                await self._world.attempt(partial(self._try, partial(self._world.prompt, child)))
                self._world.stage.count("visits")
                return

    async def _client(self) -> None:
        await asyncio.sleep(2 + self._rng.random() * SECONDS)
        acts: list[Callable[[SessionId], Awaitable[None]]] = [
            self._cancel,
            self._resume,
            self._background,
            self._abort_turn,
            self._world.prompt,
            self._world.quiet,
            self._world.abort,
            self._world.compact,
            self._look,
            self._delete,
            self._cancel_batch,
        ]
        if self._rng.random() < 0.2:
            await self._world.attempt(partial(self._try, self._ambush))
            return
        act = self._rng.choices(acts, [18, 25, 8, 5, 12, 3, 4, 3, 6, 3, 3])[0]
        task = await self._some_task()
        if task is not None:
            await self._world.attempt(partial(self._try, partial(act, task)))

    async def _some_task(self) -> SessionId | None:
        tasks = await self._world.insist(tasks_of)
        return self._rng.choice(tasks).session_id if tasks else None

    async def _try(self, act: Callable[[], Awaitable[None]]) -> None:
        """What it is about may have been deleted by somebody, or cleared by its parent."""
        with suppress(NotFound):
            await act()

    async def _cancel(self, task: SessionId) -> None:
        await self._world.stop(task, lambda r: r.tasks.cancel(task))
        self._world.stage.count("cancels")

    async def _cancel_batch(self, task: SessionId) -> None:
        batch = (await self._world.insist(lambda r: r.tasks.get(task))).batch_id
        await self._world.request(lambda r: r.tasks.cancel_batch(batch))

    async def _resume(self, task: SessionId) -> None:
        key, text = self._world.text(task, "more")
        await self._world.insist(lambda r: r.tasks.resume(task, text, key=key))
        self._world.stage.follow_ups[text] = task
        self._world.stage.count("resumes")

    async def _background(self, task: SessionId) -> None:
        try:
            await self._world.request(lambda r: r.tasks.background(task))
        except Conflict:
            return
        self._world.stage.count("moved")

    async def _abort_turn(self, task: SessionId) -> None:
        """Of a parent: what it launched in the background goes on."""
        parent = (await self._world.insist(lambda r: r.tasks.get(task))).parent_session_id
        await self._world.request(lambda r: r.abort(parent, seconds=20, scope="turn"))
        self._world.stage.count("turns aborted")

    async def _ambush(self) -> None:
        """Who is just about to launch somebody is cancelled, or who stands above, or who is waited for."""
        rows = self._world.stage.rows
        assert rows is not None
        looks: list[Callable[[], Sequence[Sequence[str]]]] = [rows.launching, rows.read]
        find = self._rng.choice(looks)
        for _ in range(LONGEST_AMBUSH):
            await asyncio.sleep(0.03)
            if found := find():
                victim = SessionId(self._rng.choice(self._rng.choice(found)))
                await self._world.abort(victim)
                self._world.stage.count("ambushes")
                return

    async def _look(self, task: SessionId) -> None:
        await self._world.request(lambda r: r.tasks.why(task))
        await self._world.request(lambda r: r.tasks.list(task))

    async def _delete(self, task: SessionId) -> None:
        self._world.stage.deleted.add(task)
        await self._world.request(lambda r: r.delete_session(task))
        self._world.stage.count("deleted")

    def check_queue(self) -> None:
        """D-10: nobody waits for a place while one is free; a crash may have lost a wake, until a sweep."""
        rows, clock = self._world.stage.rows, asyncio.get_running_loop().time
        assert rows is not None
        stuck = rows.stuck(self._world.stage.crowd)
        if self._stuck & stuck and clock() > SECONDS + SWEPT:
            self._world.stage.violate(f"D-10: {self._stuck & stuck} wait for a place though one is free")
        self._stuck = stuck

    async def at_rest(self) -> bool:
        if await self._world.insist(lambda r: r.statuses()):
            return False
        return not await self._world.insist(partial(tasks_of, live=True))


async def tasks_of(runtime: Runtime, *, live: bool = False) -> tuple[BackgroundTask, ...]:
    return await runtime.tasks.list(live=live, limit=100)
