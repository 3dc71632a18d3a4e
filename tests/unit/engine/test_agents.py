"""The agents there are, what each may do, and what it is told before the conversation."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.config import AgentConfig, Config, Permission
from asyncagents.config.markdown.agents import AgentFile, FoundAgents
from asyncagents.config.markdown.instructions import Instruction
from asyncagents.config.markdown.skills import Skill
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.permission import LineageRules, evaluate, is_hidden, narrow_to_parent, strictest
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.workplace.agents import (
    Agents,
    EnvironmentFacts,
    PromptName,
    prompt_text,
    system_prompt,
)
from asyncagents.errors import ConfigError, InvalidInput

FACTS = EnvironmentFacts(directory="/p/a  b", worktree="/p", git=True, platform="linux", date="2026-11-16")
WRITERS = ("write", "edit", "patch")
BUILT_IN = ["build", "compaction", "explore", "general", "plan", "title"]


def agents(
    *,
    agent: dict[str, AgentConfig] | None = None,
    permission: Permission | None = None,
    default_agent: str | None = None,
    files: dict[str, AgentConfig] | None = None,
) -> Agents:
    config = Config(
        data_dir=Path("/data"), agent=agent or {}, permission=permission or {}, default_agent=default_agent
    )
    found = {
        name: AgentFile(name=name, config=each, origin=Path(f"/p/{name}.md"), color="red")
        for name, each in (files or {}).items()
    }
    return Agents(config, FoundAgents(agents=found), home="/home/me", directories=("/data/tool-output",))


def may(agent: Agent, permission: str, pattern: str = "x") -> str:
    return evaluate(agent.layers.rules, permission, pattern)


def shown(agent: Agent, *tools: str) -> list[str]:
    return [tool for tool in tools if not is_hidden(agent.layers.rules, tool)]


@pytest.mark.spec("A-01")
def test_the_built_in_agents_are_there() -> None:
    every = agents().list(hidden=True)
    assert [(agent.name, agent.mode, agent.hidden) for agent in every] == [
        ("build", "primary", False),
        ("compaction", "primary", True),
        ("explore", "subagent", False),
        ("general", "subagent", False),
        ("plan", "primary", False),
        ("title", "primary", True),
    ]
    assert all(agent.native and agent.prompt and agent.description for agent in every)


@pytest.mark.spec("A-01")
def test_build_may_do_all_and_asks_where_it_gets_risky() -> None:
    build = agents().get("build")
    tools = ("read", *WRITERS, "bash", "todowrite", "todoread", "task", "question", "skill", "some_mcp_tool")
    assert shown(build, *tools) == list(tools)
    assert {may(build, tool) for tool in ("read", "edit", "bash", "some_mcp_tool", "question")} == {"allow"}
    assert may(build, "doom_loop") == may(build, "external_directory", "/etc/x") == "ask"
    assert may(build, "external_directory", "/data/tool-output/1") == "allow"
    assert may(build, "plan_exit") == "deny"


@pytest.mark.spec("A-01")
@pytest.mark.parametrize("name", ["build", "plan", "general", "explore"])
def test_reading_an_env_file_asks_unless_it_is_an_example(name: str) -> None:
    agent = agents().get(name)
    assert [may(agent, "read", file) for file in ("a/.env", ".env.local", ".env.example", "a.py")] == [
        "ask", "ask", "allow", "allow",
    ]  # fmt: skip


@pytest.mark.spec("A-01")
def test_plan_edits_nothing_and_every_command_asks() -> None:
    plan = agents(permission={"bash": {"git status": "allow", "rm *": "deny"}}).get("plan")
    assert shown(plan, *WRITERS, "bash", "read", "question", "plan_exit") == [
        "bash", "read", "question", "plan_exit",
    ]  # fmt: skip
    assert [may(plan, "bash", command) for command in ("ls", "git status", "rm a")] == ["ask", "ask", "deny"]


@pytest.mark.spec("A-01")
def test_subagents_have_neither_todos_nor_edits() -> None:
    for name in ("general", "explore"):
        agent = agents().get(name)
        assert shown(agent, *WRITERS, "todowrite", "todoread", "read", "bash") == ["read", "bash"]
    others = ("some_mcp_tool", "task", "question")
    assert shown(agents().get("general"), *others) == list(others)
    assert shown(agents().get("explore"), *others) == []


@pytest.mark.spec("A-01")
@pytest.mark.parametrize("name", ["title", "compaction"])
def test_hidden_agents_may_do_nothing(name: str) -> None:
    agent = agents(permission={"*": "allow"}).get(name)
    assert shown(agent, "read", "bash", "edit", "question", "skill") == []


@pytest.mark.spec("A-03")
@given(
    st.dictionaries(
        st.sampled_from(["*", "bash", "read", "edit", "question", "webfetch", "todowrite"]),
        st.sampled_from(["ask", "deny"])
        | st.dictionaries(st.sampled_from(["*", "x", "git *"]), st.sampled_from(["ask", "deny"])),
    ),
    st.sampled_from(["bash", "read", "edit", "question", "webfetch", "other"]),
    st.sampled_from(["x", "git a", "y"]),
)
def test_no_built_in_rule_loosens_a_permission_that_the_user_restricts(
    permission: Permission, name: str, pattern: str
) -> None:
    """Built-in rules come after the user's own and win: they must not open what those close."""
    for agent in agents(permission=permission).list(hidden=True):
        before = evaluate(agent.layers.defaults + agent.layers.config, name, pattern)
        assert strictest((evaluate(agent.layers.rules, name, pattern), before)) == may(agent, name, pattern)


