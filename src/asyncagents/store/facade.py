"""The groups of store methods, by topic: pending calls, webhooks, boards, undo, export and import, …"""

import asyncio

from asyncagents.domain.census import Census
from asyncagents.domain.conversation.copy import ConversationCopy
from asyncagents.domain.conversation.session import NewSession, Session
from asyncagents.domain.session_state import SWEEP_ROWS
from asyncagents.domain.task.board import BoardSnapshot, KindFilter, TaskPage, TaskQuery, TaskStats
from asyncagents.domain.transfer.records import ImportOutcome, SessionImport
from asyncagents.errors import Damaged, StoreError, StuckRow
from asyncagents.store.long_session_writer import LongSessionWriter
from asyncagents.store.tx import Database
from asyncagents.store.verb import (
    approval,
    background,
    board,
    board_feed,
    census,
    copy,
    delivery,
    edit_message,
    expire,
    export,
    external,
    file_changes,
    health,
    import_,
    page,
    pending,
    revert,
    server_task,
    session,
    session_update,
    shell,
)
from asyncagents.store.verb.arrive import PIECE_ROWS
from asyncagents.store.verb_runner import VerbRunner, read_verb, write_verb


class ActionStore(VerbRunner):
    """What people do in a session without the model: shell commands, tasks to the background."""

    admit_shell = write_verb(shell.admit_shell)
    move_to_background = write_verb(background.move_to_background)
    move_all_to_background = write_verb(background.move_all_to_background)


class ApprovalStore(VerbRunner):
    """Stored approvals."""

    list = read_verb(approval.list_approvals)
    withdraw = write_verb(approval.withdraw_approval)
    withdraw_all = write_verb(approval.withdraw_approvals)


class PendingStore(VerbRunner):
    """Pending calls and the keys that sign their webhooks."""

    resume = write_verb(pending.resume_session)
    ensure_key = write_verb(pending.ensure_key)
    add_key = write_verb(pending.add_key)
    forget_settled = write_verb(pending.forget_settled)
    call = read_verb(pending.pending_call)
    waiting_call = read_verb(pending.waiting_call)
    calls = read_verb(pending.pending_calls)
    issued_secret = read_verb(pending.issued_secret)
    secret_keys = read_verb(pending.secret_keys)
    secret_keys_since = read_verb(pending.secret_keys_since)


class DeliveryStore(VerbRunner):
    """Outgoing webhooks. `root_id` limits a query to one tree of sessions; None covers all."""

    due = read_verb(delivery.due_ids)
    next_due = read_verb(delivery.next_due)
    claim = write_verb(delivery.claim_deliveries)
    end_attempt = write_verb(delivery.end_attempt)
    give_back = write_verb(delivery.release_delivery)
    redeliver = write_verb(delivery.redeliver)
    forget = write_verb(delivery.forget_ended)
    get = read_verb(delivery.delivery)
    list = read_verb(delivery.deliveries)


class PollStore(VerbRunner):
    """Tasks of MCP servers that work for calls: which are to be polled, and what was learned of them."""

    due = read_verb(server_task.due_polls)
    claim = write_verb(server_task.claim_poll)
    note_state = write_verb(server_task.note_state)
    note_answered = write_verb(server_task.note_answered)
    note_cancelled = write_verb(server_task.note_cancelled)


class DueStore(VerbRunner):
    """Rows with a due time."""

    put_off = write_verb(expire.put_off)

    async def expire(self, limit: int = SWEEP_ROWS) -> int:
        """Expire up to `limit` overdue rows of each kind; returns how many. The rest waits for the next call.

        Raises `StuckRow`, with nothing committed, if a row fails for a reason of its own.
        """
        position = expire.SweepPosition()
        try:
            return await self._write(lambda tx: expire.expire_due(tx, limit, position))
        except Exception as error:
            of_a_row = isinstance(error, Damaged) or not isinstance(error, StoreError)
            if position.kind is None or not of_a_row:
                raise
            raise StuckRow(position.kind, position.id, f"{type(error).__name__}: {error}") from error


class ExternalStore(VerbRunner):
    """External agents: their sessions, and the calls that they execute."""

    session = read_verb(external.read_external_session, inline=True)
    save_session = write_verb(external.save_external_session, inline=True)
    observe = write_verb(external.observe_calls, inline=True)
    ask = write_verb(external.ask_observed)
    take_answer = write_verb(external.take_answer, inline=True)


