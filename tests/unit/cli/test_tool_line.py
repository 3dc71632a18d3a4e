"""Tools as people read them: a line, a diff that is counted right, the end of an output."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.cli.terminal.screen import ScreenLine
from asyncagents.cli.terminal.tool_line import (
    diff_counts,
    diff_lines,
    new_output,
    start_lines,
    tail_lines,
    todo_lines,
    tool_call_text,
    tool_lines,
)
from asyncagents.domain.conversation.part import (
    PartTime,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import CallId, MessageId, PartId
from asyncagents.tools.file.diff import unified_diff
from tests.support.domain.event import SESSION

TIME = PartTime(start=1, end=2)


def part(tool: str, state: ToolState) -> ToolPart:
    return ToolPart(
        id=PartId("prt_1"),
        session_id=SESSION,
        message_id=MessageId("msg_1"),
        call_id="1",
        tool=tool,
        state=state,
    )


def completed(tool: str, input: dict[str, Any], told: str = "", **metadata: Any) -> list[str]:
    state = ToolCompleted(
        input=input, output=told, title=input.get("filePath", ""), metadata=metadata, time=TIME
    )
    return [line.text for line in tool_lines(part(tool, state))]


@pytest.mark.parametrize(
    ("tool", "input", "expected"),
    [
        ("read", {"filePath": "src/a.py"}, "read src/a.py"),
        ("list", {}, "list ."),
        ("grep", {"pattern": "x y", "path": "src"}, "grep x y in src"),
        ("glob", {"pattern": "*.py"}, "glob *.py"),
        ("bash", {"command": "make\n  test"}, "bash: make test"),
        ("question", {"questions": [{"question": "Why?"}, {"question": "How?"}]}, "question: Why? / How?"),
        ("question", {"questions": "oops"}, "question:"),
        ("deploy", {"to": "here", "fast": True}, "deploy(to=here, fast=True)"),
        ("bash", {}, "bash:"),
    ],
)
def test_a_call_is_named_in_a_few_words(tool: str, input: dict[str, Any], expected: str) -> None:
    assert tool_call_text(tool, input) == expected


def test_an_edit_is_counted_and_its_diff_shown() -> None:
    diff = unified_diff("a.py", "one\ntwo\n-- old\n", "one\n2\n++ new\nthree\n")
    shown = completed("edit", {"filePath": "a.py"}, diff=diff)
    assert shown[0] == "edit a.py +3 -2"
    assert shown[1:3] == ["  a.py", "  @@ -1,3 +1,4 @@"]
    assert "  --- old" in shown
    assert "  +++ new" in shown


def test_a_write_without_changes_is_shown_as_nothing_to_change() -> None:
    assert completed("write", {"filePath": "a.py"}, diff="") == ["write a.py, nothing to change"]


@given(
    st.lists(st.sampled_from(["a", "b", "-- c", "++ d", "@@ e", ""]), max_size=12),
    st.lists(st.sampled_from(["a", "b", "-- c", "++ d", "@@ e", ""]), max_size=12),
)
def test_added_and_removed_lines_of_a_diff_are_counted_correctly(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    added, removed = (int(count[1:]) for count in diff_counts(unified_diff("f", before, after)).split())
    assert added - removed == len(new) - len(old)
    assert 0 <= added <= len(new)
    assert 0 <= removed <= len(old)


def test_a_long_diff_shows_the_number_of_lines_left_out() -> None:
    diff = unified_diff("a", "", "".join(f"{n}\n" for n in range(100)))
    lines = diff_lines(diff, 10)
    assert len(lines) == 10
    assert lines[-1] == ScreenLine("  … 93 more lines")
    assert lines[0].tone == "place"
    assert lines[1].tone == "place"
    assert lines[2].tone == "add"


def test_a_command_ends_with_its_exit_code_and_its_last_lines() -> None:
    output = "".join(f"\x1b[31mline {n}\x1b[0m\n" for n in range(9))
    shown = completed("bash", {"command": "make"}, output=output, exit=2)
    assert shown[0] == "bash: make -> exit 2"
    assert shown[1] == "  … 3 more above"
    assert shown[-1] == "  line 8"


def test_a_command_that_timed_out_is_shown_as_timed_out() -> None:
    assert completed("bash", {"command": "x"}, output="", exit=137, timedOut=True) == ["bash: x -> timed out"]


def test_a_progress_bar_is_shown_in_its_last_state() -> None:
    assert tail_lines("10%\r50%\r100%\r\ndone\n") == [ScreenLine("  100%"), ScreenLine("  done")]


@pytest.mark.parametrize(
    ("tool", "metadata", "expected"),
    [
        ("read", {"lines": 3}, "read a, 3 lines"),
        ("read", {"lines": 3, "truncated": True}, "read a, 3 lines and more"),
        ("read", {}, "read a"),
    ],
)
def test_a_read_is_shown_with_its_number_of_lines(tool: str, metadata: dict[str, Any], expected: str) -> None:
    assert completed(tool, {"filePath": "a"}, **metadata) == [expected]


def test_a_call_is_shown_according_to_its_state() -> None:
    running = part("deploy", ToolRunning(input={}, time=TIME))
    failed = part("edit", ToolFailed(input={"filePath": "a"}, error="no\nmatch", time=TIME))
    waits = part("deploy", ToolWaiting(input={}, pending_id=CallId("call_1"), time=TIME))
    pending = part("deploy", ToolPending(input={}, raw=""))
    assert start_lines(running) == [ScreenLine("deploy()")]
    assert start_lines(part("read", ToolRunning(input={"filePath": "a"}, time=TIME))) == []
    assert tool_lines(running) == [ScreenLine("deploy()")]
    assert tool_lines(failed) == [ScreenLine("edit a failed: no match")]
    assert tool_lines(waits) == [ScreenLine("deploy() waits: its result comes later")]
    assert tool_lines(pending) == []
    assert completed("deploy", {"v": 2}, "it is live") == ["deploy(v=2) -> it is live"]
    assert completed("question", {}, answers=[["a", "b"], ["c"]]) == ["question: -> a, b / c"]


@given(st.text("ab\n", max_size=60), st.integers(1, 20), st.data())
def test_live_output_of_which_only_the_end_arrives_is_shown_once(
    whole: str, window: int, data: st.DataObject
) -> None:
    """Distinct characters tell every place, so that nothing looks like a repetition."""
    text = "".join(chr(200 + place) for place in range(len(whole)))
    heard, shown, place = "", "", 0
    while place < len(text):
        place += data.draw(st.integers(1, window))
        now = text[:place][-window:]
        shown += new_output(heard, now)
        heard = now
    assert shown == text


def test_new_output_is_the_text_after_the_output_shown_before() -> None:
    assert new_output("llo wor", "hello world") == "ld"
    assert new_output("", "hello") == "hello"
    assert new_output("gone", "hello") == "hello"


def test_todos_are_a_checklist() -> None:
    todos = [
        Todo(content="read", status="completed", priority="high"),
        Todo(content="write", status="in_progress", priority="high"),
        Todo(content="test", status="pending", priority="low"),
        Todo(content="ship", status="cancelled", priority="low"),
    ]
    assert [line.text for line in todo_lines(todos)] == [
        "todos, 1 of 4 done:",
        "  [x] read",
        "  [>] write",
        "  [ ] test",
        "  [-] ship",
    ]
