"""Todos: the last list that was acknowledged, whole, for its session alone."""

import pytest

from asyncagents.domain.call.call import Completed, Running
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import TodoUpdated
from asyncagents.domain.fact import WriteTodos
from asyncagents.errors import NotFound
from tests.support.store.lab import Lab

PLAN = (
    Todo(id="todo_1", content="Look", status="completed", priority="high"),
    Todo(id="todo_2", content="Leap", status="pending", priority="low"),
)


@pytest.mark.spec("O-02", "O-06")
async def test_todos_commit_with_their_call_and_replace_the_earlier_ones(lab: Lab) -> None:
    session_id, claim, (call, again) = await lab.start_calls(Running(1), Running(1))
    other = await lab.session()
    lab.commits.clear()
    await lab.store.finish_call(claim, call.id, Completed("2"), (WriteTodos(session_id, PLAN),))
    assert await lab.store.todos(session_id) == PLAN
    assert [e.todos for e in lab.events if isinstance(e, TodoUpdated)] == [PLAN]
    await lab.store.finish_call(claim, again.id, Completed("1"), (WriteTodos(session_id, PLAN[:1]),))
    assert await lab.store.todos(session_id) == PLAN[:1]
    assert await lab.store.todos(other) == ()


async def test_a_settled_call_writes_no_todos(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(Running(1))
    await lab.store.finish_call(claim, call.id, Completed("2"), (WriteTodos(session_id, PLAN),))
    await lab.store.finish_call(claim, call.id, Completed("2"), (WriteTodos(session_id, ()),))
    assert await lab.store.todos(session_id) == PLAN


@pytest.mark.spec("O-02")
async def test_the_feed_has_the_current_todos(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(Running(1))
    cursor = await lab.store.cursor()
    await lab.store.finish_call(claim, call.id, Completed("2"), (WriteTodos(session_id, PLAN),))
    feed = await lab.store.feed(cursor)
    assert TodoUpdated(session_id=session_id, todos=PLAN) in feed.events


async def test_todos_are_deleted_with_their_session(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(Running(1))
    await lab.store.finish_call(claim, call.id, Completed("2"), (WriteTodos(session_id, PLAN),))
    await lab.store.delete_session(session_id)
    with pytest.raises(NotFound):
        await lab.store.todos(session_id)