class HealthStore(VerbRunner):
    """Health checks."""

    try_write = write_verb(health.try_write)


class CensusStore(VerbRunner):
    """The census that metrics report."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._lock = asyncio.Lock()
        """Allows one census at a time, so that frequent metric requests cannot occupy all reader threads."""

    async def take(self, pool: str) -> Census:
        """Count everything at one moment; active sessions are those of one pool."""
        async with self._lock:
            return await self._read(lambda tx: census.take_census(tx, pool))


class BoardStore(VerbRunner):
    """Status boards."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._sums = board.BoardSums()

    group = read_verb(board.read_group)
    changes_since = read_verb(board_feed.changes_since)

    async def page(self, query: TaskQuery) -> TaskPage:
        """Read a page of tasks, newest first."""
        return await self._read(lambda tx: board.task_page(tx, query, self._sums))

    async def stats(self) -> TaskStats:
        return await self._read(self._sums.stats)

    async def count(self) -> int:
        return await self._read(lambda tx: board.count_background(tx, self._sums))

    async def snapshot(self, kind: KindFilter = "background") -> tuple[BoardSnapshot, str]:
        """Read the board and the cursor at which it was read."""
        return await self._read(lambda tx: board.board_snapshot(tx, self._sums, kind))


class ConversationStore(LongSessionWriter):
    """Sessions and their messages, as clients list, read, update and copy them."""

    list_sessions = read_verb(page.list_sessions)
    session_by_key = read_verb(session.find_by_key, inline=True)
    update_session = write_verb(session_update.update_session)
    message = read_verb(page.message_json)
    page = read_verb(page.message_page)
    remove_message = write_verb(edit_message.remove_message)
    remove_part = write_verb(edit_message.remove_part)
    update_part = write_verb(edit_message.update_part)
    copy_source = read_verb(copy.copy_source)

    async def copy_session(self, new: NewSession, made: ConversationCopy) -> Session:
        """Write a copy; the same key again returns the first copy. A long one is written in pieces."""
        if copy.count_rows(made) <= PIECE_ROWS:
            return await self._write(lambda tx: copy.copy_session(tx, new, made))
        known = await self._read(lambda tx: session.find_existing(tx, new))
        if known is not None:
            return known
        done = await self._write_in_pieces(
            new.info.id, copy.copy_pieces(made), lambda tx: copy.complete_copy(tx, new, made)
        )
        return done or await self.copy_session(new, made)


class RevertStore(VerbRunner):
    """File snapshots of steps, and undo."""

    save_snapshot_before = write_verb(file_changes.save_snapshot_before)
    save_snapshot_after = write_verb(file_changes.save_snapshot_after)
    save_turn_summary = write_verb(file_changes.save_turn_summary)
    snapshot_range = read_verb(file_changes.snapshot_range)
    plan_undo = read_verb(revert.plan_undo)
    current_undo = read_verb(revert.current_undo)
    mark_undone = write_verb(revert.mark_undone)
    record_restored_files = write_verb(revert.record_restored_files)
    reopen = write_verb(revert.reopen)
    drop_undone = write_verb(revert.drop_undone_messages)
    unmark = write_verb(revert.unmark)


class TransferStore(LongSessionWriter):
    """Exports and imports."""

    session_ids = read_verb(export.session_ids)
    tree = read_verb(export.tree)
    latest_revision = read_verb(export.latest_revision)
    session = read_verb(export.session)
    messages = read_verb(export.messages)

    async def import_session(self, new: SessionImport, *, pool: str) -> ImportOutcome:
        """Write an imported session, all of it or nothing. A long one is written in pieces."""
        if import_.count_rows(new) <= PIECE_ROWS:
            return await self._write(lambda tx: import_.import_session(tx, new, pool=pool))
        if await self._read(lambda tx: import_.is_imported(tx, new)):
            return "already there"
        done: ImportOutcome | None = await self._write_in_pieces(
            new.info.id, import_.import_pieces(new), lambda tx: import_.complete_import(tx, new, pool=pool)
        )
        return "already there" if done is None else done
