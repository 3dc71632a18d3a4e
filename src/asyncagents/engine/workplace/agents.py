"""Agents by name: built-in ones, overlaid by those of markdown files, overlaid by those of the config."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import AgentConfig, Config, SandboxConfig
from asyncagents.config.markdown.agents import AgentFile, FoundAgents
from asyncagents.config.markdown.instructions import Instruction
from asyncagents.config.markdown.skills import Skill
from asyncagents.domain.agent.agent import Agent, Mode
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.permission import (
    EXTERNAL_AGENT,
    GUARDED_PLACE,
    UNCLEAR,
    WEBFETCH_LOCAL,
    Action,
    LineageRules,
    RuleLayers,
    at_least,
    confine_to,
    rules_from_config,
)
from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.domain.conversation.session import Rule
from asyncagents.errors import ConfigError, InvalidInput, UntrustedConfig, UntrustedInput

DEFAULT_AGENT = "build"

PromptName: TypeAlias = Literal[
    "build", "plan", "general", "explore", "title", "compaction",
    "max-steps", "plan-reminder", "build-switch", "todo", "todo-reminder", "compaction-go-on", "note-go-on",
    "agent-mention", "subtask-done", "structured-output", "structured-again", "own-command",
    "command-init", "command-review",
]  # fmt: skip

# Permissions of a read-only subagent; every other one is denied, also those of plugins' tools.
_READ_ONLY_PERMISSIONS = (
    "read", "grep", "glob", "list", "bash", "webfetch", "websearch", "skill",
    "external_directory", "doom_loop", UNCLEAR, WEBFETCH_LOCAL, GUARDED_PLACE,
)  # fmt: skip
_NO_EDITS: tuple[tuple[str, Action], ...] = (("edit", "deny"),)
_NO_TODOS: tuple[tuple[str, Action], ...] = (("todowrite", "deny"), ("todoread", "deny"))


class _BuiltIn(Struct, frozen=True, kw_only=True):
    mode: Mode
    prompt: PromptName
    description: str | None
    allows: tuple[str, ...] = ()
    """Permissions that the defaults deny and this agent has; the user's own rules come after."""
    floors: tuple[tuple[str, Action], ...] = ()
    """The least strict action for a permission, even if the user's rules for all agents allow more."""
    only: tuple[str, ...] | None = None
    """If given, every other permission is denied."""
    hidden: bool = False
    temperature: float | None = None


_BUILT_IN: Mapping[str, _BuiltIn] = {
    "build": _BuiltIn(
        mode="primary",
        prompt="build",
        description="Does the work: reads, changes and runs what the rules allow.",
        allows=("plan_enter",),
    ),
    "plan": _BuiltIn(
        mode="primary",
        prompt="plan",
        description="Plans the work and changes nothing: no edits, and every command asks.",
        allows=("plan_exit",),
        floors=(*_NO_EDITS, ("bash", "ask")),
    ),
    "general": _BuiltIn(
        mode="subagent",
        prompt="general",
        description="Researches questions with many steps and carries out tasks that need no edits.",
        floors=(*_NO_EDITS, *_NO_TODOS),
    ),
    "explore": _BuiltIn(
        mode="subagent",
        prompt="explore",
        description="Finds files, code and facts in a project quickly, without changing anything.",
        only=_READ_ONLY_PERMISSIONS,
    ),
    "title": _BuiltIn(
        mode="primary",
        prompt="title",
        description="Names a conversation.",
        only=(),
        hidden=True,
        temperature=0.5,
    ),
    "compaction": _BuiltIn(
        mode="primary",
        prompt="compaction",
        description="Summarises a conversation that has become too long.",
        only=(),
        hidden=True,
    ),
}
# The prompt of a user's agent that has none.
_FALLBACK_PROMPTS: Mapping[Mode, PromptName] = {"primary": "build", "all": "build", "subagent": "general"}


