"""Todos of a session as clients see them."""

from typing import Literal, TypeAlias

from asyncagents.domain.shape import Shape

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]
Priority: TypeAlias = Literal["high", "medium", "low"]


class Todo(Shape, frozen=True, kw_only=True):
    """One entry of a session's todo list."""

    content: str
    status: TodoStatus
    priority: Priority
    id: str = ""
    """Always set on our own todos; may be empty in an imported list."""


def unfinished_todos(todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
    """Return the todos that are neither completed nor cancelled."""
    return tuple(todo for todo in todos if todo.status in ("pending", "in_progress"))


def count_unfinished(todos: tuple[Todo, ...]) -> int:
    return len(unfinished_todos(todos))
