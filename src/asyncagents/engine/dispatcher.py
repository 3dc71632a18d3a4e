"""Who runs when: a table of live runs, fed by wakes, and a sweep that finds what wakes missed."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine

from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.domain.port import Clock
from asyncagents.engine.expiry import Expiry
from asyncagents.engine.model_gate import ModelGate
from asyncagents.engine.resumed import Resumed
from asyncagents.engine.run import Run
from asyncagents.engine.runner import Runner
from asyncagents.engine.watch import UNWATCHED, Watch
from asyncagents.errors import AsyncAgentsError, Damaged, LeaseLost, NotFound, StoreError
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.store.verb.expire import PIECE

SWEEP_MS = 30_000
RETRY_MS = 1_000
AUDIT_MS = 600_000
LATE_MS = 25_000
"""So long after a cut a claim may still come through that nobody waits for: a store tries for less."""
RUNS = 2_000
PAGE = 500
PIECES = 20
KNOWN = 10_000

_log = logging.getLogger(__name__)


class Dispatcher:
    """A wake is only a hint: a run claims its session in the store, or finds that there is nothing to do."""

    gate: ModelGate | None

    def __init__(  # noqa: PLR0913  all that running takes
        self,
        *,
        store: Store,
        runner: Runner,
        owner: OwnerId,
        alive: Callable[[OwnerId], bool],
        pools: tuple[str, ...],
        clock: Clock,
        group: asyncio.TaskGroup,
        keep_ms: int,
        most: int = 0,
        hinted: bool = False,
        watch: Watch = UNWATCHED,
    ) -> None:
        """`hinted`: woken sessions are offered to whoever has room, here or elsewhere."""
        self._most, self._hinted, self._cut_off, self._draining = most or RUNS, hinted, False, False
        self._keep_ms, self._watch, self.gate = keep_ms, watch, None
        self._store = store
        self._runner, self.reverts = runner, runner.reverts
        self._owner, self._alive = owner, alive
        self.pools = pools
        self._clock = clock
        self._runs: dict[SessionId, Run] = {}
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._group = group
        self._serving = asyncio.Event()
        self._root: SessionId | None = None
        self._ours: dict[SessionId, bool] = {}
        self._overflow = False
        self.on_drain: Callable[[], None] = lambda: None
        self._unwritten: dict[SessionId, bool] = {}
        """Sessions whose run failed to write: nothing crashed, so taking them up again counts for nothing."""
        self.trouble: StoreError | None = None
        """Why the last run could not be kept, whichever it was; None again once a run ends well."""
        self.resumed = Resumed(store=store, clock=clock)
        self.expiry, self._sweep_wanted = Expiry(store.due, clock, watch), asyncio.Event()
        self._next_look = math.inf
        self._next_audit = 0
        self._uneasy_until = 0

    @property
    def live(self) -> int:
        return len(self._runs)

    @property
    def serves(self) -> bool:
        return self._serving.is_set()

    def serve(self, *, root: SessionId | None = None) -> None:
        """From here on sessions are run: all of the pool, or those of one tree."""
        self._root = root
        self._serving.set()

    async def serving(self) -> SessionId | None:
        """Returns once it serves: the tree that it serves, or (None) all."""
        await self._serving.wait()
        return self._root

    def committed(self, commit: Commit) -> None:
        """The store's report: wake, and interrupt what was cancelled or deleted."""
        self.resumed.committed(commit)
        for session_id in commit.interrupted:
            if session_id in self._runs:
                self._runs[session_id].interrupt()
        for session_id in commit.woken:
            if not self._hinted or self._root is not None or session_id in self._runs:
                self.dispatch(session_id)
        if commit.due and min(commit.due) < self._next_look:
            self._sweep_wanted.set()

    def dispatch(self, session_id: SessionId, *, dead: OwnerId | None = None) -> None:
        """Poke its run, or start one; the table entry is there before the claim."""
        if (run := self._runs.get(session_id)) is not None:
            run.poke()
        elif not self.serves or self._cut_off or self._draining:
            return
        elif len(self._runs) >= self._most and (dead is None or not self._hinted):
            self._overflow = not self._hinted  # its row stays ready; the next free place looks for it
        else:
            run = self._runs[session_id] = Run(session_id)
            task = self._tasks[session_id] = self._group.create_task(self._run(run, dead))
            task.add_done_callback(lambda done: self._gone(session_id, done))

    def _gone(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        """One that was cancelled before it began has not cleared its place."""
        if self._tasks.get(session_id) is task:
            del self._runs[session_id], self._tasks[session_id]

    async def offered(self, session_id: SessionId) -> bool:
        """Run it, unless there is nothing to do; returns when that has ended. False: not here."""
        known = session_id in self._runs  # it was offered before: once is enough to take a place
        self.dispatch(session_id)
        task = self._tasks.get(session_id)
        if task is not None and not known:
            await asyncio.wait({task})
        return task is not None

    async def drain(self, seconds: float) -> None:
        """Take nothing new, and let what is at work come to an end, for so long."""
        self._draining = True
        self.on_drain()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)

    def look_again(self) -> None:
        """Somebody died: what he did is taken up."""
        self._sweep_wanted.set()

    def cut(self, cut_off: bool) -> None:
        """Others may think that this process has died, and take up its work: so it does nothing."""
        self._cut_off = cut_off
        self.trouble = StoreError("the database is out of reach") if cut_off else None
        if cut_off:
            self._unwritten.update(dict.fromkeys(self._tasks, True))
            for task in self._tasks.values():
                task.cancel()
        else:
            self._uneasy_until = self._clock.now() + LATE_MS
            self._sweep_wanted.set()

    async def _run(self, run: Run, dead: OwnerId | None) -> None:
        counts = not self._unwritten.pop(run.session_id, False)
        try:
            if await self._is_ours(run.session_id) and not await self._lacks_model(run.session_id):
                await self._runner.run(run, self._owner, dead=dead, counts=counts)
                self.trouble = None
        except StoreError as error:
            if self._root is not None or not isinstance(error, Damaged):
                self.trouble = error  # else it is the trouble of one session, and all the others go on
            _log.exception("the run of session %s was dropped; the sweep takes it up", run.session_id)
            self._unwritten[run.session_id] = not isinstance(error, Damaged)
            run.clear()  # not at once: the sweep comes soon enough
            if isinstance(error, Damaged):
                await self._set_aside(run.session_id, error)
            asyncio.get_running_loop().call_later(RETRY_MS / 1000, self._sweep_wanted.set)
        except Exception as error:  # noqa: BLE001  the edge of a run
            _log.exception("the run of session %s failed; the sweep takes it up", run.session_id)
            self._watch.report_fault("run", error)
            self._sweep_wanted.set()
        finally:
            self._runs.pop(run.session_id, None)
            self._tasks.pop(run.session_id, None)
        if run.poked:
            self.dispatch(run.session_id)
        if self._overflow:
            self._overflow = False
            self._sweep_wanted.set()

    async def _set_aside(self, session_id: SessionId, error: Damaged) -> None:
        """Free the place that a damaged child holds in its tree: it would keep the others waiting."""
        try:
            await self._store.set_aside(session_id, self._owner, str(error))
        except AsyncAgentsError:
            _log.exception("session %s could not be set aside; the sweep tries it again", session_id)

    async def _is_ours(self, session_id: SessionId) -> bool:
        """Whether it belongs to the tree that is served here; a session never changes its tree."""
        if self._root is None:
            return True
        if session_id not in self._ours:
            if len(self._ours) >= KNOWN:
                self._ours.clear()
            try:
                self._ours[session_id] = (await self._store.control(session_id)).root_id == self._root
            except NotFound:
                return False
        return self._ours[session_id]

    async def _lacks_model(self, session_id: SessionId) -> bool:
        """Leave a session as it is that waits for a model which cannot be asked here."""
        try:
            return self.gate is not None and await self.gate.lacks_model(session_id) is not None
        except NotFound:
            return False

    async def begin(self) -> Coroutine[None, None, None]:
        """See what was left, before anything else comes in; returns what is to be done from then on."""
        try:
            await self.resumed.look()
        except StoreError:
            _log.exception("nobody will be told again of what this process takes up")
        return self.sweep_forever()

    async def sweep_forever(self) -> None:
        """At the start, when something is due, and at least every half minute."""
        await self._serving.wait()
        while True:
            self._sweep_wanted.clear()
            self._next_look = math.inf  # while we look, whatever becomes due is news
            try:
                pause = await self.sweep()
            except StoreError:
                _log.exception("the sweep failed; it is tried again")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the sweep: runs go on without it
                _log.exception("the sweep failed; it is tried again")
                self._watch.report_fault("sweep", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._sweep_wanted.wait()
            except TimeoutError:
                pass

    async def sweep(self) -> int:
        """Expire what is overdue, take up what nobody runs; returns how long to wait, in ms."""
        while (due := await self._store.next_due()) is not None and due <= self._clock.now():
            await self.expiry.expire()
        await self._take_up()
        hurry = await self._audit() or self._clock.now() < self._uneasy_until
        longest = RETRY_MS if hurry else SWEEP_MS
        return longest if due is None else max(1, min(longest, due - self._clock.now()))

    async def _take_up(self) -> None:
        if self._hinted and self._root is not None:  # what it works on alone may have jobs that nobody takes
            await self._take_up_tree(self._root)
            return
        for pool in self.pools:
            await self._take_up_of(pool)

    async def _take_up_tree(self, root_id: SessionId) -> None:
        for session_id in await self._store.at_work(root_id):
            try:
                control = await self._store.control(session_id)
            except (Damaged, NotFound):  # its own run would fail as well; the others of the tree go on
                continue
            if control.state == "ready":
                self.dispatch(session_id)
            elif control.state == "running" and self._is_left(control.owner) and session_id not in self._runs:
                self.dispatch(session_id, dead=control.owner)

    async def _take_up_of(self, pool: str) -> None:
        after = "~"
        while page := await self._store.active(pool, after=after, limit=PAGE):
            if len(self._runs) >= self._most and not self._hinted:
                self._overflow = True
                return
            for session in page:
                if session.session_id in self._runs:
                    continue
                if session.state == "ready":
                    self.dispatch(session.session_id)
                elif self._is_left(session.owner):
                    self.dispatch(session.session_id, dead=session.owner)
            after = page[-1].session_id

    def _is_left(self, owner: OwnerId | None) -> bool:
        """Whether nobody works on it any more, though it says so."""
        return owner == self._owner or not self._alive(owner or OwnerId(""))

    async def _audit(self) -> bool:
        """Now and then: what should never be missed, what nobody asks for any more. True: there is more."""
        if self._clock.now() < self._next_audit:
            return False
        await self._conclude()
        if more := await self._forget():
            return more
        self._next_audit = self._clock.now() + AUDIT_MS
        return False

    async def _forget(self) -> bool:
        """A piece at a time, and so many pieces: what is due meanwhile comes first. True: there is more."""
        before, more = self._clock.now() - self._keep_ms, False
        for forget in (self._store.pending.forget_settled, self._store.deliveries.forget):
            for _ in range(PIECES):
                if await forget(before, PIECE) < PIECE:
                    break
            else:
                more = True
        return more

    async def _conclude(self) -> None:
        for task_id in await self._store.unconcluded():
            try:
                await self._store.conclude(task_id)
            except Exception as error:  # the edge of a row: the others are concluded
                if isinstance(error, StoreError) and not isinstance(error, Damaged):
                    raise
                self.expiry.count("task")
                _log.exception("task %s cannot be concluded", task_id)

    async def stop(self) -> None:
        """End all runs and give their sessions back, for whoever serves next."""
        self._serving.clear()
        runs, tasks = list(self._runs.values()), list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for run in runs:
            await self._release(run)
        await self._hand_over(tuple(run.session_id for run in runs))

    async def _hand_over(self, sessions: tuple[SessionId, ...]) -> None:
        """Who waits for a place is told by who makes room, in one process; here nobody is left to listen."""
        try:
            if sessions:
                await self._store.hand_over(sessions)
        except AsyncAgentsError:
            _log.exception("the queue could not be handed over; the sweep of whoever serves will find it")

    async def _release(self, run: Run) -> None:
        try:
            if run.lease is None:  # it was stopped in its claim, which may have come through
                await self._store.give_back(run.session_id, self._owner)
            else:
                await self._store.release(run.lease)
        except LeaseLost:
            pass
        except AsyncAgentsError:
            _log.exception("session %s could not be given back; its owner will be found dead", run.session_id)
