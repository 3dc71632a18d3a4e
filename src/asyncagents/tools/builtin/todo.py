"""`todowrite` and `todoread`: replace and read a session's whole todo list."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.todo import Priority, Todo, TodoStatus, count_unfinished
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.tool import Tool, ToolContext, WithFacts
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description

MOST_TODOS = 200
ReadTodos: TypeAlias = Callable[[SessionId], Awaitable[tuple[Todo, ...]]]


class TodoItem(Struct, frozen=True, kw_only=True):
    content: Annotated[str, Meta(description="What is to be done, in a few words.", max_length=2000)]
    status: TodoStatus = "pending"
    priority: Priority = "medium"
    id: Annotated[
        str | None, Meta(description="Keep the id that was given before; leave it out for a new todo.")
    ] = None


class TodoWriteArgs(Struct, frozen=True):
    todos: Annotated[list[TodoItem], Meta(max_length=MOST_TODOS)]


class TodoReadArgs(Struct, frozen=True):
    pass


def todowrite(known: ReadTodos, ids: Ids) -> Tool[TodoWriteArgs]:
    async def run(args: TodoWriteArgs, context: ToolContext) -> WithFacts:
        todos = _build_todos(args.todos, await known(context.session_id), ids)
        return WithFacts(_build_result(todos), (WriteTodos(context.session_id, todos),))

    return Tool(
        "todowrite", TodoWriteArgs, run, effect="idempotent", description=load_description("todowrite")
    )


def todoread(known: ReadTodos) -> Tool[TodoReadArgs]:
    async def run(args: TodoReadArgs, context: ToolContext) -> Completed:
        return _build_result(await known(context.session_id))

    return Tool("todoread", TodoReadArgs, run, effect="none", description=load_description("todoread"))


def _build_todos(items: list[TodoItem], before: tuple[Todo, ...], ids: Ids) -> tuple[Todo, ...]:
    """Assign ids: an item without one keeps the id of an old todo with equal content, or gets a new id."""
    given = {item.id for item in items if item.id}
    free = {todo.content: todo.id for todo in before if todo.id not in given}
    todos = tuple(
        Todo(
            id=item.id or free.pop(item.content, None) or ids.todo(),
            content=_require_content(item.content),
            status=item.status,
            priority=item.priority,
        )
        for item in items
    )
    if len({todo.id for todo in todos}) < len(todos):
        raise ToolError("Two todos have the same id; give each its own, or leave the id out.")
    return todos


def _require_content(content: str) -> str:
    if not content.strip():
        raise ToolError("A todo needs some content: say what is to be done.")
    return content


def _build_result(todos: tuple[Todo, ...]) -> Completed:
    output = msgspec.json.format(msgspec.json.encode(todos), indent=2).decode()
    count = count_unfinished(todos)
    title = f"{count} todo" if count == 1 else f"{count} todos"
    return Completed(output, title, metadata={"todos": [msgspec.to_builtins(todo) for todo in todos]})
