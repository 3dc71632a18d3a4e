"""Agents, skills and instructions in files: the nearest wins, and what is broken stops nothing else."""

import os
from pathlib import Path

import pytest

from asyncagents.config.config import AgentConfig
from asyncagents.config.markdown.agents import FoundAgents, find_agents
from asyncagents.config.markdown.instructions import MAX_ALL, MAX_CHARACTERS, Instructions, find_instructions
from asyncagents.config.markdown.skills import FoundSkills, find_skills, read_skill
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ToolError
from tests.support.environment import ConfigDesk

FULL = """---
description: Reviews code
mode: subagent
model: anthropic/claude-sonnet-4-5
variant: high
temperature: 0.2
top_p: 1
maxSteps: 7
hidden: true
disable: false
color: "#ff0000"
tools:
  write: false
permission:
  bash:
    "*": ask
    git *: allow
reasoning: deep
---
You review code.
"""


def agents(desk: ConfigDesk, *, directory: Path | None = None, trusted: bool = True) -> FoundAgents:
    return find_agents(desk.environment, directory or desk.project, trusted=trusted)


def skills(desk: ConfigDesk, *, trusted: bool = True) -> FoundSkills:
    return find_skills(desk.environment, desk.project, trusted=trusted)


def instructions(desk: ConfigDesk, *patterns: str, directory: Path | None = None) -> Instructions:
    return find_instructions(desk.environment, directory or desk.project, patterns)


def described(text: str) -> str:
    return f"---\ndescription: {text}\n---\n{text}!"


@pytest.mark.spec("A-02")
def test_every_field_of_an_agent_is_read_from_its_file(desk: ConfigDesk) -> None:
    path = desk.write(".asyncagents/agents/review.md", FULL)
    found = agents(desk)
    agent = found.agents["review"]
    assert agent.origin == path
    assert agent.color == "#ff0000"
    assert found.broken == ()
    assert agent.config == AgentConfig(
        description="Reviews code",
        mode="subagent",
        model=ModelRef(provider_id="anthropic", model_id="claude-sonnet-4-5"),
        variant="high",
        temperature=0.2,
        top_p=1,
        steps=7,
        prompt="You review code.",
        hidden=True,
        disable=False,
        tools={"write": False},
        permission={"edit": "deny", "bash": {"*": "ask", "git *": "allow"}},
        options={"reasoning": "deep"},
    )
    assert found.warnings == (
        f"{path}: the key reasoning is unknown and is handed to the model as an option: "
        "remove it or correct its name",
    )


@pytest.mark.spec("A-02")
def test_the_nearest_file_of_a_name_wins(desk: ConfigDesk) -> None:
    places = [
        "inner/.asyncagents/agents/a.md",
        "inner/.claude/agents/a.md",
        ".asyncagents/agents/a.md",
        ".agents/agents/a.md",
        ".opencode/agent/a.md",
        ".opencode/agents/a.md",
        ".claude/agents/a.md",
        "~/.config/asyncagents/agents/a.md",
        "~/.config/opencode/agent/a.md",
        "~/.config/opencode/agents/a.md",
        "~/.claude/agents/a.md",
    ]
    (desk.project / ".git").mkdir()
    paths = [desk.write(place, described(place)) for place in places]
    for path in paths:
        found = agents(desk, directory=desk.project / "inner")
        assert found.agents["a"].origin == path
        path.unlink()
    assert agents(desk, directory=desk.project / "inner").agents == {}


