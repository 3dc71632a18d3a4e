"""The todo tools: ids are kept, lists are checked, and what the model reads is what is stored."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import CallId, Ids, MessageId, SessionId
from asyncagents.engine.tool import ToolContext, WithFacts
from asyncagents.errors import ToolError
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.tools.builtin.todo import TodoItem, TodoReadArgs, TodoWriteArgs, todoread, todowrite

CONTEXT = ToolContext(
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    call_id=CallId("tool_1"),
    agent="build",
    directory="/work",
)


class Shelf:
    """Where the last list is kept."""

    def __init__(self, *todos: Todo) -> None:
        self.todos = todos
        self._ids = Ids(FakeClock(), SeededRng(1))

    async def known(self, session_id: SessionId) -> tuple[Todo, ...]:
        return self.todos

    async def write(self, items: Sequence[dict[str, Any]]) -> WithFacts:
        args = msgspec.convert({"todos": items}, TodoWriteArgs)
        done = await todowrite(self.known, self._ids).run(args, CONTEXT)
        assert isinstance(done, WithFacts)
        (fact,) = done.facts
        assert isinstance(fact, WriteTodos)
        self.todos = fact.todos
        return done


@pytest.mark.spec("O-01", "O-02")
async def test_an_id_is_minted_once_and_kept() -> None:
    shelf = Shelf()
    await shelf.write([{"content": "Look"}, {"content": "Leap", "priority": "high"}])
    look, leap = shelf.todos
    assert (look.id != leap.id) is True
    assert look.status == "pending"
    assert look.priority == "medium"
    assert leap.priority == "high"
    await shelf.write(
        [{"content": "Leap", "status": "in_progress"}, {"id": look.id, "content": "Look twice"}]
    )
    assert [(todo.id, todo.content) for todo in shelf.todos] == [(leap.id, "Leap"), (look.id, "Look twice")]


@pytest.mark.spec("O-02")
async def test_the_output_is_the_stored_list_and_the_title_counts_open_todos() -> None:
    shelf = Shelf()
    states = ["pending", "in_progress", "completed", "cancelled"]
    done = await shelf.write([{"content": state, "status": state} for state in states])
    read = await todoread(shelf.known).run(TodoReadArgs(), CONTEXT)
    assert isinstance(read, Completed)
    assert done.result == read
    stored = list(msgspec.to_builtins(shelf.todos))
    assert read.title == "2 todos"
    assert read.metadata == {"todos": stored}
    assert msgspec.json.decode(read.output) == stored


async def test_a_list_may_be_emptied() -> None:
    shelf = Shelf(Todo(id="todo_1", content="Look", status="pending", priority="low"))
    done = await shelf.write([])
    assert shelf.todos == ()
    assert getattr(done.result, "title", "") == "0 todos"


@pytest.mark.spec("O-01")
@pytest.mark.parametrize(
    "items",
    [
        [{"content": " "}],
        [{"content": "a", "id": "x"}, {"content": "b", "id": "x"}],
    ],
)
async def test_a_list_with_an_empty_text_or_a_repeated_id_is_a_tool_error(
    items: list[dict[str, Any]],
) -> None:
    with pytest.raises(ToolError):
        await Shelf().write(items)


@pytest.mark.spec("O-01")
@pytest.mark.parametrize(
    "item", [{"content": "a", "status": "done"}, {"content": "a", "priority": "urgent"}, {}]
)
def test_status_and_priority_are_checked(item: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"todos": [item]}, TodoWriteArgs)


items = st.builds(
    TodoItem,
    content=st.text(max_size=20),
    status=st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    id=st.none() | st.text(max_size=3),
)


@given(st.lists(items, max_size=6))
async def test_any_list_is_stored_with_unique_ids_or_is_a_tool_error(
    given: list[TodoItem],
) -> None:
    shelf = Shelf(Todo(id="todo_1", content="a", status="pending", priority="low"))
    try:
        await shelf.write(msgspec.to_builtins(given))
    except ToolError:
        return
    assert len({todo.id for todo in shelf.todos}) == len(given)
