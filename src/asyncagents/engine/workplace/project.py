"""The workplace of a directory with agents: rules, system prompt, reminders and visible tools."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.markdown.instructions import Instruction
from asyncagents.config.markdown.skills import Skill
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.permission import (
    EVERYTHING,
    GUARDED_PLACE,
    LAUNCHING,
    TASK,
    Action,
    LineageRules,
    RuleSet,
    approved_exactly,
    judge,
    pattern_permission,
    permission_of,
    permissions_needed,
    rules_from_tools,
    strictest,
)
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.call.call import Effect
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.conversation.todo import count_unfinished
from asyncagents.domain.step import StepInfo
from asyncagents.domain.task.notice import NoticeFormat
from asyncagents.domain.window import estimate_text
from asyncagents.engine.tool import AnyTool, Ask, Policy, ToolContext
from asyncagents.engine.workplace.agents import Agents, EnvironmentFacts, prompt_text, system_prompt
from asyncagents.engine.workplace.hooks import NO_HOOKS, Hooks
from asyncagents.engine.workplace.mcp import McpResources
from asyncagents.engine.workplace.prompt_sources import PromptSources
from asyncagents.engine.workplace.snapshots import NO_SNAPSHOTS, NoSnapshots, Snapshots
from asyncagents.engine.workplace.workplace import AskPolicy, Brief, CompactionPolicy
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import ChatRequest, Options, ToolSpec

MAX_CACHED = 64
"""Max cached briefs, and rules."""


class PromptTexts(Struct, frozen=True, kw_only=True):
    """Texts and settings of a directory, besides its agents."""

    facts: EnvironmentFacts
    instructions: tuple[Instruction, ...] = ()
    skills: tuple[Skill, ...] = ()
    model: ModelRef | None = None
    """The model of the directory's config, where each directory has its own."""
    small_model: ModelRef | None = None
    """The model for short texts, such as titles."""
    compaction_policy: CompactionPolicy = CompactionPolicy()
    notice_format: NoticeFormat = NoticeFormat()
    from_files: bool = True
    """Whether the settings come from the directory's files, or from a program for all directories."""