def test_the_name_of_an_agent_is_its_path_unless_the_head_sets_one(desk: ConfigDesk) -> None:
    desk.write(".opencode/agent/team/one.md", described("x"))
    desk.write(".opencode/agent/two.md", "---\nname: deux\n---\n")
    assert set(agents(desk).agents) == {"team/one", "deux"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Just words.", "has no head"),
        ("---\nmode: [\n---\n", "line 2 has a ["),
        ("---\nmode: secondary\n---\n", 'has a head that cannot be used: agent.bad.mode must be "all"'),
        ("---\nsteps: 0\n---\n", "steps must be a whole number of 1 or more"),
        ("---\nmodel: gpt\n---\n", "write it as provider/model"),
        ("---\npermission:\n  bash: maybe\n---\n", "permission"),
        ("---\nname: two words\n---\n", "cannot be typed"),
        ("---\nname: 7\n---\n", "cannot be typed"),
        ("---\na: 1\n---\n" + "x" * (256 * 1024), "shorten it"),
    ],
)
def test_a_broken_agent_file_is_reported_and_the_others_are_loaded(
    desk: ConfigDesk, text: str, reason: str
) -> None:
    path = desk.write(".asyncagents/agents/bad.md", text)
    desk.write(".asyncagents/agents/good.md", described("good"))
    found = agents(desk)
    assert set(found.agents) == {"good"}
    assert [broken.path for broken in found.broken] == [path]
    assert reason in found.broken[0].reason


def test_a_file_that_cannot_be_read_as_text_is_broken(desk: ConfigDesk) -> None:
    path = desk.write(".asyncagents/agents/bad.md", "")
    path.write_bytes(b"---\n\xff\n---\n")
    (path.parent / "loop.md").symlink_to("loop.md")
    (path.parent / "gone.md").symlink_to("nowhere.md")
    assert sorted(broken.path.name for broken in agents(desk).broken) == ["bad.md", "gone.md", "loop.md"]


def test_an_agent_written_for_claude_code_is_understood(desk: ConfigDesk) -> None:
    path = desk.write(
        "~/.claude/agents/x.md",
        "---\nname: finder\ndescription: Finds: things\ntools: Read, LS, Write, Bash(git *)\n"
        "disallowedTools: [WebFetch]\nmodel: sonnet\n---\nFind.",
    )
    found = agents(desk)
    assert found.agents["finder"].config == AgentConfig(
        description="Finds: things",
        mode="subagent",
        prompt="Find.",
        permission={"*": "deny", "read": "allow", "list": "allow", "edit": "allow", "webfetch": "deny"},
    )
    assert found.warnings == (
        f"{path}: the model 'sonnet' names no provider: the session's own model is used",
        f"{path}: the tool 'Bash(git *)' is left out: write a rule for it under permission",
    )


def test_a_short_name_of_a_model_is_written_out_where_it_is_known(desk: ConfigDesk) -> None:
    desk.write("~/.claude/agents/x.md", "---\ndescription: Finds\nmodel: sonnet\n---\nFind.")
    desk.write("~/.claude/agents/y.md", "---\ndescription: Finds\nmodel: inherit\n---\nFind.")
    desk.write("~/.claude/agents/z.md", "---\ndescription: Finds\nmodel: grand\n---\nFind.")
    known = {"sonnet": ModelRef(provider_id="anthropic", model_id="claude-sonnet-9")}
    found = find_agents(desk.environment, desk.project, trusted=True, alias=known.get)
    models = {name: found.agents[name].config.model for name in "xyz"}
    assert models == {"x": known["sonnet"], "y": None, "z": None}
    assert len(found.warnings) == 1
    assert "the model 'grand' names no provider" in found.warnings[0]


