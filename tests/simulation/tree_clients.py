"""Clients of worlds in which sessions launch sessions: they cancel, resume and move tasks, and more."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import Conflict, NotFound

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

SECONDS = 25


class TreeClients:
    def __init__(self, scenario: "Scenario") -> None:
        self._world = scenario
        self._rng = scenario.rng

    def begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        return [group.create_task(self._client()) for _ in range(self._rng.randrange(2, 12))]

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
        act = self._rng.choices(acts, [18, 25, 8, 5, 12, 3, 4, 3, 6, 3, 3])[0]
        task = await self._some_task()
        if task is not None:
            await self._world.attempt(partial(self._try, act, task))

    async def _some_task(self) -> SessionId | None:
        tasks = await self._world.insist(_tasks)
        return self._rng.choice(tasks).session_id if tasks else None

    async def _try(self, act: Callable[[SessionId], Awaitable[None]], task: SessionId) -> None:
        try:
            await act(task)
        except NotFound as error:
            if not self._gone_lawfully(task):
                self._world.stage.violate(f"I0: what was acknowledged is gone: {error}")

    def _gone_lawfully(self, task: SessionId) -> bool:
        """Deleted by somebody, or cleared by its parent."""
        return bool(self._world.stage.deleted) or task not in self._world.stage.sessions

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

    async def _look(self, task: SessionId) -> None:
        await self._world.request(lambda r: r.tasks.why(task))
        await self._world.request(lambda r: r.tasks.list(task))

    async def _delete(self, task: SessionId) -> None:
        self._world.stage.deleted.add(task)
        await self._world.request(lambda r: r.delete_session(task))
        self._world.stage.count("deleted")

    async def at_rest(self) -> bool:
        if await self._world.insist(lambda r: r.statuses()):
            return False
        return not await self._world.insist(partial(_tasks, live=True))


async def _tasks(runtime: Runtime, *, live: bool = False) -> tuple[BackgroundTask, ...]:
    return await runtime.tasks.list(live=live, limit=100)
