"""A project as its agents find it: rules, a system prompt, reminders, and the tools they may see."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from asyncagents.config.instructions import Instruction
from asyncagents.config.skills import Skill
from asyncagents.domain.call import Effect
from asyncagents.domain.message import ModelRef
from asyncagents.domain.permission import Action, Effective, judge, permission_of, strictest
from asyncagents.domain.session import Rule, Session
from asyncagents.domain.todo import left
from asyncagents.engine.agents import Agents, Facts, prompt_text, system_prompt
from asyncagents.engine.tool import AnyTool, Ask, Policy, ToolContext
from asyncagents.engine.workplace import Asking, Brief
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import Options, Request
from asyncagents.store.verb.remind import Stepping

_ASK = (Rule(permission="*", pattern="*", action="ask"),)


class Texts(Struct, frozen=True, kw_only=True):
    """What a system prompt is made of, besides the agent's own words."""

    facts: Facts
    instructions: tuple[Instruction, ...] = ()
    skills: tuple[Skill, ...] = ()
    small_model: ModelRef | None = None
    """For what takes few words."""


class Project:
    reminds = True

    def __init__(self, agents: Agents, tools: Sequence[AnyTool], texts: Texts, asking: Asking) -> None:
        self.agents = agents
        self.tools: Mapping[str, AnyTool] = {tool.name: _asking(tool) for tool in tools}
        self.effects: Mapping[str, Effect] = {tool.name: tool.effect for tool in tools}
        self.asking = asking
        self._specs = {tool.name: tool.spec() for tool in tools}
        self._texts = texts

    def brief(self, agent: str, lineage: Sequence[Session]) -> Brief:
        known, rules = self.agents.get(agent), self.rules(agent, lineage)
        texts = self._texts
        return Brief(
            system=system_prompt(known, texts.facts, texts.instructions, texts.skills, rules=rules),
            specs=tuple(spec for name, spec in self._specs.items() if not rules.hides(name)),
            options=Options(temperature=known.temperature, top_p=known.top_p, body=known.options),
            steps=known.steps,
        )

    def policy(self, agent: str, lineage: Sequence[Session], approved: Sequence[Rule]) -> Policy:
        rules = self.rules(agent, lineage)

        def decide(ask: Ask, context: ToolContext) -> Action:
            needed = (ask.permission, *ask.also)
            return strictest(judge(rules, approved, each, ask.patterns) for each in needed)

        return decide

    def rules(self, agent: str, lineage: Sequence[Session]) -> Effective:
        """The agent's own over its session's, and those of everyone it works for."""
        *above, session = lineage
        own = self.agents.get(agent).layers.rules + (session.permission or ())
        return Effective((own, *(self._above(each) for each in above)))

    def _above(self, session: Session) -> tuple[Rule, ...]:
        """Whom nobody knows any more lets nothing pass unasked."""
        try:
            layers = self.agents.get(session.agent or self.agents.default().name).layers
        except InvalidInput:
            return _ASK
        return layers.rules + (session.permission or ())

    def reminders(self, stepping: Stepping) -> tuple[str, ...]:
        texts = []
        if stepping.asked and stepping.agent == "plan":
            texts.append(prompt_text("plan-reminder"))
        if stepping.asked and stepping.agent != "plan" and stepping.agent_before == "plan":
            texts.append(prompt_text("build-switch"))
        if count := left(stepping.todos):
            texts.append(prompt_text("todo-reminder").format(count=count))
        if self._is_last(stepping):
            texts.append(prompt_text("max-steps"))
        return tuple(texts)

    def _is_last(self, stepping: Stepping) -> bool:
        try:
            steps = self.agents.get(stepping.agent).steps
        except InvalidInput:
            return False
        return steps is not None and stepping.number >= steps

    def model(self, agent: str) -> ModelRef | None:
        return self.agents.get(agent).model

    def titling(self, used: ModelRef) -> Request | None:
        try:
            agent = self.agents.get("title")
        except InvalidInput:  # it was disabled
            return None
        options = Options(temperature=agent.temperature, top_p=agent.top_p, body=agent.options)
        model = agent.model or self._texts.small_model or used
        return Request(model=model, messages=(), system=agent.prompt, options=options)


def _asking(tool: AnyTool) -> AnyTool:
    """A tool that says nothing of what it touches asks for leave under its name."""
    if tool.plan is not None:
        return tool
    ask = Ask(permission_of(tool.name), ("*",), ("*",))

    async def plan(args: Any, context: ToolContext) -> tuple[Ask, ...]:
        return (ask,)

    return tool.planned(plan)
