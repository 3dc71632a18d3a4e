"""Names of served tools, what is kept of complaints, and answers in words."""

import base64

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.server.mcpserver import MCPServer

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.result_file import MOST_FILES, MOST_IMAGE_BYTES, ResultFile
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.connection import TAIL_LINE_CHARS, TAIL_LINES, LogTail
from asyncagents.tools.mcp.content import prompt_of, result_of
from asyncagents.tools.mcp.sdk_session import _build_tool, _effect
from asyncagents.tools.mcp.servers import tool_name
from asyncagents.tools.mcp.task_extension import (
    NO_USABLE_ID,
    CreatedTask,
    read_task,
    send_cancel,
    server_task,
)
from tests.support.mcp.server import DOT


@given(st.text(), st.text())
def test_any_name_becomes_one_that_providers_take(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert 1 <= len(name) <= 64
    assert name.isascii()
    assert name.replace("_", "").replace("-", "").isalnum() or not name.strip("_-")


def test_long_names_stay_apart() -> None:
    assert tool_name("s", "x" * 80) != tool_name("s", "x" * 81)


@given(st.lists(st.text(), max_size=40))
def test_the_kept_log_of_a_server_is_bounded(texts: list[str]) -> None:
    tail = LogTail(())
    for text in texts:
        tail.feed(text)
    assert len(tail.lines) <= TAIL_LINES + 1
    assert all(line and len(line) <= TAIL_LINE_CHARS and "\n" not in line for line in tail.lines)


def test_the_last_complaints_are_kept_without_secrets_and_control_characters() -> None:
    tail = LogTail(("secret-value", "short"))
    for number in range(100):
        tail.feed(f"line {number}\n")
    tail.feed("the secret-")
    tail.feed("value is \x1b[31mshort\x07\nand half a l")
    assert tail.lines[-2:] == ("the … is  [31mshort", "and half a l")
    assert tail.lines[0] == f"line {100 - TAIL_LINES + 1}"


def test_no_half_of_a_secret_is_left_where_a_long_line_is_cut() -> None:
    tail = LogTail(("secret-value",))
    tail.feed("secret-value" + "x" * (TAIL_LINE_CHARS - 5))
    assert "value" not in tail.lines[0]


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, "once"),
        (types.ToolAnnotations(), "once"),
        (types.ToolAnnotations(idempotent_hint=True), "idempotent"),
        (types.ToolAnnotations(read_only_hint=True, idempotent_hint=True), "none"),
        (types.ToolAnnotations(read_only_hint=False, destructive_hint=False), "once"),
    ],
)
def test_annotations_may_lower_the_effect(hints: types.ToolAnnotations | None, effect: str) -> None:
    assert _effect(hints) == effect


def test_a_schema_is_passed_on_as_an_object() -> None:
    tool = _build_tool(types.Tool(name="t", input_schema={"$schema": "x", "required": ["a"]}))
    assert tool.parameters == {"type": "object", "properties": {}, "required": ["a"]}
    assert tool.description == "t"


def test_references_of_a_server_are_replaced_unless_they_are_recursive() -> None:
    flat = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    deep = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}}
    top = {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"type": "string"}}, "type": "object"}}}

    parameters = [
        _build_tool(types.Tool(name="t", input_schema=each)).parameters for each in (flat, deep, top)
    ]
    assert parameters[0] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert parameters[1] == {"type": "object", **deep}
    assert parameters[2] == parameters[0]


def test_the_contents_of_an_answer_become_a_text() -> None:
    data = base64.b64encode(b"12345").decode()
    blob = types.BlobResourceContents(uri="a://b", mime_type="x/y", blob=data)
    result = types.CallToolResult(
        content=[
            types.TextContent(text="one"),
            types.AudioContent(data=data, mime_type="audio/wav"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="a://t", text="inside")),
            types.EmbeddedResource(resource=blob),
            types.ResourceLink(uri="a://l", name="linked", description="more"),
        ],
        structured_content={"not": "told"},
    )
    assert result_of(result) == Completed(
        "one\n"
        "[audio audio/wav, 5 bytes; it is not shown here]\n"
        "[resource a://t]\ninside\n"
        "[resource a://b, x/y, 5 bytes; it is not shown here]\n"
        "[resource a://l: linked, more]"
    )