def default_rules(directories: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """Return the rules that apply to every agent unless overridden; `directories` outside are allowed."""
    written: dict[str, Action | dict[str, Action]] = {
        "*": "allow",
        "doom_loop": "ask",
        UNCLEAR: "ask",
        WEBFETCH_LOCAL: "ask",
        EXTERNAL_AGENT: "ask",
        GUARDED_PLACE: "ask",
        "external_directory": {"*": "ask", **{f"{each.rstrip('/')}/*": "allow" for each in directories}},
        "plan_enter": "deny",
        "plan_exit": "deny",
        "read": {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"},
    }
    return rules_from_config(written, "")


class Agents:
    """The agents of a directory. Raises `ConfigError` if the configured default cannot be a default agent."""

    def __init__(
        self, config: Config, found: FoundAgents, *, home: str, directories: tuple[str, ...] = ()
    ) -> None:
        self._home = home
        self._default_rules = default_rules(directories)
        self._config_rules = rules_from_config(config.permission, home)
        self._sandbox = config.sandbox
        names = dict.fromkeys([*_BUILT_IN, *found.agents, *config.agent])
        laid = [self._build_agent(name, found.agents.get(name), config.agent.get(name)) for name in names]
        self._agents = {agent.name: agent for agent in laid if agent is not None}
        self._untrusted = found.untrusted
        self._default = self._choose_default(config.default_agent)

    def get(self, name: str) -> Agent:
        self.check_trust(name)
        if name not in self._agents:
            known = ", ".join(agent.name for agent in self.list())
            raise InvalidInput(f"there is no agent {name!r}: there are {known}")
        return self._agents[name]

    def check_trust(self, name: str) -> None:
        """Raise `UntrustedInput` if an agent is unknown because its file is not trusted."""
        fact = self._untrusted_fact(name)
        if fact is not None:
            raise UntrustedInput(self._untrusted.sentence(fact), fact=fact)

    def _untrusted_fact(self, name: str) -> str | None:
        if name in self._agents:
            return None
        return self._untrusted.fact(f"agent {name!r}", "agent", name)

    def find(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def list(self, *, hidden: bool = False) -> tuple[Agent, ...]:
        """List the default agent first, then by name; hidden ones only with `hidden`."""
        shown = [agent for agent in self._agents.values() if hidden or not agent.hidden]
        return tuple(sorted(shown, key=lambda agent: (agent.name != self._default, agent.name)))

    def default(self) -> Agent:
        return self._agents[self._default]

    def _choose_default(self, wanted: str | None) -> str:
        able = sorted(agent.name for agent in self._agents.values() if agent.speaks_to_people)
        if not able:
            raise ConfigError("no agent is left to talk to: enable one whose mode is primary or all")
        fact = self._untrusted_fact(wanted) if wanted is not None else None
        if fact is not None:
            raise UntrustedConfig(self._untrusted.sentence(fact), fact=fact)
        if wanted is not None and wanted not in able:
            raise ConfigError(f"default_agent is {wanted!r}, which cannot be one: use {', '.join(able)}")
        return wanted or (DEFAULT_AGENT if DEFAULT_AGENT in able else able[0])

    def _build_agent(self, name: str, file: AgentFile | None, own: AgentConfig | None) -> Agent | None:
        """Build an agent from its layers; None if it is disabled."""
        written = [each for each in (file.config if file else None, own) if each is not None]
        config, built_in = _merge_configs(written), _BUILT_IN.get(name)
        if config.disable:
            return None
        known = built_in or _BuiltIn(
            mode="subagent" if config.backend else "all",
            prompt=_FALLBACK_PROMPTS[config.mode or "all"],
            description=None,
        )
        mode = config.mode or known.mode
        if config.backend is not None and mode != "subagent":
            raise ConfigError(f"the built-in agent {name!r} talks to people: give the backend to another one")
        default_prompt = "" if config.backend else prompt_text(known.prompt)
        return Agent(
            name=name,
            mode=mode,
            layers=self._build_layers(known, written),
            prompt=config.prompt or default_prompt,
            description=config.description or known.description,
            model=config.model,
            variant=config.variant,
            temperature=known.temperature if config.temperature is None else config.temperature,
            top_p=config.top_p,
            steps=config.steps,
            hidden=known.hidden if config.hidden is None else config.hidden,
            native=built_in is not None,
            color=file.color if file else None,
            options={key: value for each in written for key, value in each.options.items()},
            asks_anew=tuple(permission for permission, action in known.floors if action == "ask"),
            sandbox=self._effective_sandbox(config.sandbox),
            backend=_backend(config),
            origin=str(file.origin) if file else "built in" if built_in else "config",
        )

    def _effective_sandbox(self, own: SandboxConfig | bool | None) -> Sandbox | None:
        """Return the agent's own sandbox settings, completed by those for all agents; None: no sandbox."""
        usual = self._sandbox
        if own is False or (own is None and usual is None):
            return None
        chosen = own if isinstance(own, SandboxConfig) else SandboxConfig()
        usual = usual or SandboxConfig()
        write = usual.write if chosen.write is None else chosen.write
        return Sandbox(
            write=tuple(
                os.path.normpath(self._home + each[1:] if each[0] == "~" else each) for each in write or ()
            ),
            network=usual.network if chosen.network is None else chosen.network,
        )

    def _build_layers(self, known: _BuiltIn, written: Sequence[AgentConfig]) -> RuleLayers:
        """Order the rules. Only defaults may allow: built-in restrictions come after the user's rules."""
        opened = tuple(Rule(permission=each, pattern="*", action="allow") for each in known.allows)
        defaults = self._default_rules + opened
        return RuleLayers(
            defaults=defaults,
            config=self._config_rules,
            built_in=_restrictions(known, defaults + self._config_rules),
            agent=tuple(rule for each in written for rule in rules_from_config(each.permission, self._home)),
        )


def _merge_configs(written: Sequence[AgentConfig]) -> AgentConfig:
    """Merge configs field by field; the later value wins."""
    merged = AgentConfig()
    for each in written:
        values = {field: getattr(each, field) for field in AgentConfig.__struct_fields__}
        merged = replace(merged, **{field: value for field, value in values.items() if value is not None})
    return merged


def _backend(agent: AgentConfig) -> AcpBackend | None:
    config = agent.backend
    if config is None:
        return None
    return AcpBackend(command=config.acp, environment=config.environment, instructions=agent.prompt or "")


def _restrictions(known: _BuiltIn, under: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return a built-in agent's restrictions; a denial is one plain rule, so that its tools are hidden."""
    rules = () if known.only is None else confine_to(under, known.only)
    for permission, action in known.floors:
        if action == "deny":
            rules += (Rule(permission=permission, pattern="*", action="deny"),)
        else:
            rules += at_least(under, permission, action)
    return rules


class EnvironmentFacts(Struct, frozen=True, kw_only=True):
    """The environment that the system prompt describes."""

    directory: str
    worktree: str
    """Root of the project."""
    git: bool
    platform: str
    date: str
    """The day only: a time of day would miss the provider's prompt cache on every request."""


def system_prompt(
    agent: Agent,
    facts: EnvironmentFacts,
    instructions: Sequence[Instruction] = (),
    skills: Sequence[Skill] = (),
    *,
    rules: LineageRules | None = None,
) -> str:
    """Build the system prompt, deterministically. `rules`: given if the rules of ancestors apply as well."""
    effective = rules or LineageRules.from_rules(agent.layers.rules)
    pieces = [agent.prompt.strip(), _environment_text(facts)]
    if not effective.hides("todowrite"):
        pieces.append(prompt_text("todo"))
    if not effective.hides("skill"):
        pieces.append(
            _skills_text([each for each in skills if effective.evaluate("skill", each.name) != "deny"])
        )
    pieces += [_wrap_in_tag("instructions", str(each.path), each.text) for each in instructions]
    return "\n\n".join(piece for piece in pieces if piece)


@cache
def prompt_text(name: PromptName) -> str:
    return (files("asyncagents.engine") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()


def _environment_text(facts: EnvironmentFacts) -> str:
    lines = {
        "Working directory": facts.directory,
        "Project root": facts.worktree,
        "Git repository": "yes" if facts.git else "no",
        "Platform": facts.platform,
        "Date": facts.date,
    }
    return _wrap_in_tag(
        "environment", None, "\n".join(f"{key}: {_one_line(value)}" for key, value in lines.items())
    )


def _skills_text(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    listed = sorted(skills, key=lambda skill: skill.name)
    listing = "\n".join(f"- {skill.name}: {_one_line(skill.description)}" for skill in listed)
    return _wrap_in_tag(
        "skills", None, f"Load one with the skill tool when its description fits the task.\n{listing}"
    )


def _wrap_in_tag(tag: str, name: str | None, text: str) -> str:
    """Wrap a text in a tag, with closing tags inside it escaped."""
    inside = re.sub(rf"<(\s*/\s*{tag})", r"&lt;\1", text, flags=re.IGNORECASE)
    opening = tag if name is None else f'{tag} from="{escape(_one_line(name))}"'
    return f"<{opening}>\n{inside}\n</{tag}>"


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
