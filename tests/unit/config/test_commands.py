"""Commands in files and in the configuration: the nearest wins, and what is broken stops nothing else."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from asyncagents.config.config import CommandConfig
from asyncagents.config.markdown.commands import CommandDefinition, FoundCommands, find_commands
from asyncagents.config.untrusted_settings import UntrustedSettings
from asyncagents.domain.conversation.message import ModelRef
from tests.support.environment import ConfigDesk

FULL = """---
description: Reviews a change
agent: plan
model: anthropic/claude-sonnet-4-5
variant: high
subtask: true
---

Review $1.
"""


def commands(
    desk: ConfigDesk,
    *,
    directory: Path | None = None,
    trusted: bool = True,
    configured: Mapping[str, CommandConfig] | None = None,
) -> FoundCommands:
    return find_commands(
        desk.environment, directory or desk.project, trusted=trusted, configured=configured or {}
    )


def test_every_field_of_a_command_is_read_from_its_file(desk: ConfigDesk) -> None:
    path = desk.write(".asyncagents/commands/review.md", FULL)
    config = CommandConfig(
        template="Review $1.",
        description="Reviews a change",
        agent="plan",
        model=ModelRef(provider_id="anthropic", model_id="claude-sonnet-4-5"),
        variant="high",
        subtask=True,
    )
    command = CommandDefinition(name="review", config=config, scope="project", origin=path)
    found = commands(desk)
    assert found == FoundCommands(
        commands={"review": command}, untrusted=UntrustedSettings(str(desk.project))
    )


def test_a_command_needs_no_head(desk: ConfigDesk) -> None:
    desk.write("~/.config/asyncagents/commands/a.md", "\r\nDo $ARGUMENTS.\r\n---\r\nNow.\r\n")
    found = commands(desk)
    assert found.commands["a"].config == CommandConfig(template="Do $ARGUMENTS.\n---\nNow.")
    assert found.commands["a"].scope == "user"
    assert found.all_warnings == ()


def test_the_nearest_file_of_a_name_wins(desk: ConfigDesk) -> None:
    places = [
        "inner/.asyncagents/commands/a.md",
        "inner/.claude/commands/a.md",
        ".asyncagents/commands/a.md",
        ".agents/commands/a.md",
        ".opencode/command/a.md",
        ".opencode/commands/a.md",
        ".claude/commands/a.md",
        "~/.config/asyncagents/commands/a.md",
        "~/.config/opencode/command/a.md",
        "~/.config/opencode/commands/a.md",
        "~/.claude/commands/a.md",
    ]
    (desk.project / ".git").mkdir()
    paths = [desk.write(place, f"Text of {place}") for place in places]
    for place, path in zip(places, paths, strict=True):
        found = commands(desk, directory=desk.project / "inner").commands["a"]
        assert found.origin == path
        assert found.config.template == f"Text of {place}"
        path.unlink()
    assert commands(desk, directory=desk.project / "inner").commands == {}


def test_the_configuration_is_laid_over_the_files(desk: ConfigDesk) -> None:
    desk.write("asyncagents.json", {"command": {"a": {"template": "Ours"}, "c": {"template": "Third"}}})
    desk.write(".asyncagents/commands/a.md", "---\nodd: 1\n---\nTheirs")
    path = desk.write(".asyncagents/commands/b.md", "Second")
    found = commands(desk, configured=desk.load().config.command)
    told = {name: (each.config.template, each.scope, each.origin) for name, each in found.commands.items()}
    assert told == {
        "a": ("Ours", "config", None),
        "b": ("Second", "project", path),
        "c": ("Third", "config", None),
    }
    assert found.warnings == ()


def test_a_command_in_a_folder_is_called_with_a_slash_or_a_colon(desk: ConfigDesk) -> None:
    desk.write(".claude/commands/team/web/fix.md", "Fix")
    found = commands(desk, configured={"x:y": CommandConfig(template="Exact")})
    assert found.get("team/web/fix") == found.get("team:web:fix") == found.commands["team/web/fix"]
    assert found.get("x:y") == found.commands["x:y"]
    assert found.get("x/y") is found.get("fix") is None


@pytest.mark.parametrize("hint", ["[number] [title]", "<file>", "@file", '"[a]"', "[open", "a: b # c", ""])
def test_keys_that_only_claude_code_uses_are_ignored_with_a_warning(desk: ConfigDesk, hint: str) -> None:
    path = desk.write(
        ".claude/commands/x.md",
        f"---\nargument-hint: {hint}\nallowed-tools: Bash(git add:*), Read\nmodel: sonnet\n"
        "description: Does: things\n---\nargument-hint: [stays] [here]",
    )
    found = commands(desk)
    assert found.commands["x"].config == CommandConfig(
        template="argument-hint: [stays] [here]", description="Does: things"
    )
    assert found.warnings == (
        f"{path}: the key argument-hint of Claude Code is ignored here",
        f"{path}: the key allowed-tools of Claude Code is ignored here",
        f"{path}: the model 'sonnet' names no provider: the session's own model is used",
    )


def test_an_unknown_key_is_warned_of_and_the_body_is_the_template(desk: ConfigDesk) -> None:
    path = desk.write(".opencode/command/x.md", "---\ntemplate: No\nagnet: plan\n---\nYes")
    found = commands(desk)
    assert found.commands["x"].config == CommandConfig(template="Yes")
    assert found.all_warnings == (
        f"{path}: the key template is unknown and is ignored: remove it or correct its name",
        f"{path}: the key agnet is unknown and is ignored: remove it or correct its name",
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bad", "", "has no text"),
        ("bad", "---\ndescription: x\n---\n", "has no text"),
        ("bad", "---\ndescription: x\n", "the head is not closed"),
        ("bad", "---\nsubtask: perhaps\n---\nx", "subtask must be true or false"),
        ("bad", "---\nagent: [a]\n---\nx", "agent must be a string, not a list"),
        ("bad", "---\nmodel: gpt\n---\nx", "write it as provider/model"),
        ("bad", "x" * (256 * 1024 + 1), "shorten it"),
        ("two words", "x", "cannot be typed"),
        ("-x", "x", "cannot be typed"),
    ],
)
def test_a_broken_command_file_is_reported_and_the_others_are_loaded(
    desk: ConfigDesk, name: str, text: str, reason: str
) -> None:
    path = desk.write(f".asyncagents/commands/{name}.md", text)
    desk.write(".asyncagents/commands/good.md", "Good")
    found = commands(desk)
    assert set(found.commands) == {"good"}
    assert [broken.path for broken in found.broken] == [path]
    assert reason in found.broken[0].reason
    assert found.all_warnings == (f"{path} {found.broken[0].reason}",)


def test_a_file_that_cannot_be_read_as_text_is_broken(desk: ConfigDesk) -> None:
    path = desk.write(".asyncagents/commands/bad.md", "")
    path.write_bytes(b"\xff")
    (path.parent / "gone.md").symlink_to("nowhere.md")
    assert [broken.path.name for broken in commands(desk).broken] == ["bad.md", "gone.md"]


def test_a_broken_file_does_not_hide_a_farther_one(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/commands/a.md", "")
    far = desk.write("~/.claude/commands/a.md", "Far")
    assert commands(desk).commands["a"].origin == far


def test_a_link_out_of_a_project_that_is_not_trusted_is_not_followed(
    desk: ConfigDesk, tmp_path: Path
) -> None:
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "disk" / "deep" / "secret-name.md").write_text("Go.")
    desk.write("commands/near.md", "Near.")
    for name, target in ((".asyncagents", tmp_path / "disk"), (".claude", desk.project / "commands")):
        (desk.project / name).mkdir(exist_ok=True)
        (desk.project / name / "commands").symlink_to(target)
    found = commands(desk, trusted=False)
    assert list(found.untrusted_files) == ["near"]
    assert "secret-name" not in "".join(found.all_warnings)
    assert set(commands(desk).commands) == {"deep/secret-name", "near"}


def test_commands_of_a_project_that_is_not_trusted_count_for_nothing(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/commands/evil.md", "---\nmode: [\n---\n")
    desk.write(".claude/commands/worse.md", "!`id`")
    desk.write("~/.config/asyncagents/commands/mine.md", "Mine")
    found = commands(desk, trusted=False)
    assert set(found.commands) == {"mine"}
    assert found.broken == ()
    assert len(found.warnings) == 1
    assert "2 command files" in found.warnings[0]
    assert f"asyncagents trust {desk.project}" in found.warnings[0]
