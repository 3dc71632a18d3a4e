"""The store: each method is one transaction, on SQLite or PostgreSQL."""

from collections.abc import Sequence

from asyncagents.domain.call.call import Call, Open, Reply, Result
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.control import Claim, Control, Snapshot
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Rule, Session, Tokens
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import Event
from asyncagents.domain.fact import Admit, AdmitResult, Fact, Resume, Settle
from asyncagents.domain.id import CallId, MessageId, OwnerId, PartId, RequestId, SessionId
from asyncagents.domain.task.task import EndedBy
from asyncagents.domain.why import Situation
from asyncagents.store.facade.actions import ActionStore
from asyncagents.store.facade.approval import ApprovalStore
from asyncagents.store.facade.board import BoardStore
from asyncagents.store.facade.census import CensusStore
from asyncagents.store.facade.conversation import ConversationStore
from asyncagents.store.facade.delivery import DeliveryStore
from asyncagents.store.facade.due import DueStore
from asyncagents.store.facade.health import HealthStore
from asyncagents.store.facade.pending import PendingStore
from asyncagents.store.facade.revert import RevertStore
from asyncagents.store.facade.transfer import TransferStore
from asyncagents.store.tx import Database
from asyncagents.store.verb import (
    answer,
    approval,
    cancel,
    claim,
    compact,
    delete,
    expire,
    fact,
    feed,
    idempotency,
    prepare,
    queue,
    read,
    rest,
    session,
    set_aside,
    signal,
    step,
    summary,
    task,
    task_end,
    task_read,
    title,
    todo,
    trace,
)
from asyncagents.store.verb import why as situation
from asyncagents.store.verb.cancel import Scope
from asyncagents.store.verb.feed import Feed
from asyncagents.store.verb.prepare import PreparedInput
from asyncagents.store.verb.read import ActiveSession, InputRow, ModelHistory
from asyncagents.store.verb.rest import RestReason
from asyncagents.store.verb.session import NewSession
from asyncagents.store.verb.step import CallMove, NewStep, StartedStep, StepEnd, StepRetry
from asyncagents.store.verb.summary import SummaryEnd
from asyncagents.store.verb.task_read import TaskWithProgress
from asyncagents.store.verb.title import TitleEnd
from asyncagents.store.verb_runner import VerbRunner


