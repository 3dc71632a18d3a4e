"""The code of docs/tools.md and docs/plugins.md is run, and typed; so is the agent of docs/agents.md."""

from pathlib import Path

import pytest

from asyncagents.config.untrusted_settings import TRUST_VARIABLE
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.plugins.load import HOOK_NAMES
from asyncagents.testing.inside import inside
from tests.support.page import code_blocks
from tests.support.path import DOCS
from tests.support.runtime import EventListener, open_runtime


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With all that the pages write, in a home where nothing else is."""
    root = tmp_path / "project"
    for number, code in enumerate(code_blocks("tools.md")):
        _write(root / f".asyncagents/tools/page_{number}.py", code)
    (plugin,) = code_blocks("plugins.md")
    _write(root / ".asyncagents/plugins/house_rules.py", plugin)
    (agent,) = code_blocks("agents.md", "markdown")
    _write(root / ".asyncagents/agents/review.md", agent)
    _write(root / "asyncagents.json", '{"permission": {"catalogue": {"*": "ask", "tmp/*": "allow"}}}')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    return root


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.spec("A-06", "A-09", "X-07")
async def test_the_code_of_the_pages_works_in_a_session(project: Path, tmp_path: Path) -> None:
    calls = [
        call("weather", city="Ulm"),
        call("import_file", path="a.csv"),
        call("motto"),
        call("bash", command="rm -rf x"),
        call("deploy", target="prod"),
    ]
    model = ScriptedModel({"go": [calls, [say("Done.")]], "forget": [[call("forget", path="a")]]})
    async with open_runtime(tmp_path / "data", model=model, coding="each directory") as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            listener = EventListener(subscription)
            session = await runtime.create_session(directory=project)
            await runtime.prompt(session.id, "go", agent="build")
            (waiting,) = await runtime.open_calls(session.id)
            await runtime.complete(waiting.id, "up")
            await runtime.wait(session.id)
            *_, last = await runtime.messages(session.id)
            await runtime.send(session.id, "forget")
            asked = await listener.until(PermissionAsked)
            await runtime.abort(session.id)
        entries = await runtime.messages(session.id)
        parts = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
        workplace = await runtime.workplace(project)
        reports = await runtime.plugins(project)

    states = {part.tool: part.state for part in parts}
    weather, imported, refused = states["weather"], states["import_file"], states["bash"]
    assert isinstance(weather, ToolCompleted)
    assert weather.output == '{"city":"Ulm","days":3,"sky":"clear"}'
    assert isinstance(imported, ToolCompleted)
    assert imported.output.startswith("imported a.csv under the key ")
    assert imported.title == "Importing a.csv"
    assert imported.metadata == {"percent": 90}
    assert isinstance(states["motto"], ToolCompleted)
    assert isinstance(refused, ToolFailed)
    assert refused.error == "Not here: move it to the trash instead."
    assert last.text == "Done.\n\n(the house)"
    assert asked.request.permission == "catalogue"
    assert asked.request.patterns == ("a",)
    assert [report.error for report in reports] == [None]
    assert workplace.brief("review", None).steps == 20


def test_every_hook_has_its_line_on_the_page() -> None:
    page = (DOCS / "plugins.md").read_text(encoding="utf-8")
    assert [name for name in HOOK_NAMES if f"| `{name}` |" not in page] == []
