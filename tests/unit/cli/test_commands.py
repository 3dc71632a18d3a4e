"""`asyncagents commands`: what there is, where it comes from, and why some of it cannot be used."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from asyncagents.config.trust import distrust_project, trust_project
from tests.support.environment import ConfigDesk

Invoke = Callable[..., Result]
CONFIG = {"command": {"fix": {"template": "Fix $1", "description": "Fixes", "subtask": True}}}


@pytest.mark.spec("S-08")
def test_commands_are_listed_with_where_they_come_from(invoke: Invoke, desk: ConfigDesk) -> None:
    folder = desk.home / ".config" / "asyncagents" / "commands"
    folder.mkdir(parents=True)
    (folder / "go.md").write_text("---\ndescription: Goes\nagent: plan\n---\nGo to $ARGUMENTS")
    ended = invoke("commands")
    assert ended.exit_code == 0
    head, compact, init, review, go = ended.stdout.splitlines()
    assert head.split() == ["command", "arguments", "agent", "from"]
    assert compact.startswith("/compact")
    assert init.split()[:3] == ["/init", "-", "-"]
    assert review.split()[:5] == ["/review", "$ARGUMENTS", "general,", "as", "a"]
    assert go.split() == ["/go", "$ARGUMENTS", "plan", str(folder / "go.md"), "Goes"]


@pytest.mark.spec("S-08")
def test_an_unusable_command_is_named_with_the_reason(invoke: Invoke, desk: ConfigDesk) -> None:
    distrust_project(desk.environment, desk.project)
    desk.write("asyncagents.json", CONFIG)
    folder = desk.project / ".asyncagents" / "commands"
    folder.mkdir(parents=True)
    (folder / "go.md").write_text("---\nagent: 3\n---\nGo")
    strange = invoke("commands")
    assert "/fix" not in strange.stdout
    assert f"not usable: {folder / 'go.md'}: its project is not trusted" in strange.stderr
    trust_project(desk.environment, desk.project)
    broken = json.loads(invoke("commands", "--json").stdout)
    assert [row["name"] for row in broken] == ["compact", "init", "review", "fix", "go"]
    assert broken[3] == {
        "name": "fix",
        "source": "config",
        "description": "Fixes",
        "hints": ["$1"],
        "subtask": True,
    }
    assert "agent" in broken[4]["why_not"]
