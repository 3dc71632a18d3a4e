"""Tool parts become tool calls that a person recognises."""

from typing import Any

import pytest

from asyncagents.acp.shape import DiffContent, ShownContent
from asyncagents.acp.tool_call import MAX_OUTPUT, call_locations, call_title, show_call, tool_kind
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
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId

TIME = PartTime(start=0)


def build_part(tool: str, state: ToolState) -> ToolPart:
    return ToolPart(
        id=PartId("prt_1"),
        session_id=SessionId("ses_1"),
        message_id=MessageId("msg_1"),
        call_id="call_1",
        tool=tool,
        state=state,
    )


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("read", "read"),
        ("edit", "edit"),
        ("bash", "execute"),
        ("grep", "search"),
        ("webfetch", "fetch"),
        ("my_tool", "other"),
    ],
)
def test_the_kind_of_a_call_follows_its_tool(tool: str, kind: str) -> None:
    assert tool_kind(tool) == kind


@pytest.mark.parametrize(
    ("shown", "kind"), [("edit", "edit"), ("delete", "delete"), ("switch_mode", "other")]
)
def test_the_kind_and_files_of_an_external_call_are_those_that_its_agent_showed(
    shown: str, kind: str
) -> None:
    metadata = {"kind": shown, "paths": ["a.txt", "/tmp/b"]}
    state = ToolCompleted(input={"x": 1}, output="", title="", metadata=metadata, time=TIME)
    call = show_call(build_part("external:apply", state), "/p")

    assert call.kind == kind
    assert [each.path for each in call.locations] == ["/p/a.txt", "/tmp/b"]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (ToolPending(input={}, raw=""), "pending"),
        (ToolRunning(input={}, time=TIME), "in_progress"),
        (ToolWaiting(input={}, pending_id=CallId("tool_1"), time=TIME), "in_progress"),
        (ToolCompleted(input={}, output="x", title="", metadata={}, time=TIME), "completed"),
        (ToolFailed(input={}, error="x", time=TIME), "failed"),
    ],
)
def test_each_state_of_a_call_has_a_status(state: ToolState, status: str) -> None:
    assert show_call(build_part("read", state), "/p").status == status


@pytest.mark.parametrize(
    ("tool", "arguments", "title"),
    [
        ("bash", {"command": "ls\n-l"}, "ls -l"),
        ("read", {"filePath": "a.txt"}, "read a.txt"),
        ("grep", {"pattern": "x", "path": "."}, "grep x"),
        ("unknown", {}, "unknown"),
    ],
)
def test_a_title_names_the_command_file_or_pattern(tool: str, arguments: dict[str, Any], title: str) -> None:
    assert call_title(tool, arguments) == title


def test_an_edit_shows_its_diff_with_an_absolute_path() -> None:
    arguments = {"filePath": "a.txt", "oldString": "x", "newString": "y"}
    state = ToolCompleted(input=arguments, output="done", title="", metadata={}, time=TIME)
    (content,) = show_call(build_part("edit", state), "/p/").content

    assert content == DiffContent(path="/p/a.txt", old_text="x", new_text="y")


def test_a_long_output_is_cut() -> None:
    state = ToolCompleted(input={}, output="x" * 200_000, title="", metadata={}, time=TIME)
    (content,) = show_call(build_part("read", state), "/p").content

    assert isinstance(content, ShownContent)
    assert len(content.content.text) <= MAX_OUTPUT + 100


def test_an_output_with_a_fence_is_enclosed_in_a_longer_one() -> None:
    state = ToolCompleted(input={}, output="```\nx\n```", title="", metadata={}, time=TIME)
    (content,) = show_call(build_part("bash", state), "/p").content

    assert isinstance(content, ShownContent)
    assert content.content.text.startswith("````console\n")


@pytest.mark.parametrize("line", [True, -1, "3", 2**32])
def test_a_location_has_a_line_only_if_it_is_a_line_number(line: Any) -> None:
    (location,) = call_locations("read", {"filePath": "a", "offset": line}, "/p")

    assert location.line is None
