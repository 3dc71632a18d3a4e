"""A seeded walk in which sessions launch, follow up, read, clear and delete tasks; and who watches."""

import random
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Requested, Running
from asyncagents.domain.fact import ClearTasks, Fact, Resume, Retrieve, Spawn
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board import BoardSnapshot, KindFilter
from asyncagents.domain.task.notice import NoticeOptions
from asyncagents.domain.task.task import Task, batch_of
from asyncagents.engine.event.task_stream import BoardUpdate
from tests.support.store.lab import ALICE, POOL, Lab, Step
from tests.support.store.task import open_parent
from tests.support.store.walk import Walk

MOST_TASKS = 12


class TaskWalk(Walk):
    def _moves(self) -> list[Callable[[], Awaitable[None]]]:
        rare = [self.resume, self.retrieve, self.clear, self.background]
        return [*super()._moves(), *rare, *rare, *[self.launch] * 3, *[self.toil] * 12]

    async def claim(self) -> None:
        """Who waits for a place is not taken."""
        for active in await self.lab.store.active_sessions(POOL):
            if active.state == "ready" and self.rng.random() < 0.5:
                taken = await self.lab.store.claim(active.session_id, ALICE, dead=None)
                if taken is not None:
                    self.leases[active.session_id] = Claim(active.session_id, taken.control.fence)

    async def toil(self) -> None:
        """A task does the next thing that it would do, and nothing else happens."""
        live = [seen.task.id for seen in await self.lab.store.live_tasks()]
        working = [self.leases[each] for each in live if each in self.leases]
        if not working or self.rng.random() < 0.2:
            await self.claim()
            return
        claim = self.rng.choice(working)
        if claim.session_id in self.steps:
            await self._answer(claim)
            return
        calls = (await self.lab.store.snapshot(claim)).calls
        asked = [call for call in calls if isinstance(call.state, Requested)]
        running = [call for call in calls if isinstance(call.state, Running)]
        if asked:
            await self.lab.move(claim, asked[0], Running(claim.fence))
        elif running:
            await self.lab.store.finish_call(claim, running[0].id, Completed("ok"))
        elif not calls:
            self.leases, kept = {claim.session_id: claim}, self.leases
            await self.rng.choice([self.step, self.step, self.stop])()
            self.leases = {key: each for key, each in kept.items() if key != claim.session_id} | self.leases

    async def step(self) -> None:
        """Ends of tasks are told with it."""
        claim = self._any_lease()
        if claim is None or claim.session_id in self.steps:
            return
        snapshot = await self.lab.store.snapshot(claim)
        if snapshot.executing_calls or snapshot.requested_calls or not (snapshot.unread or snapshot.step):
            return
        options = NoticeOptions(message_id=self.lab.ids.message())
        new = replace(self.lab.new_step(), notices=options)
        if (started := await self.lab.store.start_step(claim, new)) is not None:
            self.steps[claim.session_id] = Step(started, new.request_id)

    async def _answer(self, claim: Claim) -> None:
        step = self.steps.pop(claim.session_id)
        self.texts.pop(claim.session_id, None)
        turn = (await self.lab.store.control(claim.session_id)).turn
        tools = self.rng.choice([[], ["read"], ["read", "grep"]])
        await self.lab.end(claim, step, *[self.lab.call(step, tool=each, turn=turn) for each in tools])

    async def _by_a_call(self, make: Callable[[Call], Fact | None]) -> None:
        """What a running call does to tasks."""
        for claim in list(self.leases.values()):
            for call in (await self.lab.store.snapshot(claim)).calls:
                if isinstance(call.state, Running):
                    if (fact := make(call)) is not None:
                        await self.lab.store.finish_call(claim, call.id, Completed("ok"), (fact,))
                    return
        boss = await open_parent(self.lab, 3)
        self.leases[boss.id] = boss.lease

    async def launch(self) -> None:
        if len(await self.lab.store.tasks()) < MOST_TASKS:
            await self._by_a_call(self._spawn)

    def _spawn(self, call: Call) -> Spawn:
        lab, now = self.lab, self.lab.clock.now()
        info = lab.info(parent=call.session_id)
        task = Task(
            id=info.id,
            parent_id=call.session_id,
            message_id=call.message_id,
            parent_agent="build",
            agent=self.rng.choice(["general", "explore"]),
            description=f"Find {self.rng.randrange(100)}",
            prompt="look",
            batch=batch_of(call.session_id, call.turn),
            created=now,
            began=now,
            crowd=self.rng.choice([1, 2, 20]),
            background=self.rng.random() < 0.6,
        )
        return Spawn(info=info, first=lab.input(info.id, "look"), task=task, deepest=3, most=200)

    async def _any_task(self) -> Task | None:
        tasks = await self.lab.store.tasks()
        return self.rng.choice(tasks).task if tasks else None

    async def resume(self) -> None:
        task = await self._any_task()
        known = {info.id for info in await self.lab.store.sessions("prj", limit=1_000)}
        if task is not None and task.id in known:
            said = self.lab.input(task.id, "and?")
            if self.rng.random() < 0.5:
                await self.lab.store.resume(Resume(task.id, said, "and?"))
            else:
                await self._by_a_call(lambda call: Resume(task.id, said, "and?", call.id))

    async def background(self) -> None:
        if (task := await self._any_task()) is not None and task.live:
            await self.lab.store.actions.move_to_background(task.id)

    async def retrieve(self) -> None:
        if (task := await self._any_task()) is not None:
            await self._by_a_call(lambda call: Retrieve(task.id, task.run))

    async def clear(self) -> None:
        if self.rng.random() < 0.3:
            await self._by_a_call(lambda call: ClearTasks(call.session_id))


def bodies(board: BoardSnapshot) -> dict[SessionId, bytes]:
    assert not board.truncated
    return {task.session_id: encode(task) for task in board.tasks}


class Watcher:
    """Begins with a snapshot and applies news; it may be cut off after any of them."""

    def __init__(self, board: BoardSnapshot, cursor: str, kind: KindFilter = "background") -> None:
        self.state = bodies(board)
        self.kind = kind
        self.cursor = cursor
        self.received: list[tuple[str, str]] = []

    def apply(self, news: BoardUpdate) -> None:
        """Whatever is told of a task, it was told before that it is there."""
        session_id = SessionId(msgspec.json.decode(news.body)["sessionID"])
        self.cursor = news.cursor
        self.received.append((news.type, session_id))
        if news.type == "task.removed":
            self.state.pop(session_id, None)
            return
        assert news.type == "task.created" or session_id in self.state, news
        self.state[session_id] = news.body


async def open_watcher(lab: Lab, kind: KindFilter) -> Watcher:
    return Watcher(*await lab.store.board.snapshot(kind), kind)


async def read_watcher(lab: Lab, kind: KindFilter = "background") -> dict[SessionId, bytes]:
    board, _ = await lab.store.board.snapshot(kind)
    return bodies(board)


def draw_some(rng: random.Random, news: list[BoardUpdate]) -> list[BoardUpdate]:
    """All of it, or what came before a cut."""
    return news if rng.random() < 0.6 else news[: rng.randrange(len(news) + 1)]
