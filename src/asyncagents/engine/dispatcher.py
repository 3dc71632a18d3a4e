"""Start runs: a table of live runs, fed by wakes, and a sweep that finds what wakes missed."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.clock import Clock
from asyncagents.domain.id import OwnerId, SessionId
from asyncagents.engine.audit import Audit
from asyncagents.engine.event.replay import RestartReplay
from asyncagents.engine.expiry import Expiry
from asyncagents.engine.input.model_gate import ModelGate
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.run import Run
from asyncagents.engine.runner import Runner
from asyncagents.errors import AsyncAgentsError, ClaimLost, Damaged, NotFound, StoreError
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

SWEEP_MS = 30_000
RETRY_MS = 1_000
LATE_CLAIM_MS = 25_000
"""After a disconnect a claim may still commit for this long (more than the store retries): keep sweeping."""
MAX_RUNS = 2_000
PAGE_SIZE = 500
MAX_KNOWN_SESSIONS = 10_000

_log = logging.getLogger(__name__)


class Dispatcher:
    """A wake is only a hint: a run claims its session in the store, or finds that there is nothing to do."""

    gate: ModelGate | None = None
    trouble: StoreError | None = None
    """Why the last run could not write; None again once a run ends well."""
    _root: SessionId | None = None
    """Root of the tree that is served; None: all."""
    _is_disconnected = False
    _is_draining = False
    _overflow = False
    """Whether a session waits until a run ends."""
    _next_look = math.inf
    _hurry_until = 0

    def __init__(  # noqa: PLR0913  all that running needs
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
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        """`hinted`: woken sessions are offered through a queue to any process with room."""
        self._store = store
        self._runner = runner
        self.reverts = runner.reverts
        self._owner = owner
        self._is_alive = alive
        self.pools = pools
        self._clock = clock
        self._group = group
        self._max_runs = most or MAX_RUNS
        self._offers_wakes = hinted
        self._observer = observer
        self._runs: dict[SessionId, Run] = {}
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._failed_writes: dict[SessionId, bool] = {}
        """Sessions whose run failed to write: their next claim does not count towards a crash loop."""
        self._tree_membership: BoundedDict[SessionId, bool] = BoundedDict(MAX_KNOWN_SESSIONS)
        self._serving = asyncio.Event()
        self._sweep_wanted = asyncio.Event()
        self.on_drain: Callable[[], None] = lambda: None
        self.replay = RestartReplay(store=store, clock=clock)
        self.expiry = Expiry(store.due, clock, observer)
        self._audit = Audit(store, clock, self.expiry, keep_ms=keep_ms)

    @property
    def live(self) -> int:
        return len(self._runs)

    @property
    def serves(self) -> bool:
        return self._serving.is_set()

    def serve(self, *, root: SessionId | None = None) -> None:
        """Begin to run sessions: all of the pools, or those of one tree."""
        self._root = root
        self._serving.set()

    async def wait_until_serving(self) -> SessionId | None:
        """Wait until it serves; return the tree that it serves, or (None) all."""
        await self._serving.wait()
        return self._root

    def on_commit(self, commit: Commit) -> None:
        """Handle a commit: dispatch woken sessions, interrupt the runs of cancelled or deleted ones."""
        self.replay.on_commit(commit)
        for session_id in commit.interrupted:
            if session_id in self._runs:
                self._runs[session_id].interrupt()
        for session_id in commit.woken:
            if not self._offers_wakes or self._root is not None or session_id in self._runs:
                self.dispatch(session_id)
        if commit.due and min(commit.due) < self._next_look:
            self._sweep_wanted.set()

    def dispatch(self, session_id: SessionId, *, dead: OwnerId | None = None) -> None:
        """Wake the session's run, or start one; its table entry is made before the claim."""
        if (run := self._runs.get(session_id)) is not None:
            run.wake()
        elif not self.serves or self._is_disconnected or self._is_draining:
            return
        elif len(self._runs) >= self._max_runs and (dead is None or not self._offers_wakes):
            self._overflow = not self._offers_wakes  # its row stays ready for the sweep after a run ends
        else:
            run = self._runs[session_id] = Run(session_id)
            task = self._tasks[session_id] = self._group.create_task(self._run(run, dead))
            task.add_done_callback(lambda done: self._on_run_done(session_id, done))

    def _on_run_done(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        """Remove the table entry of a run that was cancelled before it began."""
        if self._tasks.get(session_id) is task:
            del self._runs[session_id], self._tasks[session_id]

    async def run_offered(self, session_id: SessionId) -> bool:
        """Run an offered session and wait until its run ends. False: this process does not run it."""
        known = session_id in self._runs  # offered before: that offer waits for the run
        self.dispatch(session_id)
        task = self._tasks.get(session_id)
        if task is not None and not known:
            await asyncio.wait({task})
        return task is not None

    async def drain(self, seconds: float) -> None:
        """Start no new runs and wait up to `seconds` for live ones to end."""
        self._is_draining = True
        self.on_drain()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)

    def request_sweep(self) -> None:
        """Sweep now: an owner died, its sessions can be claimed."""
        self._sweep_wanted.set()

    def set_disconnected(self, cut_off: bool) -> None:
        """Stop all runs while disconnected: other processes may claim the sessions of an owner they miss."""
        self._is_disconnected = cut_off
        self.trouble = StoreError("the database is out of reach") if cut_off else None
        if cut_off:
            self._failed_writes.update(dict.fromkeys(self._tasks, True))
            for task in self._tasks.values():
                task.cancel()
        else:
            self._hurry_until = self._clock.now() + LATE_CLAIM_MS
            self._sweep_wanted.set()

    async def _run(self, run: Run, dead: OwnerId | None) -> None:
        counts = not self._failed_writes.pop(run.session_id, False)
        try:
            if await self._is_in_served_tree(run.session_id) and not await self._lacks_model(run.session_id):
                await self._runner.run(run, self._owner, dead=dead, counts=counts)
                self.trouble = None
        except StoreError as error:
            if self._root is not None or not isinstance(error, Damaged):
                self.trouble = error  # a damaged session does not stop the others
            _log.exception(
                "session=%s action=run dropped by a store error; the sweep retries it", run.session_id
            )
            self._failed_writes[run.session_id] = not isinstance(error, Damaged)
            run.clear_wake()  # no immediate restart: the sweep retries it
            if isinstance(error, Damaged):
                await self._set_aside(run.session_id, error)
            asyncio.get_running_loop().call_later(RETRY_MS / 1000, self._sweep_wanted.set)
        except Exception as error:  # noqa: BLE001  the edge of a run
            _log.exception("session=%s action=run failed; the sweep retries it", run.session_id)
            self._observer.report_fault("run", error)
            self._sweep_wanted.set()
        finally:
            self._runs.pop(run.session_id, None)
            self._tasks.pop(run.session_id, None)
        if run.is_woken:
            self.dispatch(run.session_id)
        if self._overflow:
            self._overflow = False
            self._sweep_wanted.set()

    async def _set_aside(self, session_id: SessionId, error: Damaged) -> None:
        """Free the place of a damaged child in its tree, so that queued siblings can run."""
        try:
            await self._store.set_aside(session_id, self._owner, str(error))
        except AsyncAgentsError:
            _log.exception("session=%s action=set_aside failed; the sweep retries it", session_id)

    async def _is_in_served_tree(self, session_id: SessionId) -> bool:
        """Whether a session belongs to the tree that is served here; a session never changes its tree."""
        if self._root is None:
            return True
        if session_id not in self._tree_membership:
            try:
                self._tree_membership[session_id] = (
                    await self._store.control(session_id)
                ).root_id == self._root
            except NotFound:
                return False
        return self._tree_membership[session_id]

    async def _lacks_model(self, session_id: SessionId) -> bool:
        """Whether a session waits for a model that cannot be asked here; it is then left alone."""
        try:
            return self.gate is not None and await self.gate.lacks_model(session_id) is not None
        except NotFound:
            return False

    async def begin(self) -> Coroutine[None, None, None]:
        """Read the replay cursor before any commit; return the sweep, to be run from then on."""
        try:
            await self.replay.read_cursor()
        except StoreError:
            _log.exception("action=read_replay_cursor failed; clients that reconnect get no replay")
        return self.sweep_forever()

    async def sweep_forever(self) -> None:
        """Sweep at the start, when a row is due, and at least every half minute."""
        await self._serving.wait()
        while True:
            self._sweep_wanted.clear()
            self._next_look = math.inf  # a row that becomes due while we look starts another sweep
            try:
                pause = await self.sweep()
            except StoreError:
                _log.exception("the sweep failed; it is tried again")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the sweep: runs go on without it
                _log.exception("the sweep failed; it is tried again")
                self._observer.report_fault("sweep", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._sweep_wanted.wait()
            except TimeoutError:
                pass

    async def sweep(self) -> int:
        """Expire overdue rows and dispatch sessions that no process runs; return how long to wait, in ms."""
        while (due := await self._store.next_due()) is not None and due <= self._clock.now():
            await self.expiry.expire()
        await self._dispatch_ready()
        hurry = await self._audit.run_if_due() or self._clock.now() < self._hurry_until
        longest = RETRY_MS if hurry else SWEEP_MS
        return longest if due is None else max(1, min(longest, due - self._clock.now()))

    async def _dispatch_ready(self) -> None:
        if self._offers_wakes and self._root is not None:  # no other process takes the tree's jobs
            await self._dispatch_tree(self._root)
            return
        for pool in self.pools:
            await self._dispatch_pool(pool)

    async def _dispatch_tree(self, root_id: SessionId) -> None:
        for session_id in await self._store.working_sessions(root_id):
            try:
                control = await self._store.control(session_id)
            except (Damaged, NotFound):  # its run would fail too; the others of the tree go on
                continue
            if control.state == "ready":
                self.dispatch(session_id)
            elif (
                control.state == "running"
                and self._is_abandoned(control.owner)
                and session_id not in self._runs
            ):
                self.dispatch(session_id, dead=control.owner)

    async def _dispatch_pool(self, pool: str) -> None:
        after = "~"
        while page := await self._store.active_sessions(pool, after=after, limit=PAGE_SIZE):
            if len(self._runs) >= self._max_runs and not self._offers_wakes:
                self._overflow = True
                return
            for session in page:
                if session.session_id in self._runs:
                    continue
                if session.state == "ready":
                    self.dispatch(session.session_id)
                elif self._is_abandoned(session.owner):
                    self.dispatch(session.session_id, dead=session.owner)
            after = page[-1].session_id

    def _is_abandoned(self, owner: OwnerId | None) -> bool:
        """Whether the owner of a running session is dead, or is this process without a run of it."""
        return owner == self._owner or not self._is_alive(owner or OwnerId(""))

    async def stop(self) -> None:
        """End all runs and release their sessions, so that other processes can claim them."""
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
        """Wakes of queued siblings are process-local; hand them to other processes before this one exits."""
        try:
            if sessions:
                await self._store.hand_over(sessions)
        except AsyncAgentsError:
            _log.exception("action=hand_over failed; another process's sweep finds the queued sessions")

    async def _release(self, run: Run) -> None:
        try:
            if run.claim is None:  # stopped during its claim, which may have committed
                await self._store.give_back(run.session_id, self._owner)
            else:
                await self._store.release(run.claim)
        except ClaimLost:
            pass
        except AsyncAgentsError:
            _log.exception("session=%s action=release failed; its owner will be found dead", run.session_id)
