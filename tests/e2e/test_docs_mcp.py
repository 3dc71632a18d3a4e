"""docs/mcp.md is run: its server, its configuration, what it says is listed."""

import os
import re
import sys
from pathlib import Path

import pytest

from asyncagents.config.file.jsonc import parse
from asyncagents.testing.provider import Reply, ToolUse
from tests.support.process.command_line import open_desk

DOC = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)


@pytest.mark.spec("X-04", "X-07")
async def test_the_server_and_the_configuration_of_the_page_work_as_shown(tmp_path: Path) -> None:
    [server], [config, far], [listed] = blocks("python"), blocks("jsonc"), blocks("text")
    script = {
        "Keep it": [
            Reply(text="", tools=(ToolUse("notes_keep", {"text": "buy milk"}),)),
            Reply(text="", tools=(ToolUse("notes_find", {"word": "milk"}),)),
            Reply(text="Kept."),
        ]
    }
    async with open_desk(tmp_path, script) as (desk, provider):
        (desk.project / "server.py").write_text(server)
        desk.configure(**parse(config, "docs/mcp.md"))
        shown = await desk.run("mcp", "list", env={"PATH": PATH})
        ran = await desk.run("run", "Keep it", "--allow", "notes_keep", env={"PATH": PATH})
        found = [message["content"] for message in provider.requests[-1].body["messages"]]
        desk.configure(**parse(far, "docs/mcp.md"))
        settings = await desk.run("config", "--json", env={"ISSUES_TOKEN": "secret-of-issues"})
    assert shown.out == listed
    assert shown.err == ""
    assert shown.code == 0
    assert ran.out == "Kept.\n", ran.err
    assert ran.code == 0, ran.err
    assert found[-1] == "buy milk"
    assert settings.code == 0
    assert "secret-of-issues" not in settings.out