@pytest.mark.spec("X-04")
def test_images_and_documents_of_an_answer_are_files() -> None:
    pdf = base64.b64encode(b"%PDF-1.7\n%%EOF").decode()
    blob = types.BlobResourceContents(uri="a://b/plot.png", blob=DOT)
    paper = types.BlobResourceContents(uri="a://paper.pdf", mime_type="application/pdf", blob=pdf)
    result = types.CallToolResult(
        content=[
            types.ImageContent(data=DOT, mime_type="image/jpeg"),
            types.EmbeddedResource(resource=blob),
            types.EmbeddedResource(resource=paper),
        ]
    )
    url = f"data:image/png;base64,{DOT}"
    assert result_of(result) == Completed(
        "[image image/jpeg, 70 bytes]\n"
        "[resource a://b/plot.png, of unknown kind, 70 bytes]\n"
        "[resource a://paper.pdf, application/pdf, 14 bytes]",
        files=(
            ResultFile("image/png", url),
            ResultFile("image/png", url, "plot.png"),
            ResultFile("application/pdf", f"data:application/pdf;base64,{pdf}", "paper.pdf"),
        ),
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("iVBORw0KGgo=", "the image is cut short or broken"),
        (base64.b64encode(b"<svg/>").decode(), "it is neither a PNG"),
        ("%%%", "its base64 is broken"),
        (base64.b64encode(base64.b64decode(DOT) + bytes(MOST_IMAGE_BYTES)).decode(), "it is larger than"),
    ],
    ids=["cut", "svg", "base64", "large"],
)
def test_an_image_that_no_model_accepts_is_described_in_the_output(data: str, why: str) -> None:
    done = result_of(types.CallToolResult(content=[types.ImageContent(data=data, mime_type="image/png")]))
    assert isinstance(done, Completed)
    assert done.files == ()
    assert f"bytes; it is not shown here: {why}" in done.output


def test_the_number_of_files_of_a_result_is_limited() -> None:
    images: list[types.ContentBlock] = [types.ImageContent(data=DOT, mime_type="image/png")] * (
        MOST_FILES + 1
    )
    done = result_of(types.CallToolResult(content=images))
    assert isinstance(done, Completed)
    assert len(done.files) == MOST_FILES
    assert done.output.endswith(f"it is not shown here: a result has at most {MOST_FILES} files]")


def test_an_image_of_a_failure_is_described_in_the_error() -> None:
    image = types.ImageContent(data=DOT, mime_type="image/png")
    failed = result_of(types.CallToolResult(content=[image], is_error=True))
    assert failed == Failed("[image image/png, 70 bytes; it is not shown here]")


def test_an_answer_without_words_is_its_structure() -> None:
    structured = types.CallToolResult(content=[], structured_content={"a": [1, None]})
    assert result_of(structured) == Completed('{"a":[1,null]}')
    assert result_of(types.CallToolResult(content=[])) == Completed("(the tool said nothing)")


def test_an_error_answer_is_a_failure() -> None:
    result = types.CallToolResult(content=[types.TextContent(text="no")], is_error=True)
    assert result_of(result) == Failed("no")


def test_a_prompt_with_several_roles_names_them() -> None:
    hello = types.PromptMessage(role="user", content=types.TextContent(text="Hello"))
    answer = types.PromptMessage(role="assistant", content=types.TextContent(text="Hi"))
    assert [each.text for each in prompt_of(types.GetPromptResult(messages=[hello]))] == ["Hello"]
    both = prompt_of(types.GetPromptResult(messages=[hello, answer]))
    assert [each.text for each in both] == ["user: Hello", "assistant: Hi"]


async def test_a_server_that_offers_no_tasks_any_more_has_not_lost_them() -> None:
    async with Client(MCPServer("plain")) as client:
        for asked in (read_task(client, "kit", "task-1"), send_cancel(client, "task-1")):
            with pytest.raises(ToolError, match="does not offer tasks at the moment"):
                await asked


@pytest.mark.parametrize("task_id", ["", "x" * 1_001, "a\0b", "a\ud800"])
def test_a_task_without_a_usable_id_is_in_doubt(task_id: str) -> None:
    created = CreatedTask(resultType="task", taskId=task_id)
    assert server_task("kit", created) == Failed(NO_USABLE_ID, metadata={"inDoubt": True})


@pytest.mark.parametrize(("wanted", "polled"), [(None, 1_000), (10, 1_000), (5_000, 5_000), (10**9, 60_000)])
def test_the_interval_of_a_server_is_kept_within_limits(wanted: int | None, polled: int) -> None:
    created = CreatedTask(resultType="task", taskId="task-1", pollIntervalMs=wanted)
    assert server_task("kit", created) == ServerTask(server="kit", id="task-1", poll_ms=polled)