@pytest.mark.spec("A-03")
def test_an_agents_own_rules_win_over_the_built_in_ones() -> None:
    own = AgentConfig(permission={"edit": {"~/plans/*": "allow"}, "todowrite": "allow"})
    plan = agents(agent={"plan": own, "general": own}, permission={"edit": "deny"})
    assert may(plan.get("plan"), "edit", "/home/me/plans/a.md") == "allow"
    assert may(plan.get("plan"), "edit", "a.py") == "deny"
    assert shown(plan.get("general"), "todowrite", "todoread") == ["todowrite"]


@pytest.mark.spec("A-03")
@pytest.mark.parametrize("permission", ["unclear_command", "guarded_place"])
def test_a_wildcard_rule_does_not_allow_permissions_that_need_their_name(permission: str) -> None:
    for agent in agents(permission={"*": "allow", "bash": "allow", "edit": "allow"}).list():
        assert may(agent, permission, "x") == "ask"
    named = agents(permission={permission: "allow"})
    assert may(named.get("explore"), permission, "x") == "allow"


@pytest.mark.spec("A-03")
def test_a_child_of_plan_cannot_edit_even_if_its_own_rules_allow_it() -> None:
    free = agents(agent={"free": AgentConfig(permission={"*": "allow"})})
    child = LineageRules.from_rules(free.get("free").layers.rules)
    parent = LineageRules.from_rules(free.get("plan").layers.rules)
    assert child.evaluate("edit", "a.py") == "allow"
    assert narrow_to_parent(child, parent).evaluate("edit", "a.py") == "deny"
    assert narrow_to_parent(child, parent).hides("write")


@pytest.mark.spec("A-02")
def test_config_overrides_an_agent_file_and_the_file_the_built_in_agent() -> None:
    model = ModelRef(provider_id="p", model_id="m")
    file = AgentConfig(
        description="File",
        prompt="From file.",
        steps=3,
        options={"a": 1, "b": 1},
        permission={"bash": "deny"},
    )
    own = AgentConfig(steps=5, model=model, temperature=0.0, options={"b": 2}, permission={"bash": "ask"})
    title = AgentConfig(hidden=False, temperature=0.0)
    known = agents(files={"general": file, "mine": file}, agent={"general": own, "title": title})
    general = known.get("general")
    assert general.description == "File"
    assert general.prompt == "From file."
    assert general.steps == 5
    assert general.mode == "subagent"
    assert general.model == model
    assert general.temperature == 0.0
    assert general.options == {"a": 1, "b": 2}
    assert may(general, "bash") == "ask"
    assert general.origin == "/p/general.md"
    assert general.native is True
    assert general.color == "red"
    assert known.get("mine").mode == "all"
    assert known.get("mine").native is False
    assert known.get("title").hidden is False
    assert known.get("title").temperature == 0.0


def test_a_custom_agent_takes_missing_settings_from_a_built_in_one() -> None:
    known = agents(
        agent={"one": AgentConfig(mode="primary"), "two": AgentConfig(mode="subagent"), "all": AgentConfig()}
    )
    assert [known.get(name).prompt for name in ("one", "two", "all")] == [
        prompt_text("build"), prompt_text("general"), prompt_text("build"),
    ]  # fmt: skip
    assert [may(known.get(name), "question") for name in ("one", "two", "all")] == ["allow"] * 3
    strict = agents(
        permission={"question": "deny"}, agent={"one": AgentConfig(), "two": AgentConfig(mode="subagent")}
    )
    assert [may(strict.get(name), "question") for name in ("build", "general", "one", "two")] == ["deny"] * 4
    assert known.get("one").origin == "config"