def test_agents_and_skills_of_a_project_that_is_not_trusted_count_for_nothing(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/agents/evil.md", "---\nmode: [\n---\n")
    desk.write(".claude/agents/worse.md", described("worse"))
    desk.write(".claude/skills/s/SKILL.md", described("s"))
    desk.write("~/.config/asyncagents/agents/mine.md", described("mine"))
    found, skill = agents(desk, trusted=False), skills(desk, trusted=False)
    assert set(found.agents) == {"mine"}
    assert found.broken == ()
    assert skill.skills == {}
    assert len(found.warnings) == len(skill.warnings) == 1
    assert "2 agent files" in found.warnings[0]
    assert "1 skill file" in skill.warnings[0]
    assert f"asyncagents trust {desk.project}" in found.warnings[0]


def test_the_users_own_files_count_in_their_home_too(desk: ConfigDesk) -> None:
    desk.write("~/.claude/agents/mine.md", described("mine"))
    found = agents(desk, directory=desk.home, trusted=False)
    assert set(found.agents) == {"mine"}
    assert found.warnings == ()


def test_files_beyond_the_limit_of_a_folder_are_left_out_with_a_warning(desk: ConfigDesk) -> None:
    for number in range(502):
        desk.write(f".asyncagents/agents/a{number:03}.md", described("x"))
    found = agents(desk)
    assert len(found.agents) == 500
    assert "a499.md are left out" in found.warnings[0]


def test_skills_are_found_by_their_heads_and_read_on_use(desk: ConfigDesk) -> None:
    near = desk.write(
        ".opencode/skill/pdf/SKILL.md", "---\nname: pdf\ndescription: >\n  Fills\n  forms\n---\nDo it."
    )
    desk.write("~/.claude/skills/pdf/SKILL.md", described("far"))
    desk.write(".claude/skills/other/SKILL.md", "---\ndescription: Other\nlicense: MIT\n---\n")
    broken = desk.write(".claude/skills/bad/SKILL.md", "---\nname: bad\n---\n")
    desk.write(".claude/skills/bad/notes.md", "no skill")
    found = skills(desk)
    assert {name: (skill.description, skill.path) for name, skill in found.skills.items()} == {
        "pdf": ("Fills forms", near),
        "other": ("Other", desk.project / ".claude/skills/other/SKILL.md"),
    }
    assert [(each.path, each.reason) for each in found.broken] == [
        (broken, "has no description: write in its head when to use it")
    ]
    assert read_skill(found.skills["pdf"]) == "Do it."
    desk.write(".opencode/skill/pdf/SKILL.md", described("new"))
    assert read_skill(found.skills["pdf"]) == "new!"
    near.unlink()
    with pytest.raises(ToolError, match="the skill pdf cannot be read: is gone"):
        read_skill(found.skills["pdf"])


def test_instructions_come_from_the_user_then_from_the_root_inwards(desk: ConfigDesk) -> None:
    (desk.project / ".git").mkdir()
    places = [
        "~/.config/asyncagents/AGENTS.md",
        "AGENTS.md",
        "a/CLAUDE.md",
        "a/b/AGENTS.md",
        "docs/one.md",
        "docs/two.md",
    ]
    paths = [desk.write(place, f"{place}\n") for place in places]
    desk.write("CLAUDE.md", "not beside AGENTS.md")
    desk.write("~/.claude/CLAUDE.md", "not beside ours")
    desk.write("a/b/c/AGENTS.md", "too deep")
    found = instructions(desk, "docs/*.md", "AGENTS.md", directory=desk.project / "a" / "b")
    assert [(each.path, each.text) for each in found.files] == list(zip(paths, places, strict=True))
    assert found.warnings == ()


@pytest.mark.parametrize(
    "pattern",
    ["/etc/hostname", "../other.md", "~/.ssh/id", "https://x.test/a.md", "", "a**", "b\0", "none/*.md"],
)
def test_a_pattern_that_leaves_the_project_or_finds_no_file_is_warned_of(
    desk: ConfigDesk, pattern: str
) -> None:
    desk.write("../other.md", "secret")
    desk.write("~/.ssh/id", "secret")
    found = instructions(desk, pattern)
    assert found.files == ()
    assert len(found.warnings) == 1
    assert repr(pattern) in found.warnings[0]


def test_a_link_out_of_the_project_is_not_followed(desk: ConfigDesk) -> None:
    secret = desk.write("~/.ssh/id", "secret")
    os.symlink(secret, desk.project / "AGENTS.md")
    os.symlink(secret.parent, desk.project / "docs")
    found = instructions(desk, "docs/*")
    assert found.files == ()
    assert all("leads out of the project" in warning for warning in found.warnings)
    assert found.warnings


def test_long_instructions_are_cut(desk: ConfigDesk) -> None:
    for number in range(6):
        desk.write(f"docs/{number}.md", "x" * (MAX_CHARACTERS + 1))
    found = instructions(desk, "docs/*.md")
    assert sum(each.text.count("x") for each in found.files) <= MAX_ALL
    assert all(each.text.endswith("is too long.]") for each in found.files)
    assert len(found.files) == 4
    assert len(found.warnings) == 6
