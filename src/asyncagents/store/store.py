"""The store: each method is one transaction, on SQLite or PostgreSQL."""

from asyncagents.domain.call.call import Call, Result
from asyncagents.domain.fact import Settle
from asyncagents.domain.id import CallId
from asyncagents.domain.session_state import SWEEP_ROWS
from asyncagents.store import row
from asyncagents.store.facade import (
    ActionStore,
    ApprovalStore,
    BoardStore,
    CensusStore,
    ConversationStore,
    DeliveryStore,
    DueStore,
    ExternalStore,
    HealthStore,
    PendingStore,
    PollStore,
    RevertStore,
    TransferStore,
)
from asyncagents.store.tx import Database
from asyncagents.store.verb import (
    admit,
    answer,
    approval,
    cancel,
    claim,
    compact,
    delete,
    fact,
    feed,
    idempotency,
    park_rest,
    prepare,
    queue,
    read,
    session,
    set_aside,
    settle,
    step,
    summary,
    task,
    task_end,
    task_read,
    title,
    todo,
    trace,
    why,
)
from asyncagents.store.verb_runner import VerbRunner, read_verb, write_verb


class Store(VerbRunner):
    """Verbs are written once, over `Tx`; a database supplies statements and transactions.

    In the body of the class, a method that has the name of a module hides the module from there on.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.listen = database.listen
        self.pending = PendingStore(database)
        self.polls = PollStore(database)
        self.deliveries = DeliveryStore(database)
        self.due, self.health = DueStore(database), HealthStore(database)
        self.external = ExternalStore(database)
        self.transfer = TransferStore(database)
        self.board = BoardStore(database)
        self.census = CensusStore(database)
        self.conversation = ConversationStore(database)
        self.actions = ActionStore(database)
        self.reverts = RevertStore(database)
        self.approval_store = ApprovalStore(database)

    # Signals: outside events, each durable before it is acknowledged.

    create_session = write_verb(session.create_session, inline=True)
    begin_session = write_verb(session.begin_session, inline=True)
    admit = write_verb(admit.admit_input, inline=True)
    answer = write_verb(answer.answer)
    start_title = write_verb(title.start_title)
    end_title = write_verb(title.end_title)
    cancel = write_verb(cancel.abort)
    resume = write_verb(task.resume_task)
    conclude_task = write_verb(task_end.conclude_missed)
    delete_session = write_verb(delete.delete_session)
    forget_deleted = write_verb(feed.forget_tombstones)

    async def settle(self, call_id: CallId, result: Result, *, unless_checked: bool = False) -> Call:
        """Settle a call, once. The same result again returns the call; a different one raises a conflict."""
        fact = Settle(call_id, result)
        return await self._write(
            lambda tx: settle.settle_call(tx, fact, unless_checked=unless_checked), inline=True
        )

    async def expire(self, limit: int = SWEEP_ROWS) -> int:
        """Expire overdue rows; returns how many. The rest waits for the next call. Raises `StuckRow`."""
        return await self.due.expire(limit)

    # A run: every write checks the claim and raises `ClaimLost` if it is not valid any more.

    release = write_verb(claim.release)
    give_back = write_verb(claim.give_back)
    claim = write_verb(claim.claim, inline=True)
    hand_over = write_verb(queue.hand_over)
    set_aside = write_verb(set_aside.set_aside)
    save_trace = write_verb(trace.save_trace, inline=True)
    start_step = write_verb(step.start_step, inline=True)
    write_parts = write_verb(step.write_parts, inline=True)
    finish_step = write_verb(step.finish_step, inline=True)
    finish_summary = write_verb(summary.finish_summary)
    prune = write_verb(compact.prune)
    retry_step = write_verb(step.retry_step, inline=True)
    hold_step = write_verb(step.hold_step)
    prepare = write_verb(prepare.prepare_calls)
    advance = write_verb(step.advance, inline=True)
    finish_call = write_verb(fact.finish_call, inline=True)
    open_call = write_verb(fact.open_call, inline=True)
    park = write_verb(park_rest.park, inline=True)
    rest = write_verb(park_rest.rest, inline=True)

    # Reads of sessions and what they hold.

    session = read_verb(read.session, inline=True)
    sessions = read_verb(read.sessions)
    roots = read_verb(read.roots)
    session_ids_with_prefix = read_verb(read.session_ids_with_prefix)
    children = read_verb(read.children)
    lineage = read_verb(read.lineage, inline=True)
    snapshot = read_verb(read.claimed_snapshot, inline=True)
    control = read_verb(read.control, inline=True)
    cancel_status = read_verb(read.cancel_status)
    status = read_verb(read.status, inline=True)
    statuses = read_verb(read.statuses)
    working_sessions = read_verb(read.working_sessions)
    active_sessions = read_verb(read.active_sessions)
    sessions_with_work = read_verb(read.sessions_with_work)
    situation = read_verb(why.situation)
    history = read_verb(read.history_between)
    model_history = read_verb(read.model_history)
    messages = read_verb(read.messages)
    message = read_verb(row.require_message)
    input = read_verb(read.input_row, inline=True)
    is_admitted = read_verb(idempotency.is_admitted, inline=True)
    has_begun = read_verb(idempotency.has_begun, inline=True)
    count_inputs = read_verb(read.count_inputs)
    newest_prompt = read_verb(read.newest_prompt, inline=True)
    todos = read_verb(todo.read_todos, inline=True)
    trace = read_verb(trace.trace_of, inline=True)

    # Reads of calls and tasks.

    call = read_verb(row.require_call, inline=True)
    calls = read_verb(read.calls)
    open_calls = read_verb(read.open_calls)
    last_calls = read_verb(task_read.last_calls)
    last_call_id = read_verb(read.last_call_id, inline=True)
    asks = read_verb(read.asks)
    approvals = read_verb(approval.approvals)
    task = read_verb(task_read.read_task)
    tasks = read_verb(task_read.newest_tasks)
    tasks_of = read_verb(task_read.tasks_of_parent)
    tasks_of_tree = read_verb(task_read.tasks_of_tree)
    tasks_of_batch = read_verb(task_read.tasks_of_batch)
    task_ids_with_prefix = read_verb(task_read.task_ids_with_prefix)
    live_tasks = read_verb(task_read.live_tasks)
    count_live = read_verb(task_read.count_live, inline=True)
    unconcluded_tasks = read_verb(task_read.unconcluded_tasks)
    launcher = read_verb(task_read.launcher)

    # Reads of what changes.

    next_due = read_verb(read.next_due)
    due_times = read_verb(read.due_times)
    cursor = read_verb(feed.cursor, inline=True)
    feed = read_verb(feed.read_feed)
