"""Record file changes of a step: a snapshot before its first call that may change files, one after."""

import asyncio
import logging
from collections.abc import Sequence

from asyncagents.domain.call.call import Running
from asyncagents.domain.conversation.file_changes import StepFileChanges, TurnFileChanges, unfinished_snapshot
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.id import Ids
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.step import CallMove
from asyncagents.engine.call.undo import Reverts
from asyncagents.engine.decide import CallModel, Park, Rest, decide
from asyncagents.engine.run import OpenSnapshot, Run
from asyncagents.engine.workplace.snapshots import NoSnapshots, Snapshots
from asyncagents.engine.workplace.workplace import Workplace, Workplaces, workplace_at
from asyncagents.errors import NotFound, Unavailable
from asyncagents.store.store import Store

FINAL_SNAPSHOT_SECONDS = 30.0
"""Time limit of the final snapshot of a turn."""
FILELESS_TOOLS = frozenset(
    {
        "todowrite", "asyncagents_task", "asyncagents_output", "asyncagents_cancel", "asyncagents_clear",
        "async_task", "async_task_result",
    }
)  # fmt: skip
"""Tools that change no files of the project themselves."""
_log = logging.getLogger(__name__)


class FileChanges:
    def __init__(self, *, store: Store, workplaces: Workplaces, ids: Ids) -> None:
        self._store = store
        self._workplaces = workplaces
        self._ids = ids
        self.reverts = Reverts(store=store, workplaces=workplaces)

    async def take_before(
        self, run: Run, claim: Claim, snapshot: Snapshot, workplace: Workplace, *, moves: Sequence[CallMove]
    ) -> None:
        """Take a snapshot if a starting call may change files; if that fails, the step runs without."""
        if isinstance(workplace.snapshots, NoSnapshots):
            return
        starting = {move.call_id for move in moves if isinstance(move.state, Running)}
        steps = {
            call.message_id
            for call in snapshot.requested_calls
            if call.id in starting
            and call.tool not in FILELESS_TOOLS
            and workplace.effects.get(call.tool) != "none"
        }
        if not steps:
            return
        await self._load_open_snapshot(run, snapshot)
        step = max(steps)
        if run.open_snapshot is not None and run.open_snapshot.message_id == step:
            return
        try:
            taken = await workplace.snapshots.take()
        except Unavailable as error:
            _log.debug("session=%s action=snapshot the step runs without: %s", claim.session_id, error)
            return
        await self._store.reverts.save_snapshot_before(claim, step, taken)
        run.open_snapshot = OpenSnapshot(step, taken)

    async def _load_open_snapshot(self, run: Run, snapshot: Snapshot) -> None:
        """Find the open snapshot of an earlier run of the same turn, once."""
        if run.open_snapshot_known:
            return
        run.open_snapshot_known = True
        if snapshot.step is None or snapshot.step.finish != "tool-calls":
            return
        step = await self._store.message(snapshot.step.id)
        taken = unfinished_snapshot(step)
        if taken is not None:
            run.open_snapshot = OpenSnapshot(step.info.id, taken)

    async def catch_up(self, run: Run, claim: Claim, snapshot: Snapshot) -> None:
        """Finish an unfinished undo, and close the step's snapshot, before the next decision is performed."""
        if snapshot.info is not None and snapshot.info.revert is not None:
            await self.reverts.complete_revert(snapshot.info)
            own = any(
                call.is_run_by_person for call in snapshot.requested_calls
            )  # a person's shell command is input, too
            if own or isinstance(decide(snapshot), CallModel):  # before its history is read
                await self._store.reverts.drop_undone(claim)
        if (
            snapshot.requested_calls
            or snapshot.executing_calls
            or snapshot.abandoned_calls
            or snapshot.blocking_calls
        ):
            return
        await self._load_open_snapshot(run, snapshot)
        if run.open_snapshot is not None or run.has_changed_files:
            await self._close_step(run, claim, snapshot)
            if isinstance(decide(snapshot), Park | Rest):
                await self._store_summary(run, claim, snapshot)

    async def end_turn(self, run: Run, claim: Claim, snapshot: Snapshot) -> None:
        """Record the file changes of an ending turn, within a time limit."""
        await self._load_open_snapshot(run, snapshot)
        if run.open_snapshot is None and not run.has_changed_files:
            return
        try:
            async with asyncio.timeout(FINAL_SNAPSHOT_SECONDS):
                await self._close_step(run, claim, snapshot)
                await self._store_summary(run, claim, snapshot)
        except TimeoutError:
            _log.warning(
                "session=%s action=snapshot timed out: file changes of the last step are unknown",
                claim.session_id,
            )

    async def _snapshots(self, snapshot: Snapshot) -> Snapshots | None:
        assert snapshot.info is not None, "it comes from a store"
        workplace = await workplace_at(self._workplaces, snapshot.info.directory)
        return None if isinstance(workplace.snapshots, NoSnapshots) else workplace.snapshots

    async def _close_step(self, run: Run, claim: Claim, snapshot: Snapshot) -> None:
        step, run.open_snapshot = run.open_snapshot, None
        snapshots = await self._snapshots(snapshot)
        if step is None or snapshots is None:
            return
        try:
            after = await snapshots.take()
            files = await snapshots.changed_files(step.before, after)
        except Unavailable as error:
            _log.warning(
                "session=%s action=snapshot file changes of a step are unknown: %s", claim.session_id, error
            )
            return
        changed = StepFileChanges(
            message_id=step.message_id,
            before=step.before,
            after=after,
            files=files,
            part_id=self._ids.part(),
        )
        await self._store.reverts.save_snapshot_after(claim, changed)
        run.has_changed_files = run.has_changed_files or bool(files)

    async def _store_summary(self, run: Run, claim: Claim, snapshot: Snapshot) -> None:
        if not run.has_changed_files or not isinstance(snapshot.last, AssistantMessage):
            return
        run.has_changed_files = False
        snapshots, asked_id = await self._snapshots(snapshot), snapshot.last.parent_id
        turn = await self._store.reverts.snapshot_range(claim.session_id, asked_id)
        whole = await self._store.reverts.snapshot_range(claim.session_id)
        if snapshots is None or turn is None or whole is None:
            return
        try:
            diffs = await snapshots.diffs(turn.before, turn.after)
            total = diffs if whole == turn else await snapshots.diffs(whole.before, whole.after)
        except Unavailable as error:
            _log.warning(
                "session=%s action=diff file changes of a turn are not stored: %s", claim.session_id, error
            )
            return
        try:
            await self._store.reverts.save_turn_summary(
                claim, TurnFileChanges(asked_id=asked_id, diffs=diffs, total=total)
            )
        except NotFound:  # the prompt is gone
            return
