"""`asyncagents plugins`, `tools` and `trust` over a project with code of its own; sessions that use it."""

from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply, ToolUse
from tests.support.process.command_line import Desk, open_desk

PLUGIN = """
async def plugin(context):
    async def sign(input, output):
        output["text"] += " (signed)"
    return {"experimental.text.complete": sign}
"""
TOOL = """
from asyncagents import tool

@tool(effect="none")
def greet(name: str) -> str:
    "Greet someone."
    return f"Good day, {name}."
"""
UNTRUSTED = {"ASYNCAGENTS_TRUST": ""}


def write(desk: Desk, name: str, text: str) -> Path:
    file = desk.project / ".asyncagents" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.spec("A-06", "X-06")
async def test_plugins_and_tools_are_listed_with_their_errors(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        none = await desk.run("plugins")
        write(desk, "plugins/good.py", f"print('a plugin talks')\n{PLUGIN}")
        write(desk, "plugins/bad.py", "import nothing_of_that_name")
        write(desk, "tools/greet.py", TOOL)
        broken = write(desk, "tools/broken.py", "def (")
        listed = await desk.run("plugins")
        rows = await desk.run("plugins", "--json")
        tools = await desk.run("tools")
        assert not desk.data.exists()

    assert none.code == 0
    assert none.out == "There are no plugins here; docs/plugins.md says how to write one.\n"
    assert listed.code == 0
    assert tools.code == 0
    assert "experimental.text.complete" in listed.out
    assert "error: cannot be imported: ModuleNotFoundError" in " ".join(listed.out.split())
    assert [(row["name"], row.get("error") is None) for row in rows.json] == [("bad", False), ("good", True)]
    assert "Greet someone." in tools.out
    assert f"warning: {broken} cannot be imported: SyntaxError" in " ".join(tools.err.split())


@pytest.mark.spec("A-06", "X-06")
async def test_a_run_uses_plugins_and_tools_only_of_a_trusted_project(tmp_path: Path) -> None:
    script = {"Hello": [Reply(text="", tools=(ToolUse("greet", {"name": "Ada"}),)), Reply(text="Done.")]}
    async with open_desk(tmp_path, script, otherwise=Reply(text="Plain.")) as (desk, _):
        write(desk, "plugins/good.py", PLUGIN)
        write(desk, "tools/greet.py", TOOL)
        trusted = await desk.run("run", "Hello", "--allow", "greet")
        asked = await desk.run("trust", env=UNTRUSTED)
        await desk.run("trust", "--remove", env=UNTRUSTED)
        listed = await desk.run("plugins", env=UNTRUSTED)

    assert trusted.out == "Done. (signed)\n"
    assert "greet.py: tools = " in asked.out
    assert "good.py: plugins = " in asked.out
    assert "There are no plugins here" in listed.out
    assert "this project is not trusted, so asyncagents ignores 1 plugin file in it" in listed.err
