"""A session's plan: todos as people and clients see them."""

from typing import Literal, TypeAlias

from asyncagents.domain.shape import Shape

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]
Priority: TypeAlias = Literal["high", "medium", "low"]


class Todo(Shape, frozen=True, kw_only=True):
    content: str
    status: TodoStatus
    priority: Priority
    id: str = ""
    """Ours always have one; a list from elsewhere may not."""


def unfinished(todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
    """Those that are neither done nor dropped."""
    return tuple(todo for todo in todos if todo.status in ("pending", "in_progress"))


def left(todos: tuple[Todo, ...]) -> int:
    return len(unfinished(todos))
