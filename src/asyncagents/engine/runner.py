"""Run a session: claim it, do what `decide` says, and stop when it parks or rests."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

from msgspec import Struct

from asyncagents.domain.clock import Clock
from asyncagents.domain.fact import Admit, Fact
from asyncagents.domain.id import OwnerId
from asyncagents.domain.session_state import Claim, RestReason, Snapshot
from asyncagents.engine.call.executor import CallExecutor
from asyncagents.engine.decide import (
    AwaitCalls,
    BackOff,
    CallModel,
    Park,
    ReconcileCalls,
    Rest,
    RunCalls,
    decide,
)
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.run import PARKED, Run
from asyncagents.engine.step.retry import MAX_INLINE_WAIT_MS
from asyncagents.engine.step.step import StepRunner
from asyncagents.errors import ClaimLost
from asyncagents.store.store import Store

STARTING_WAIT_MS = 10_000
"""How long a run waits for an async tool that has not returned though its result is in."""
_log = logging.getLogger(__name__)


class Continue(Struct, frozen=True):
    """Do not rest yet: admit this input and go on. A turn that was blocked or failed ends first."""

    fact: Admit


RestVerdict: TypeAlias = Continue | tuple[Fact, ...]
BeforeRest: TypeAlias = Callable[[Snapshot, RestReason], Awaitable[RestVerdict]]
"""Called before a turn ends, except after an abort: go on, or facts that commit with the end."""


async def no_objection(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
    """Let the turn end, without facts."""
    return ()


def chain(*each: BeforeRest) -> BeforeRest:
    """Call hooks in order: the first `Continue` wins, else the facts of all are joined."""

    async def ask(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        facts: tuple[Fact, ...] = ()
        for before_rest in each:
            verdict = await before_rest(snapshot, reason)
            if isinstance(verdict, Continue):
                return verdict
            facts += verdict
        return facts

    return ask


class Runner:
    def __init__(
        self,
        *,
        store: Store,
        step_runner: StepRunner,
        calls: CallExecutor,
        before_rest: BeforeRest,
        clock: Clock,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        self._observer = observer
        self._file_changes = calls.file_changes
        self.reverts = calls.file_changes.reverts
        self._store = store
        self._clock = clock
        self._step_runner = step_runner
        self._calls = calls
        self._before_rest = before_rest

    async def run(self, run: Run, owner: OwnerId, *, dead: OwnerId | None, counts: bool = True) -> None:
        """Claim a session and work on it until it parks or rests; return at once if it cannot be claimed."""
        snapshot = await self._store.claim(run.session_id, owner, dead=dead, counts=counts)
        if snapshot is None:
            return
        run.claim = claim = Claim(run.session_id, snapshot.control.fence)
        try:
            with self._observer.run_span(run, snapshot) as seen:
                if seen.trace is not None and snapshot.control.trace is None:
                    await self._store.save_trace(claim, seen.trace)  # for the run after a park
                await self._work(run, claim, snapshot)
        except ClaimLost:
            _log.info("session=%s action=run the claim went to another run", run.session_id)
        finally:
            await _stop_calls(run)

    async def _work(self, run: Run, claim: Claim, snapshot: Snapshot | None) -> None:
        interrupts = 0
        while snapshot is not None:
            run.clear_interrupt(snapshot, interrupts)
            interrupts = run.interrupts
            await self._file_changes.catch_up(run, claim, snapshot)
            snapshot = await self._perform(run, claim, snapshot)

    async def _perform(  # noqa: C901  one arm each
        self, run: Run, claim: Claim, snapshot: Snapshot
    ) -> Snapshot | None:
        """Perform the next action. Returns None if the run is over."""
        match decide(snapshot):
            case ReconcileCalls():
                return await self._calls.reconcile(run, claim, snapshot)
            case RunCalls():
                return await self._calls.start(run, claim, snapshot)
            case AwaitCalls():
                await run.wait()
                return await self._store.snapshot(claim)
            case CallModel():
                after = await self._step_runner.run_step(run, claim, snapshot)
                run.outcome = "" if after.control.state == "running" else "done"
                return None if run.outcome else after
            case BackOff(until) if until - self._clock.now() <= MAX_INLINE_WAIT_MS:
                await run.wait(until - self._clock.now())
                return await self._store.snapshot(claim)
            case Park() | BackOff() | Rest("done" | "blocked" | "error" | "ran") if run.starting:
                await run.wait_for_starting(STARTING_WAIT_MS)
                return await self._store.snapshot(claim)
            case Park() | BackOff():
                run.clear_wake()
                parked = await self._store.park(claim, snapshot.control.wake_seq)
                run.outcome = PARKED if parked else ""
                return None if parked else await self._store.snapshot(claim)
            case Rest(reason):
                await _stop_calls(run)
                return await self._rest(run, claim, snapshot, reason)
            case decision:
                assert_never(decision)

    async def _rest(self, run: Run, claim: Claim, snapshot: Snapshot, reason: RestReason) -> Snapshot | None:
        if reason == "done" and snapshot.info is not None:
            await self._step_runner.prune(run, claim, snapshot.info.directory)
        await self._file_changes.end_turn(run, claim, snapshot)
        run.clear_wake()
        facts: tuple[Fact, ...] = tuple(run.final_results) if reason == "aborted" else ()
        if snapshot.control.in_turn and reason not in ("aborted", "crash_loop", "ran"):
            verdict = await self._before_rest(snapshot, reason)
            if isinstance(verdict, Continue):
                if reason == "done" and (await self._store.admit(verdict.fact)).new:
                    return await self._store.snapshot(claim)
                verdict = (verdict.fact,)
            facts = verdict
        rested = await self._store.rest(claim, snapshot.control.wake_seq, reason, facts)
        run.outcome = reason if rested else ""
        return None if rested else await self._store.snapshot(claim)


async def _stop_calls(run: Run) -> None:
    """End the run's calls and wait for them."""
    tasks = run.end_calls()
    if tasks:
        await asyncio.wait(tasks)
