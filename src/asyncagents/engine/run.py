"""One claim of a session in this process: its state, and how it is woken, interrupted and stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from asyncagents.domain.call.call import ABORTED, Call, Failed
from asyncagents.domain.fact import Settle
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.text import replace_surrogates_in
from asyncagents.engine.model_input import ModelInput
from asyncagents.engine.tool import AbortSignal

PARKED = "parked"


class OpenSnapshot(Struct, frozen=True):
    """The snapshot before a step whose calls may be changing files."""

    message_id: MessageId
    before: str


class Run:
    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        self.claim: Claim | None = None
        self.model_input = ModelInput()
        self.overhead = 0
        """Estimated tokens of the system prompt and the tools of its last step."""
        self.tasks: dict[CallId, asyncio.Task[None]] = {}
        self.aborts: dict[CallId, AbortSignal] = {}
        self.starting: set[CallId] = set()
        """Calls of async tools that have not returned yet; their results may come before that."""
        self.open_snapshot: OpenSnapshot | None = None
        """The snapshot before the step whose calls may be changing files."""
        self.open_snapshot_known = False
        """Whether an open snapshot of an earlier run was looked for."""
        self.has_changed_files = False
        """Whether a step changed files and the turn's summary of changes is not stored yet."""
        self.final_results: list[Settle] = []
        """Results of aborted shell commands of a person, with the output so far."""
        self.failure: Exception | None = None
        self.outcome = ""
        """How the run ended: parked, or the reason of its rest. Empty: it works, or was dropped."""
        self.interrupted = False
        self.interrupts = 0
        self._woken = asyncio.Event()
        self._scope: asyncio.Timeout | None = None

    @property
    def is_woken(self) -> bool:
        return self._woken.is_set()

    def wake(self) -> None:
        """Wake the run: its session may have something to do."""
        self._woken.set()

    def fail(self, error: Exception) -> None:
        """End the run with an error: one of its calls could not write."""
        self.failure = self.failure or error
        self.wake()

    async def wait(self, at_most: int | None = None) -> bool:
        """Wait for a wake. Returns False if `at_most` milliseconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at_most is None else max(0, at_most) / 1000):
                await self._woken.wait()
        happened = self.is_woken
        self._woken.clear()
        if self.failure is not None:
            raise self.failure
        return happened

    async def wait_for_starting(self, at_most: int) -> None:
        """Wait for async tools that have not returned though their results are in, up to `at_most` ms."""
        if not await self.wait(at_most):
            self.starting.clear()

    def clear_wake(self) -> None:
        """Reset the wake flag before parking; a wake after this starts a new run."""
        self._woken.clear()

    def interrupt(self) -> None:
        """End the stream and the calls, because of a cancel; the rows say why."""
        self.interrupted = True
        self.interrupts += 1
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.reschedule(asyncio.get_running_loop().time())
        self.end_calls()
        self.wake()

    def keep_last_output(self, call: Call, metadata: dict[str, Any]) -> None:
        """Keep the output so far of a person's shell command that was aborted."""
        if call.is_run_by_person:
            self.final_results.append(Settle(call.id, Failed(ABORTED, replace_surrogates_in(metadata))))

    def end_calls(self) -> list[asyncio.Task[None]]:
        """Set the abort signals of all running calls and cancel their tasks; return the tasks."""
        for abort in self.aborts.values():
            abort.set()
        for task in self.tasks.values():
            task.cancel()
        return list(self.tasks.values())

    @asynccontextmanager
    async def interruptible(self) -> AsyncIterator[None]:
        """Run a block that `interrupt` ends with a `TimeoutError`."""
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(now if self.interrupted else None) as scope:
            self._scope = None if self.interrupted else scope
            try:
                yield
            finally:
                self._scope = None

    def clear_interrupt(self, snapshot: Snapshot, interrupts: int) -> None:
        """Clear the interrupted flag if the snapshot is newer than the last interrupt and not cancelled."""
        if not snapshot.is_cancelled and interrupts == self.interrupts:
            self.interrupted = False


def is_being_cancelled() -> bool:
    """Whether this task was cancelled; else a `CancelledError` came from the code it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