class Project:
    reminds = True
    mcp_resources: McpResources | None = None
    snapshots: Snapshots | NoSnapshots = NO_SNAPSHOTS

    def __init__(  # noqa: PLR0913  all that a directory offers
        self,
        agents: Agents,
        tools: Sequence[AnyTool],
        texts: PromptTexts,
        asking: AskPolicy,
        *,
        before: Agents | None = None,
        nudges: int = 0,
        sources: PromptSources | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        """`before`: the agents when the runtime first read the directory. Rules that were loosened since then
        do not count, as an agent with edit rights could have done that."""
        self.agents = agents
        self._initial_agents = before or agents
        self.nudges = nudges
        self.prompt_sources = sources
        self.hooks = hooks
        self.worktree = texts.facts.worktree
        self.default_model = texts.model
        self.skills = texts.skills
        self.from_files = texts.from_files
        self.tools: Mapping[str, AnyTool] = {tool.name: _with_default_plan(tool) for tool in tools}
        self.effects: Mapping[str, Effect] = {tool.name: tool.effect for tool in tools}
        self.ask_policy = asking
        self._specs = {tool.name: tool.spec() for tool in tools}
        self._texts = texts
        self._rules: BoundedDict[tuple[str, RuleSet], LineageRules] = BoundedDict(MAX_CACHED)
        self._briefs: BoundedDict[tuple[str, LineageRules], Brief] = BoundedDict(MAX_CACHED)

    def with_server_tools(self, tools: Sequence[AnyTool], served: McpResources | None) -> "Project":
        """Return a copy with the tools of MCP servers after its own, and with their resources."""
        project = copy(self)
        project.tools = {**self.tools, **{tool.name: _with_default_plan(tool) for tool in tools}}
        project.effects = {**self.effects, **{tool.name: tool.effect for tool in tools}}
        project._specs = {**self._specs, **{tool.name: tool.spec() for tool in tools}}
        project.mcp_resources = served
        project._briefs = BoundedDict(MAX_CACHED)
        return project

    def brief(self, agent: str, rules: LineageRules | None) -> Brief:
        """Return the brief of an agent, cached by its rules, as it is slow to build."""
        rules = rules or LineageRules.from_rules(self.agents.get(agent).layers.rules)
        if (agent, rules) not in self._briefs:
            brief = self._build_brief(agent, rules)
            self._briefs[agent, rules] = replace(brief, weight=brief.tokens)
        return self._briefs[agent, rules]

    def _build_brief(self, agent: str, rules: LineageRules) -> Brief:
        known, texts = self.agents.get(agent), self._texts
        return Brief(
            system=system_prompt(known, texts.facts, texts.instructions, texts.skills, rules=rules),
            specs=self._visible_specs(rules),
            options=_model_options(known),
            steps=known.steps,
        )

    def _visible_specs(self, rules: LineageRules) -> tuple[ToolSpec, ...]:
        specs = (spec for name, spec in self._specs.items() if not rules.hides(name))
        callable_ = [agent for agent in self.subagents.values() if rules.evaluate(TASK, agent.name) != "deny"]
        return tuple(_with_agent_list(spec, callable_) if spec.name in LAUNCHING else spec for spec in specs)

    @property
    def subagents(self) -> Mapping[str, Agent]:
        return {agent.name: agent for agent in self.agents.list() if agent.mode != "primary"}

    def backend(self, agent: str) -> AcpBackend | None:
        known = self.agents.find(agent)
        return known.backend if known else None

    @property
    def notice_format(self) -> NoticeFormat:
        return self._texts.notice_format

    def policy(self, agent: str, rules: LineageRules | None, approved: Sequence[Rule]) -> Policy:
        known = self.agents.get(agent)
        rules = rules or LineageRules.from_rules(known.layers.rules)
        anew = rules.asks_anew.union(known.asks_anew)
        approved = [rule for rule in approved if not {EVERYTHING, pattern_permission(rule.permission)} & anew]

        def decide(ask: Ask, context: ToolContext) -> Action:
            return judge_ask(ask, rules, approved)

        return decide

    def rules(self, agent: str, session: Session) -> LineageRules:
        own = RuleSet(session.permission or (), rules_from_tools(session.tools or {}))
        if (agent, own) not in self._rules:
            self._rules[agent, own] = self._build_rules(agent, own)
        return self._rules[agent, own]

    def _build_rules(self, agent: str, own: RuleSet) -> LineageRules:
        now = self.agents.get(agent or self.agents.default().name)
        before = self._initial_agents.find(agent) or self._initial_agents.default()
        sets = (
            RuleSet(each.layers.rules + own.rules, own.tools, each.asks_anew, each.sandbox)
            for each in (now, before)
        )
        return LineageRules(tuple(dict.fromkeys(sets)))

    def default_agent(self) -> str:
        return self.agents.default().name

    def reminders(self, stepping: StepInfo) -> tuple[str, ...]:
        texts = []
        if stepping.asked and stepping.agent == "plan":
            texts.append(prompt_text("plan-reminder"))
        if stepping.asked and stepping.agent != "plan" and stepping.agent_before == "plan":
            texts.append(prompt_text("build-switch"))
        if count := count_unfinished(stepping.todos):
            texts.append(prompt_text("todo-reminder").format(count=count))
        if self._is_last_step(stepping):
            texts.append(prompt_text("max-steps"))
        return tuple(texts)

    def _is_last_step(self, stepping: StepInfo) -> bool:
        try:
            steps = self.agents.get(stepping.agent).steps
        except InvalidInput:
            return False
        return steps is not None and stepping.number >= steps

    def model(self, agent: str) -> ModelRef | None:
        return self.agents.get(agent).model

    @property
    def compaction_policy(self) -> CompactionPolicy:
        return self._texts.compaction_policy

    def summary_request(self, model: ModelRef) -> ChatRequest:
        agent = self.agents.find("compaction")
        if agent is None:  # disabled; a conversation that is too long still needs a summary
            return ChatRequest(model=model, messages=(), system=prompt_text("compaction"))
        return _internal_request(agent, agent.model or model)

    def title_request(self, model: ModelRef) -> ChatRequest | None:
        try:
            agent = self.agents.get("title")
        except InvalidInput:  # disabled
            return None
        return _internal_request(agent, agent.model or self._texts.small_model or model)


def judge_ask(ask: Ask, rules: LineageRules, approved: Sequence[Rule]) -> Action:
    """Decide an ask; an approval, by a pattern or the exact text, answers it but lifts no denial."""
    fitting = [rule for rule in approved if rule.pattern in ask.always] if ask.narrow else approved
    needed = permissions_needed(ask.permission, ask.patterns, ask.also)
    action = strictest(judge(rules, fitting, each, ask.patterns) for each in needed)
    exactly = ask.exact and approved_exactly(approved, ask.permission, ask.always)
    exactly = exactly and GUARDED_PLACE not in needed
    return "allow" if action == "ask" and exactly else action


def _with_agent_list(spec: ToolSpec, agents: Sequence[Agent]) -> ToolSpec:
    """Add the list of agents that this agent can launch to a tool's description."""
    lines = [
        f"- {agent.name}: {' '.join((agent.description or 'No description.').split())}" for agent in agents
    ]
    text = "\n".join(["Agents you can launch:", *(lines or ["(none)"])])
    return replace(
        spec, description=f"{spec.description}\n\n{text}", tokens=spec.tokens + estimate_text(text)
    )


def _internal_request(agent: Agent, model: ModelRef) -> ChatRequest:
    """Build the request of an internal agent (title, compaction), without tools and messages."""
    return ChatRequest(model=model, messages=(), system=agent.prompt, options=_model_options(agent))


def _model_options(agent: Agent) -> Options:
    return Options(temperature=agent.temperature, top_p=agent.top_p, body=agent.options)


def _with_default_plan(tool: AnyTool) -> AnyTool:
    """Give a tool without a plan one that asks for the permission of its name."""
    if tool.plan is not None:
        return tool
    ask = Ask(permission_of(tool.name), ("*",), ("*",))

    async def plan(args: Any, context: ToolContext) -> tuple[Ask, ...]:
        return (ask,)

    return tool.with_plan(plan)