class Store(VerbRunner):
    """Verbs are written once, over `Tx`; a database supplies statements and transactions."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.listen = database.listen
        self.pending = PendingStore(database)
        self.deliveries = DeliveryStore(database)
        self.due, self.health = DueStore(database), HealthStore(database)
        self.transfer = TransferStore(database)
        self.board = BoardStore(database)
        self.census = CensusStore(database)
        self.conversation = ConversationStore(database)
        self.actions = ActionStore(database)
        self.reverts = RevertStore(database)
        self.approval_store = ApprovalStore(database)

    # Signals: outside events, each durable before it is acknowledged.

    async def create_session(self, new: NewSession) -> Session:
        """Create a session; the same key, or id, again returns the existing one."""
        return await self._write_inline(lambda tx: session.create_session(tx, new))

    async def begin_session(self, new: NewSession, first: Admit) -> tuple[Session, AdmitResult]:
        """Create a session and admit its first input; the same keys again change nothing."""
        return await self._write_inline(lambda tx: session.begin_session(tx, new, first))

    async def admit(self, new: Admit) -> AdmitResult:
        """Accept input and wake the session. The same key again changes nothing."""
        return await self._write_inline(lambda tx: signal.admit(tx, new))

    async def settle(self, call_id: CallId, result: Result, *, unless_checked: bool = False) -> Call:
        """Settle a call, once. The same result again returns the call; a different one raises a conflict."""
        fact = Settle(call_id, result)
        return await self._write_inline(lambda tx: signal.settle(tx, fact, unless_checked=unless_checked))

    async def answer(self, ask_id: str, reply: Reply, *, ask_hash: str | None = None, by: str = "") -> Call:
        """Answer an ask or a question, once."""
        return await self._write(lambda tx: answer.answer(tx, ask_id, reply, ask_hash=ask_hash, by=by))

    async def start_title(self, session_id: SessionId, request_id: RequestId, estimate: Tokens) -> None:
        """Insert the request for a title before it is sent to a model."""
        await self._write(lambda tx: title.start_title(tx, session_id, request_id, estimate))

    async def end_title(self, end: TitleEnd) -> None:
        """Charge the request; set the title unless it was changed meanwhile."""
        await self._write(lambda tx: title.end_title(tx, end))

    async def cancel(
        self, session_id: SessionId, *, by: EndedBy = "user", scope: Scope = "tree", key: str | None = None
    ) -> tuple[SessionId, ...]:
        """Cancel a session and its descendants, once per key; input that is not promoted is held back."""
        return await self._write(lambda tx: cancel.abort(tx, session_id, by=by, scope=scope, key=key))

    async def resume(self, follow: Resume) -> None:
        """Send a follow-up to a task's child. The same key again changes nothing."""
        await self._write(lambda tx: task.resume_task(tx, follow))

    async def conclude_task(self, task_id: SessionId) -> None:
        """Conclude a task whose end was missed."""
        await self._write(lambda tx: task_end.conclude_missed(tx, task_id))

    async def expire(self, limit: int = expire.SWEEP_ROWS) -> int:
        """Expire overdue rows; returns how many. The rest waits for the next call. Raises `StuckRow`."""
        return await self.due.expire(limit)

    async def delete_session(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Delete a session and all its descendants."""
        return await self._write(lambda tx: delete.delete_session(tx, session_id))

    # A run: every write checks the lease and raises `LeaseLost` if it is not valid any more.

    async def claim(
        self, session_id: SessionId, owner: OwnerId, *, dead: OwnerId | None, counts: bool = True
    ) -> Snapshot | None:
        """Claim a session that is ready or whose owner is `dead`. None: it cannot be claimed."""
        return await self._write_inline(
            lambda tx: claim.claim(tx, session_id, owner, dead=dead, counts=counts)
        )

    async def release(self, lease: Claim) -> None:
        """Release a claim before the work is done; another run may claim the session at once."""
        await self._write(lambda tx: claim.release(tx, lease))

    async def give_back(self, session_id: SessionId, owner: OwnerId) -> None:
        """Release a session if this owner holds its claim."""
        await self._write(lambda tx: claim.give_back(tx, session_id, owner))

    async def hand_over(self, sessions: tuple[SessionId, ...]) -> None:
        """Wake, for all processes, the sessions queued behind these: wakes of this process end with it."""
        await self._write(lambda tx: queue.hand_over(tx, sessions))

    async def set_aside(self, session_id: SessionId, owner: OwnerId, why: str) -> bool:
        """Take a child session that cannot be read out of its queue. False: nothing was done."""
        return await self._write(lambda tx: set_aside.set_aside(tx, session_id, owner, why=why))

    async def save_trace(self, lease: Claim, traceparent: str) -> None:
        """Store the trace in which later runs of the session continue."""
        await self._write_inline(lambda tx: trace.save_trace(tx, lease, traceparent))

    async def start_step(self, lease: Claim, new: NewStep) -> StartedStep | None:
        """Promote unread input and insert the step and its request. None: no step is needed any more."""
        return await self._write_inline(lambda tx: step.start_step(tx, lease, new))

    async def write_parts(self, lease: Claim, parts: tuple[Part, ...], events: tuple[Event, ...]) -> None:
        """Write parts of a step as it streams; `events` are those that were not published yet."""
        await self._write_inline(lambda tx: step.write_parts(tx, lease, parts, events))

    async def finish_step(self, lease: Claim, end: StepEnd) -> Snapshot:
        """Close the step and insert its calls."""
        return await self._write_inline(lambda tx: step.finish_step(tx, lease, end))

    async def finish_summary(self, lease: Claim, done: SummaryEnd) -> Snapshot:
        """Close a summary; from here on the model reads it instead of what came before."""
        return await self._write(lambda tx: summary.finish_summary(tx, lease, done))

    async def prune(self, lease: Claim, parts: Sequence[PartId]) -> None:
        """Leave the output of these calls out of what the model reads."""
        await self._write(lambda tx: compact.prune(tx, lease, parts))

    async def retry_step(self, lease: Claim, retry: StepRetry) -> Snapshot:
        """Close a step that failed and store the time of its next try."""
        return await self._write_inline(lambda tx: step.retry_step(tx, lease, retry))

    async def hold_step(self, lease: Claim, request_id: RequestId, *, until: int, why: str) -> Snapshot:
        """Store a later time for the first or the next try of a step."""
        return await self._write(lambda tx: step.hold_step(tx, lease, request_id, until=until, why=why))

    async def prepare(self, lease: Claim, prepared: tuple[PreparedInput, ...]) -> Snapshot:
        """Store the input that hooks left to requested calls, once per call."""
        return await self._write(lambda tx: prepare.prepare_calls(tx, lease, prepared))

    async def advance(self, lease: Claim, moves: tuple[CallMove, ...]) -> Snapshot:
        """Move calls to their next state. A settled call never changes; none starts in a cancelled turn."""
        return await self._write_inline(lambda tx: step.advance(tx, lease, moves))

    async def finish_call(
        self, lease: Claim, call_id: CallId, result: Result, facts: tuple[Fact, ...] = ()
    ) -> Call:
        """Settle a call that the run executed and apply its facts; a result that came from outside stays."""
        return await self._write_inline(
            lambda tx: fact.finish_call(tx, lease, Settle(call_id, result), facts)
        )

    async def open_call(
        self, lease: Claim, call_id: CallId, state: Open, facts: tuple[Fact, ...] = ()
    ) -> None:
        """Open a call that the run executed and apply its facts; a result that came from outside stays."""
        await self._write_inline(lambda tx: fact.open_call(tx, lease, call_id, state, facts=facts))

    async def park(self, lease: Claim, wake_seq: int) -> bool:
        """Park: end the run with calls open. False: the session was woken since the decision, go on."""
        return await self._write_inline(lambda tx: rest.park(tx, lease, wake_seq))

    async def rest(
        self, lease: Claim, wake_seq: int, reason: RestReason, facts: tuple[Fact, ...] = ()
    ) -> bool:
        """Rest: apply facts and end the turn. False: the session was woken since the decision, go on."""
        return await self._write_inline(lambda tx: rest.rest(tx, lease, wake_seq, reason, facts=facts))

    # Reads.

    async def snapshot(self, lease: Claim) -> Snapshot:
        return await self._read_inline(lambda tx: read.claimed_snapshot(tx, lease))

    async def session(self, session_id: SessionId) -> Session:
        return await self._read_inline(lambda tx: read.session(tx, session_id))

    async def sessions(self, project_id: str, *, after: str = "", limit: int = 100) -> tuple[Session, ...]:
        """List the sessions of a project, newest first."""
        return await self._read(lambda tx: read.sessions(tx, project_id, after=after, limit=limit))

    async def roots(
        self, project_id: str | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[Session, ...]:
        """List sessions without a parent, of one project or of all, newest first."""
        return await self._read(lambda tx: read.roots(tx, project_id, after=after, limit=limit))

    async def session_ids_with_prefix(self, start: str, *, limit: int = 2) -> tuple[SessionId, ...]:
        """List session ids with a prefix."""
        return await self._read(lambda tx: read.session_ids_with_prefix(tx, start, limit))

    async def children(self, session_id: SessionId) -> tuple[Session, ...]:
        return await self._read(lambda tx: read.children(tx, session_id))

    async def control(self, session_id: SessionId) -> Control:
        return await self._read_inline(lambda tx: read.control(tx, session_id))

    async def cancel_status(self, session_id: SessionId) -> tuple[Control, bool]:
        """Read the control columns, and whether a cancel still has something to end."""
        return await self._read(lambda tx: read.cancel_status(tx, session_id))

    async def status(self, session_id: SessionId) -> Status:
        return await self._read_inline(lambda tx: read.status(tx, session_id))

    async def statuses(self, root_id: SessionId | None = None) -> dict[SessionId, Status]:
        """Read the statuses of all sessions, or those of a tree, that are not idle."""
        return await self._read(lambda tx: read.statuses(tx, root_id))

    async def working_sessions(self, root_id: SessionId) -> tuple[SessionId, ...]:
        """List the sessions of a tree that neither rest nor wait for the outside."""
        return await self._read(lambda tx: read.working_sessions(tx, root_id))

    async def history(self, session_id: SessionId, *, since: int = 0) -> tuple[MessageWithParts, ...]:
        """Read the history from a position on, in the order the model reads it."""
        return await self._read(lambda tx: read.history_between(tx, session_id, since))

    async def model_history(self, session_id: SessionId, *, whole: bool = False) -> ModelHistory:
        """Read the history before the last step, which cannot change any more; `whole`: all of it."""
        return await self._read(lambda tx: read.model_history(tx, session_id, whole=whole))

    async def messages(
        self, session_id: SessionId, *, before: MessageId | None = None, limit: int = 1_000_000
    ) -> tuple[MessageWithParts, ...]:
        """Read the newest `limit` messages before an id, oldest first, in the order clients read them."""
        return await self._read(lambda tx: read.messages(tx, session_id, before=before, limit=limit))

    async def message(self, message_id: MessageId) -> MessageWithParts:
        return await self._read(lambda tx: read.require_message(tx, message_id))

    async def input(self, message_id: MessageId) -> InputRow:
        return await self._read_inline(lambda tx: read.input_row(tx, message_id))

    async def is_admitted(self, session_id: SessionId, key: str) -> bool:
        """Whether input was admitted under this key."""
        return await self._read_inline(lambda tx: idempotency.is_admitted(tx, session_id, key))

    async def has_begun(self, session_key: str, key: str) -> bool:
        """Whether a session was created under `session_key` and admitted input under `key`."""
        return await self._read_inline(lambda tx: idempotency.has_begun(tx, session_key, key))

    async def count_inputs(self, session_id: SessionId, prefix: str) -> int:
        """Count the inputs of a session whose key has a prefix."""
        return await self._read(lambda tx: read.count_inputs(tx, session_id, prefix))

    async def last_call_id(self, session_id: SessionId) -> CallId | None:
        return await self._read_inline(lambda tx: read.last_call_id(tx, session_id))

    async def newest_prompt(self, session_id: SessionId) -> MessageId | None:
        """Find the newest promoted prompt of a person."""
        return await self._read_inline(lambda tx: read.newest_prompt(tx, session_id))

    async def todos(self, session_id: SessionId) -> tuple[Todo, ...]:
        return await self._read_inline(lambda tx: todo.read_todos(tx, session_id))

    async def task(self, task_id: SessionId) -> TaskWithProgress:
        return await self._read(lambda tx: task_read.read_task(tx, task_id))

    async def tasks_of(self, parent_id: SessionId) -> tuple[TaskWithProgress, ...]:
        """List the tasks that a session launched, oldest first."""
        return await self._read(lambda tx: task_read.tasks_of_parent(tx, parent_id))

    async def tasks_of_tree(self, session_id: SessionId) -> tuple[TaskWithProgress, ...]:
        """List the tasks in the tree of a session, oldest first."""
        return await self._read(lambda tx: task_read.tasks_of_tree(tx, session_id))

    async def tasks_of_batch(self, batch: str) -> tuple[TaskWithProgress, ...]:
        return await self._read(lambda tx: task_read.tasks_of_batch(tx, batch))

    async def live_tasks(self) -> tuple[TaskWithProgress, ...]:
        return await self._read(task_read.live_tasks)

    async def tasks(self, *, after: str = "", limit: int = 100) -> tuple[TaskWithProgress, ...]:
        """List tasks, newest first."""
        return await self._read(lambda tx: task_read.newest_tasks(tx, after=after, limit=limit))

    async def task_ids_with_prefix(
        self, parent_id: SessionId, start: str, *, limit: int = 10
    ) -> tuple[SessionId, ...]:
        return await self._read(lambda tx: task_read.task_ids_with_prefix(tx, parent_id, start, limit=limit))

    async def count_live(self, session_id: SessionId) -> int:
        """Count the live tasks that a session launched."""
        return await self._read_inline(lambda tx: task_read.count_live(tx, session_id))

    async def last_calls(self, session_id: SessionId, limit: int) -> tuple[Call, ...]:
        """Read the last calls of a session, newest first."""
        return await self._read(lambda tx: task_read.last_calls(tx, session_id, limit))

    async def launcher(self, session_id: SessionId) -> task_read.Launcher:
        """Read all that a launch must know of the parent session."""
        return await self._read(lambda tx: task_read.launcher(tx, session_id))

    async def situation(self, session_id: SessionId) -> Situation:
        """Read what explains why a session does not move."""
        return await self._read(lambda tx: situation.situation(tx, session_id))

    async def unconcluded_tasks(self, limit: int = 500) -> tuple[SessionId, ...]:
        """List live tasks whose child session has nothing left to do."""
        return await self._read(lambda tx: task_read.unconcluded_tasks(tx, limit))

    async def call(self, call_id: CallId) -> Call:
        return await self._read_inline(lambda tx: read.require_call(tx, call_id))

    async def calls(self, session_id: SessionId) -> tuple[Call, ...]:
        return await self._read(lambda tx: read.calls(tx, session_id))

    async def open_calls(self, session_id: SessionId) -> tuple[Call, ...]:
        return await self._read(lambda tx: read.open_calls(tx, session_id))

    async def asks(self, root_id: SessionId | None = None) -> tuple[WaitingCall, ...]:
        """List calls that wait for a person, in one tree of sessions or in all."""
        return await self._read(lambda tx: read.asks(tx, root_id))

    async def lineage(self, session_id: SessionId) -> tuple[Session, ...]:
        """Read the lineage of a session, root first."""
        return await self._read_inline(lambda tx: read.lineage(tx, session_id))

    async def approvals(self, project_id: str) -> tuple[Rule, ...]:
        """Read the stored approvals of a project as rules."""
        return await self._read(lambda tx: approval.approvals(tx, project_id))

    async def active_sessions(
        self, pool: str, *, after: str = "~", limit: int = 500
    ) -> tuple[ActiveSession, ...]:
        """List sessions that are ready or running, oldest first."""
        return await self._read(lambda tx: read.active_sessions(tx, pool, after=after, limit=limit))

    async def trace(self, session_id: SessionId) -> str | None:
        return await self._read_inline(lambda tx: trace.trace_of(tx, session_id))

    async def next_due(self) -> int | None:
        return await self._read(read.next_due)

    async def cursor(self) -> str:
        return await self._read_inline(feed.cursor)

    async def feed(self, after: str | None = None) -> Feed:
        """Read a bounded piece of what changed after a cursor."""
        return await self._read(lambda tx: feed.read_feed(tx, after))

    async def forget_deleted(self, upto: int) -> None:
        await self._write(lambda tx: feed.forget_tombstones(tx, upto))