@pytest.mark.spec("A-02")
def test_a_disabled_agent_is_gone_and_the_error_names_those_that_are_left() -> None:
    known = agents(agent={"plan": AgentConfig(disable=True), "zed": AgentConfig(hidden=True)})
    with pytest.raises(InvalidInput) as caught:
        known.get("plan")
    assert str(caught.value) == "there is no agent 'plan': there are build, explore, general"


def test_the_default_comes_first_and_hidden_ones_only_on_request() -> None:
    known = agents(default_agent="plan", agent={"aaa": AgentConfig()})
    assert known.default().name == "plan"
    assert [agent.name for agent in known.list()] == ["plan", "aaa", "build", "explore", "general"]
    assert {agent.name for agent in known.list(hidden=True)} == {*BUILT_IN, "aaa"}


def test_without_build_the_first_visible_primary_agent_is_the_default() -> None:
    off = AgentConfig(disable=True)
    assert agents(agent={"build": off}).default().name == "plan"
    with pytest.raises(ConfigError, match="no agent is left to talk to"):
        agents(agent={"build": off, "plan": off})


@pytest.mark.parametrize("name", ["general", "title", "nobody"])
def test_an_unusable_default_agent_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"default_agent is '{name}', which cannot be one: use build, plan"):
        agents(default_agent=name)


def test_the_system_prompt_has_its_pieces_in_order_and_never_varies() -> None:
    build = agents().get("build")
    rules = [Instruction(Path("/p/AGENTS.md"), "Use tabs."), Instruction(Path("/p/a/AGENTS.md"), "Or not.")]
    skills = [Skill(name=name, description=f"Does {name}", path=Path("/s")) for name in ("zip", "pdf")]
    text = system_prompt(build, FACTS, rules, skills)
    pieces = [
        prompt_text("build"), "Working directory: /p/a  b\n", "Git repository: yes", "Date: 2026-11-16",
        prompt_text("todo"), "- pdf: Does pdf\n- zip: Does zip",
        '<instructions from="/p/AGENTS.md">\nUse tabs.\n</instructions>', "Or not.",
    ]  # fmt: skip
    places = [text.index(piece) for piece in pieces]
    assert places == sorted(places)
    assert text == system_prompt(build, FACTS, rules, skills[::-1])


def test_a_denied_skill_is_not_in_the_system_prompt() -> None:
    skills = [Skill(name=name, description="d", path=Path("/s")) for name in ("pdf", "zip")]
    build = agents(permission={"skill": {"pdf": "deny"}}).get("build")
    assert "- pdf" not in system_prompt(build, FACTS, skills=skills)
    assert "- zip" in system_prompt(build, FACTS, skills=skills)
    parent = LineageRules.from_rules(agents(permission={"skill": "deny"}).get("build").layers.rules)
    rules = narrow_to_parent(LineageRules.from_rules(build.layers.rules), parent)
    assert "<skills>" not in system_prompt(build, FACTS, skills=skills, rules=rules)


@pytest.mark.parametrize("closing", ["</instructions>", "< / INSTRUCTIONS >"])
def test_instructions_cannot_leave_their_tag(closing: str) -> None:
    text = system_prompt(agents().get("build"), FACTS, [Instruction(Path('/p/"><x'), f"a{closing}b")])
    assert text.count("</instructions>") == 1
    assert closing not in text.removesuffix("</instructions>")
    assert '"><x' not in text


@pytest.mark.spec("O-05")
def test_only_agents_with_todos_have_the_todo_text_in_their_system_prompt() -> None:
    known = agents()
    told = {
        agent.name for agent in known.list(hidden=True) if prompt_text("todo") in system_prompt(agent, FACTS)
    }
    assert told == {"build", "plan"}
    for word in (
        "three or more steps",
        "ask for a list",
        "one is in_progress",
        "completed at once",
        "cancelled",
    ):
        assert word in prompt_text("todo")
    assert "Do without one for a single, simple" in prompt_text("todo")


def test_every_prompt_is_there_in_a_file_of_its_own() -> None:
    texts = [prompt_text(name) for name in get_args(PromptName)]
    assert all(texts)
    assert len(set(texts)) == len(texts)
    assert "last step" in prompt_text("max-steps")
    assert "Change nothing" in prompt_text("plan-reminder")
