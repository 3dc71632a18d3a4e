"""Tools and todos as they happen: each state once, those of children with a name, old ones not at all."""

import pytest

from asyncagents.cli.run.tool_view import ToolView
from asyncagents.cli.terminal.screen import Screen
from asyncagents.domain.call.ask import PermissionRequest, ToolRef
from asyncagents.domain.conversation.part import PartTime, ToolCompleted, ToolPart, ToolRunning, ToolState
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import PartUpdated, PermissionAsked, SessionCreated, TodoUpdated
from asyncagents.domain.id import MessageId, PartId, PermissionId, SessionId
from tests.support.domain.event import SESSION, entry, session, step

TIME = PartTime(start=1, end=2)
RUNS = ToolRunning(input={"command": "make"}, time=TIME)
ENDED = ToolCompleted(
    input={"command": "make"}, output="ok", title="", metadata={"output": "one\ntwo\n", "exit": 0}, time=TIME
)


def bash(state: ToolState, *, session_id: str = SESSION) -> PartUpdated:
    part = ToolPart(
        id=PartId("prt_1"),
        session_id=SessionId(session_id),
        message_id=MessageId("msg_1"),
        call_id="1",
        tool="bash",
        state=state,
    )
    return PartUpdated(session_id=SessionId(session_id), part=part, time=1)


def tools() -> ToolView:
    return ToolView(Screen(), SESSION, [session(SESSION, "Ship it")])


def test_each_state_of_a_call_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tools()
    for event in (bash(RUNS), bash(RUNS), bash(ENDED), bash(ENDED)):
        shown.show_event(event)
    assert capsys.readouterr().err == "bash: make\nbash: make -> exit 0\n  one\n  two\n"


def test_a_call_that_ended_before_the_run_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tools()
    part = bash(ENDED).part
    assert isinstance(part, ToolPart)
    shown.mark_known([entry(step("msg_1", done=True), part)])
    shown.show_event(bash(ENDED))
    assert capsys.readouterr().err == ""


def test_a_call_that_was_open_before_is_shown_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tools()
    part = bash(RUNS).part
    assert isinstance(part, ToolPart)
    shown.mark_known([entry(step("msg_1", done=True), part)])
    shown.show_event(bash(ENDED))
    assert "bash: make -> exit 0" in capsys.readouterr().err


def test_calls_of_children_are_marked_and_other_sessions_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = tools()
    child = session("ses_2", "Child session - 2026-01-01T00:00:00.000Z", parent_id=SESSION, agent="explore")
    shown.show_event(SessionCreated(session_id=child.id, info=child))
    shown.show_event(bash(RUNS, session_id="ses_2"))
    shown.show_event(bash(RUNS, session_id="ses_9"))
    assert capsys.readouterr().err == "[explore] bash: make\n"


def test_live_output_is_not_shown_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    live = ToolRunning(input={"command": "make"}, time=TIME, metadata={"output": "one\n"})
    shown = tools()
    shown.show_event(bash(live))
    assert capsys.readouterr().err == "bash: make\n"


def test_live_output_is_shown_line_by_line_and_each_line_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = tools()
    for output in ("on", "one\ntw", "one\ntwo"):
        shown.show_event(bash(ToolRunning(input={"command": "make"}, time=TIME, metadata={"output": output})))
    shown.show_event(bash(ENDED))
    assert capsys.readouterr().err == "bash: make\n  one\nbash: make -> exit 0\n  two\n"


def test_todos_are_shown_when_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tools()
    todos = (Todo(content="read", status="pending", priority="low"),)
    for each in (todos, todos, ()):
        shown.show_event(TodoUpdated(session_id=SESSION, todos=each))
    assert capsys.readouterr().err == "todos, 0 of 1 done:\n  [ ] read\n"


def test_a_command_shown_in_an_ask_is_not_shown_again_when_it_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = ToolView(Screen(), SESSION, [session(SESSION, "Ship it")], asked=True)
    request = PermissionRequest(
        id=PermissionId("per_1"),
        session_id=SESSION,
        permission="bash",
        patterns=("make",),
        metadata={"command": "make"},
        always=(),
        tool=ToolRef(message_id=MessageId("msg_1"), call_id="1"),
    )
    for event in (bash(RUNS), PermissionAsked(request=request), bash(ENDED)):
        shown.show_event(event)
    assert capsys.readouterr().err == "bash: make -> exit 0\n  one\n  two\n"


def test_a_command_without_an_ask_is_held_back_and_then_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = ToolView(Screen(), SESSION, [session(SESSION, "Ship it")], asked=True)
    shown.show_event(bash(RUNS))
    before = capsys.readouterr().err
    shown.show_held()
    assert before == ""
    assert capsys.readouterr().err == "bash: make\n"
    shown.show_event(bash(ENDED))
    assert capsys.readouterr().err == "bash: make -> exit 0\n  one\n  two\n"
