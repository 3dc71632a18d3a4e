"""Stores the file snapshots before and after the calls of a step, and the file changes of a turn."""

from msgspec.structs import replace

from asyncagents.domain.conversation.file_changes import (
    SnapshotRange,
    StepFileChanges,
    TurnFileChanges,
    unfinished_snapshot,
)
from asyncagents.domain.conversation.message import UserMessage, UserSummary
from asyncagents.domain.conversation.part import PatchPart, StepFinishPart, StepStartPart
from asyncagents.domain.conversation.session import FileDiff, SessionSummary
from asyncagents.domain.event import SessionDiff
from asyncagents.domain.id import AFTER_ALL_IDS, MessageId, SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.store.row import (
    check_claim,
    claimed_session,
    put_part,
    read_part,
    require_message,
    save_message,
    save_session,
    sort_id_of,
)
from asyncagents.store.tx import Tx


async def snapshot_range(
    tx: Tx, session_id: SessionId, first: str = "", last: str = AFTER_ALL_IDS
) -> SnapshotRange | None:
    """Read the snapshots before the first and after the last step of a range; None: no step has any."""
    since = await sort_id_of(tx, first) if first else first
    until = last if last == AFTER_ALL_IDS else await sort_id_of(tx, last)
    begin = await tx.one("first_snapshot", session_id, since, until)
    end = await tx.one("last_snapshot", session_id, since, until)
    if begin is None or end is None:
        return None
    start, finish = read_part(begin), read_part(end)
    if not isinstance(start, StepStartPart) or not isinstance(finish, StepFinishPart):
        return None
    return SnapshotRange(start.snapshot, finish.snapshot) if start.snapshot and finish.snapshot else None


async def save_snapshot_before(tx: Tx, claim: Claim, message_id: MessageId, snapshot: str) -> None:
    """Store the snapshot taken before the calls of a step run."""
    await check_claim(tx, claim)
    for part in (await require_message(tx, message_id)).parts:
        if isinstance(part, StepStartPart):
            await put_part(tx, replace(part, snapshot=snapshot))


async def save_snapshot_after(tx: Tx, claim: Claim, changed: StepFileChanges) -> None:
    """Store the snapshot and the changed files after the calls of a step; a repeat changes nothing."""
    await check_claim(tx, claim)
    step = await require_message(tx, changed.message_id)
    if unfinished_snapshot(step) is None:
        return
    for part in step.parts:
        if isinstance(part, StepFinishPart):
            await put_part(tx, replace(part, snapshot=changed.after))
    if changed.files:
        patch = PatchPart(
            id=changed.part_id,
            session_id=claim.session_id,
            message_id=changed.message_id,
            hash=changed.before,
            files=changed.files,
        )
        await put_part(tx, patch)


async def save_turn_summary(tx: Tx, claim: Claim, changes: TurnFileChanges) -> None:
    """Store the file changes of a turn and of the session so far."""
    row = await claimed_session(tx, claim)
    asked = (await require_message(tx, changes.asked_id)).info
    if isinstance(asked, UserMessage):
        before = asked.summary or UserSummary(diffs=())
        await save_message(tx, replace(asked, summary=replace(before, diffs=changes.diffs)))
    tx.emit(SessionDiff(session_id=claim.session_id, diff=changes.total))
    await save_session(tx, row, row.control, replace(row.info, summary=sum_diffs(changes.total)))


def sum_diffs(diffs: tuple[FileDiff, ...]) -> SessionSummary:
    return SessionSummary(
        additions=sum(each.additions for each in diffs),
        deletions=sum(each.deletions for each in diffs),
        files=len(diffs),
    )
