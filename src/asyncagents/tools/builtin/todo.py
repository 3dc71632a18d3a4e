"""`todowrite` and `todoread`: replace and read a session's whole todo list."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.todo import Priority, Todo, TodoStatus, left
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.tool import Together, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described

MOST = 200
Known: TypeAlias = Callable[[SessionId], Awaitable[tuple[Todo, ...]]]


class TodoItem(Struct, frozen=True, kw_only=True):
    content: Annotated[str, Meta(description="What is to be done, in a few words.", max_length=2000)]
    status: TodoStatus = "pending"
    priority: Priority = "medium"
    id: Annotated[
        str | None, Meta(description="Keep the id that was given before; leave it out for a new todo.")
    ] = None


class TodoWrite(Struct, frozen=True):
    todos: Annotated[list[TodoItem], Meta(max_length=MOST)]


class TodoRead(Struct, frozen=True):
    pass


def todowrite(known: Known, ids: Ids) -> Tool[TodoWrite]:
    async def run(args: TodoWrite, context: ToolContext) -> Together:
        todos = _kept(args.todos, await known(context.session_id), ids)
        return Together(_told(todos), (WriteTodos(context.session_id, todos),))

    return Tool("todowrite", TodoWrite, run, effect="idempotent", description=described("todowrite"))


def todoread(known: Known) -> Tool[TodoRead]:
    async def run(args: TodoRead, context: ToolContext) -> Completed:
        return _told(await known(context.session_id))

    return Tool("todoread", TodoRead, run, effect="none", description=described("todoread"))


def _kept(items: list[TodoItem], before: tuple[Todo, ...], ids: Ids) -> tuple[Todo, ...]:
    """Assign ids: an item without one keeps the id of an old todo with equal content, or gets a new id."""
    given = {item.id for item in items if item.id}
    free = {todo.content: todo.id for todo in before if todo.id not in given}
    todos = tuple(
        Todo(
            id=item.id or free.pop(item.content, None) or ids.todo(),
            content=_said(item.content),
            status=item.status,
            priority=item.priority,
        )
        for item in items
    )
    if len({todo.id for todo in todos}) < len(todos):
        raise ToolError("Two todos have the same id; give each its own, or leave the id out.")
    return todos


def _said(content: str) -> str:
    if not content.strip():
        raise ToolError("A todo needs some content: say what is to be done.")
    return content


def _told(todos: tuple[Todo, ...]) -> Completed:
    output = msgspec.json.format(msgspec.json.encode(todos), indent=2).decode()
    count = left(todos)
    title = f"{count} todo" if count == 1 else f"{count} todos"
    return Completed(output, title, metadata={"todos": [msgspec.to_builtins(todo) for todo in todos]})
