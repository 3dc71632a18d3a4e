"""Queues the sessions below one root: so many work at a time, in order; one that waits holds no place."""

from contextlib import suppress

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.store.row import find_session, inbox, require_session, save_session, unsettled_calls
from asyncagents.store.tx import Tx
from asyncagents.store.verb.task import place_in_queue


async def is_queued(tx: Tx, control: Control) -> bool:
    """Whether a session has to wait for a place; a cancelled one does not."""
    if control.parent_id is None or not await place_in_queue(tx, control):
        return False
    return control.cancel_rev <= control.turn_rev or not await _is_cancelled(tx, control)


async def _is_cancelled(tx: Tx, control: Control) -> bool:
    stranded = (await inbox(tx, control.id)).stranded
    return control.is_cancelled(stranded=stranded, calls=len(await unsettled_calls(tx, control.id)))


async def make_room(tx: Tx, control: Control) -> None:
    """Wake the next session in the queue, after one of its tree has stopped working."""
    next_id = await _next_in_queue(tx, control)
    if next_id is not None:
        tx.wake(next_id)


async def make_room_anywhere(tx: Tx, control: Control) -> None:
    """As `make_room`, but by changing a row, so that other processes see it: this one may run no sessions."""
    next_id = await _next_in_queue(tx, control)
    if next_id is not None:
        await _wake_queued(tx, next_id)


async def fill_places(tx: Tx, root_id: SessionId) -> None:
    """Wake every queued session that now fits, after several siblings stopped."""
    for (next_id,) in await tx.all("may_go", root_id):
        await _wake_queued(tx, SessionId(next_id))


async def hand_over(tx: Tx, sessions: tuple[SessionId, ...]) -> None:
    """Wake, for all processes, the sessions queued in these trees: wakes of a stopping process are lost."""
    roots = set()
    for session_id in sessions:
        with suppress(Unreadable):
            row = await find_session(tx, session_id)
            if row is not None and row.control.parent_id and row.control.root_id not in roots:
                roots.add(row.control.root_id)
                await fill_places(tx, row.control.root_id)


async def _wake_queued(tx: Tx, session_id: SessionId) -> None:
    with suppress(Unreadable):  # no run could claim it
        row = await require_session(tx, session_id)
        await save_session(tx, row, row.control.after_wake())


async def _next_in_queue(tx: Tx, control: Control) -> SessionId | None:
    if control.parent_id is None:
        return None
    if await tx.one("is_anyone_queued", control.root_id) is None:
        return None  # no need to count the working sessions
    row = await tx.one("next_in_queue", control.root_id)
    return None if row is None else SessionId(row[0])
