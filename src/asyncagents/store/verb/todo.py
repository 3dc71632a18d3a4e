"""A session's todos, written and read as one list."""

from contextlib import suppress

import msgspec

from asyncagents.domain.body import encode_body
from asyncagents.domain.conversation.codec import DECODE_ERRORS, Unreadable, unreadable_error
from asyncagents.domain.conversation.todo import Todo, count_unfinished
from asyncagents.domain.event import TodoUpdated
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import SessionId
from asyncagents.store.row import require_session
from asyncagents.store.tx import Tx

_todos = msgspec.json.Decoder(tuple[Todo, ...])


async def write_todos(tx: Tx, fact: WriteTodos) -> None:
    """Replace the list of todos and publish the new one."""
    await require_session(tx, fact.session_id)
    await tx.one("put_todos", fact.session_id, encode_body(fact.todos), await tx.rev())
    tx.emit(TodoUpdated(session_id=fact.session_id, todos=fact.todos))


async def read_todos(tx: Tx, session_id: SessionId) -> tuple[Todo, ...]:
    await require_session(tx, session_id)
    row = await tx.one("todos", session_id)
    return decode_todos(row[0]) if row else ()


async def has_open_todos(tx: Tx, session_id: SessionId) -> bool:
    """Whether todos are left; True for an unreadable list, whose error is then raised where it is read."""
    row = await tx.one("todos", session_id)
    with suppress(Unreadable):
        return row is not None and count_unfinished(decode_todos(row[0])) > 0
    return True


def decode_todos(raw: bytes) -> tuple[Todo, ...]:
    try:
        return _todos.decode(raw)
    except DECODE_ERRORS as error:
        raise unreadable_error("todo list", raw, error) from error
