"""Tasks of MCP servers: which are to be polled, by one process at a time, and what a poll learned."""

from contextlib import suppress
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.ask import Question, QuestionRequest, ToolRef
from asyncagents.domain.call.call import Call, Failed, Open, Result, move_call
from asyncagents.domain.call.elicitation import form_questions
from asyncagents.domain.call.server_task import MAX_CANCELS, ServerTask
from asyncagents.domain.call.server_task_state import (
    ServerTaskEnded,
    ServerTaskState,
    ServerTaskUnreachable,
    ServerTaskWorking,
)
from asyncagents.domain.conversation.codec import SHAPE_VERSION, Unreadable
from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.store.row import put_call, require_call, require_session, schedule_poll
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_ask, publish_reply, save_answer
from asyncagents.store.verb.settle import settle_open

CLAIM_MS = 60_000
"""How long a process has to tell a server something before another one tries; much longer than it takes."""
MOST_FORM_BYTES = 100_000
MOST_ANSWERED = 1_000
CANNOT_ASK = (
    "The MCP server {server!r} asks a person for something that cannot be asked here: {why}. "
    "The task was given up, and the server was asked to cancel it."
)


class DuePolls(Struct, frozen=True):
    """Calls whose servers are to be asked now, and when the next one is, both at the same moment."""

    now: tuple[CallId, ...]
    next_at: int | None


async def due_polls(tx: Tx, pools: tuple[str, ...], root_id: SessionId | None, limit: int) -> DuePolls:
    """List calls whose servers are to be asked: of sessions in these pools, or of one tree."""
    places = [("due_polls", "next_poll", pool) for pool in pools]
    if root_id is not None:
        places = [("due_polls_of_tree", "next_poll_of_tree", root_id)]
    found: list[CallId] = []
    later: list[int] = []
    for due, following, place in places:
        found += [CallId(row[0]) for row in await tx.all(due, tx.now, place, limit)]
        row = await tx.one(following, tx.now, place)
        later += [row[0]] if row is not None else []
    return DuePolls(tuple(found), min(later, default=None))


async def claim_poll(tx: Tx, call_id: CallId) -> Call | None:
    """Claim a due poll; None: another process has claimed it, or nothing is to be done.

    Its next time is set first, so that a process that dies loses one poll at most.
    """
    await tx.rev()
    try:
        call = await require_call(tx, call_id)
    except (NotFound, Unreadable):
        call = None
    task = call.server_task if call is not None else None
    if call is None or task is None:
        await tx.run("set_poll", None, call_id)
        return None
    delay = max(task.next_poll_ms, CLAIM_MS if call.is_settled or call.reply_to_send else 0)
    return call if await tx.run("claim_poll", tx.now + delay, call_id, tx.now) else None


async def note_state(tx: Tx, call_id: CallId, seen: ServerTaskState) -> Call | None:
    """Record what a server said of the task of an open call; return the call if that settled it."""
    call = await _find_call(tx, call_id)
    if call is None or call.server_task is None or call.open is None:  # its settling has scheduled the cancel
        return None
    task = call.server_task
    match seen:
        case ServerTaskEnded(result):
            return await _settle(tx, call.with_server_task(replace(task, over=True, requests={})), result)
        case ServerTaskUnreachable():
            await _keep(tx, call.with_server_task(replace(task, failures=task.failures + 1)))
        case ServerTaskWorking():
            return await _note_working(tx, call, call.open, task, seen)
        case _:
            assert_never(seen)
    return None


async def _note_working(  # noqa: PLR0917  the call and its two states
    tx: Tx, call: Call, state: Open, task: ServerTask, seen: ServerTaskWorking
) -> Call | None:
    requests = {key: form for key, form in seen.requests.items() if key not in task.answered}
    known = replace(task, poll_ms=seen.poll_ms, failures=0)
    if requests.keys() != task.requests.keys() and call.reply_to_send is None:
        try:
            await _ask(tx, call, state, replace(known, requests=requests), seen.message)
        except InvalidInput as error:
            why = CANNOT_ASK.format(server=task.server, why=error)
            return await _settle(tx, call, Failed(why))
    elif seen.message and seen.message != state.note and state.question is None:
        await put_call(tx, replace(call.with_server_task(known), state=replace(state, note=seen.message)))
    elif known != task:
        await _keep(tx, call.with_server_task(known))
    return None


async def _ask(  # noqa: PLR0917  the call and its two states
    tx: Tx, call: Call, state: Open, task: ServerTask, note: str
) -> None:
    """Ask a person what the server asks now, in place of what it asked before. Raises `InvalidInput`."""
    if len(encode_body(task.requests)) > MOST_FORM_BYTES:
        raise InvalidInput(f"its forms have more than {MOST_FORM_BYTES} bytes")
    questions = form_questions(task.requests)
    publish_reply(tx, call, "reject")
    question = _question_request(tx, call, questions) if questions else None
    asking = replace(state, question=question, note=note or state.note, who="")
    after = move_call(call, asking, tx.now).with_server_task(task)
    await save_answer(tx, call, after)
    await put_call(tx, after)
    publish_ask(tx, after)


def _question_request(tx: Tx, call: Call, questions: tuple[Question, ...]) -> QuestionRequest:
    return QuestionRequest(
        id=tx.ids.question(),
        session_id=call.session_id,
        questions=questions,
        tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
    )


async def note_answered(tx: Tx, call_id: CallId, keys: tuple[str, ...]) -> None:
    """Record that the server has got the answers to its forms."""
    call = await _find_call(tx, call_id)
    if call is None or call.server_task is None:
        return
    task = call.server_task
    rest = {key: form for key, form in task.requests.items() if key not in keys}
    answered = (*task.answered, *keys)[-MOST_ANSWERED:]
    await _keep(tx, call.with_server_task(replace(task, requests=rest, answered=answered, failures=0)))


async def note_cancelled(tx: Tx, call_id: CallId, *, reached: bool) -> bool:
    """Record that the server was asked to cancel the task of a settled call. False: it is asked again."""
    call = await _find_call(tx, call_id)
    if call is None or call.server_task is None:
        return True
    cancels = call.server_task.cancels + 1
    over = reached or cancels >= MAX_CANCELS
    await _keep(tx, call.with_server_task(replace(call.server_task, over=over, cancels=cancels)))
    return over


async def _find_call(tx: Tx, call_id: CallId) -> Call | None:
    with suppress(NotFound, Unreadable):
        return await require_call(tx, call_id)
    return None


async def _settle(tx: Tx, call: Call, result: Result) -> Call:
    publish_reply(tx, call, "reject")
    return await settle_open(tx, await require_session(tx, call.session_id), call, result)


async def _keep(tx: Tx, call: Call) -> None:
    """Store what was learned of a task; the part that people see does not change."""
    raw = encode_body(call)
    await tx.run("keep_call", raw, SHAPE_VERSION, await tx.rev(), call.id, SHAPE_VERSION)
    await schedule_poll(tx, call)
