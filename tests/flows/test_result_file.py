"""Files beside the results of tools, over real HTTP on both wires: what a provider is sent, and exports."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from asyncagents import Completed, ResultFile, tool
from asyncagents.archive.import_ import import_from
from asyncagents.config.config import Config
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import call, say
from asyncagents.testing.provider import Reply, ToolUse, open_provider
from tests.support.mcp.server import DOT
from tests.support.provider import PROVIDER_KEY, each_wire, provider_config
from tests.support.runtime import open_runtime, open_stage
from tests.support.tool import ECHO
from tests.support.transfer import export_files, open_other_store
from tests.support.wait import PATIENCE

PNG = base64.b64decode(DOT)
URL = f"data:image/png;base64,{DOT}"


@tool
async def plot() -> Completed:
    """Draw a plot."""
    return Completed("A plot.", files=(ResultFile.from_bytes(PNG, "plot.png"),))


def images_sent(wire: str, body: dict[str, Any]) -> list[str]:
    """The images of a request, each as the URL it would be, where the wire wants them."""
    if wire == "chat":
        roles = [message["role"] for message in body["messages"]]
        assert roles[-3:] == ["tool", "tool", "user"]
        shown = body["messages"][-1]["content"]
        return [part["image_url"]["url"] for part in shown if part["type"] == "image_url"]
    results = [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]
    assert len(results) == 2
    blocks = [block for block in results[0]["content"] if block["type"] == "image"]
    sources = [block["source"] for block in blocks]
    return [f"data:{source['media_type']};base64,{source['data']}" for source in sources]


@each_wire
@pytest.mark.spec("X-04", "C-02")
async def test_an_image_of_a_result_is_sent_to_the_provider(tmp_path: Path, wire: str) -> None:
    steps = [Reply(tools=(ToolUse("plot", {}), ToolUse("echo", {"text": "b"}))), Reply(text="A dot.")]
    async with (
        open_provider({"go": steps, "and?": [Reply(text="Nothing else.")]}, key=PROVIDER_KEY) as provider,
        open_runtime(
            tmp_path, model=f"{wire}/small", config=provider_config(provider, tmp_path), tools=[plot, ECHO]
        ) as runtime,
        asyncio.timeout(PATIENCE),
    ):
        session = await runtime.create_session(directory=tmp_path)
        assert (await runtime.prompt(session.id, "go")).text == "A dot."
        assert (await runtime.prompt(session.id, "and?")).text == "Nothing else."
        _, second, third = (seen.body for seen in provider.requests)
    assert images_sent(wire, second) == [URL]
    sent, again = (str(body["messages"]) for body in (second, third))
    assert sent.count(DOT) == again.count(DOT) == 1


@pytest.mark.spec("P-13")
async def test_files_of_a_result_go_with_an_export(tmp_path: Path) -> None:
    script = {"go": [[call("plot")], [say("A dot.")]], "and?": [[say("Yes.")]]}
    async with open_stage(tmp_path / "a", script, tools=[plot]) as at:
        await at.prompt("go")
        before = await export_files(at.runtime, tmp_path / "files", at.session_id)
    assert sum(content.count(DOT.encode()) for content in before.values()) == 1
    async with open_other_store(tmp_path / "b", script, plot) as (runtime, model):
        await import_from(runtime, tmp_path / "files")
        await runtime.prompt(at.session_id, "and?")
    (result,) = [each for each in model.requests[-1].messages if isinstance(each, ToolTurn)]
    assert [(file.url, file.filename) for file in result.files] == [(URL, "plot.png")]


async def test_the_model_sees_an_image_that_it_reads(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "dot.png").write_bytes(PNG)
    script = {"go": [[call("read", filePath="dot.png")], [say("A dot.")]]}
    coding = Config(data_dir=tmp_path / "data")
    async with open_stage(tmp_path / "data", script, coding=coding, directory=root) as at:
        await at.prompt("go")
    (result,) = [each for each in at.request_messages() if isinstance(each, ToolTurn)]
    assert result.output == "dot.png: image/png, 1 x 1 pixels, 70 bytes."
    assert [(file.url, file.filename) for file in result.files] == [(URL, "dot.png")]
