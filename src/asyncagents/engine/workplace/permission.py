"""Decide whether a call may run: by the rules, by approvals, or by asking a person."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.permission import (
    EVERYTHING,
    POLLING,
    Action,
    LineageRules,
    RuleSet,
    rules_from_tools,
)
from asyncagents.domain.call.ask import PermissionRequest, ToolRef
from asyncagents.domain.call.call import WRITTEN_BY_PERSON, Call, Failed, Open
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.session import LaunchRights, Rule, Session, recall_launch
from asyncagents.domain.id import Ids
from asyncagents.domain.shape import encode
from asyncagents.engine.model_input import quote_model_text
from asyncagents.engine.tool import Ask, Policy, ToolContext
from asyncagents.engine.workplace.workplace import TOO_LATE, AskPolicy, Workplace, Workplaces, workplace_at
from asyncagents.errors import Damaged, InvalidInput, NotFound
from asyncagents.store.store import Store

DOOM_LOOP_REPEATS = 3
"""The same call with the same input so often in a row asks a person."""


_UNKNOWN_AGENT = "?"
"""Stands for an agent whose name cannot be read; no agent has this name."""
_ASK_RULE = Rule(permission="*", pattern="*", action="ask")


class PlannedCall(Struct, frozen=True):
    """A call, and the asks of its plan."""

    call: Call
    context: ToolContext
    asks: tuple[Ask, ...]

    def evaluate(self, policy: Policy) -> list[tuple[Ask, Action]]:
        return [(ask, policy(ask, self.context)) for ask in self.asks]


class RuleResolver:
    """Computes the effective rules of a session: those of its agent and of all its ancestors."""

    def __init__(self, store: Store, workplaces: Workplaces) -> None:
        self._store = store
        self._workplaces = workplaces

    async def effective_rules(
        self, workplace: Workplace, agent: str, session: Session, *, above: Sequence[Session] | None = None
    ) -> LineageRules | None:
        """Return the session's own rules and those of its ancestors, each by the files of its directory.
        `above`: the ancestors, if they were read just now."""
        own = workplace.rules(agent, session)
        if own is None or session.parent_id is None:
            return own
        if above is None:
            *above, _ = await self._store.lineage(session.id)
        sets = own.sets
        for parent, child in pairwise((*above, session)):
            sets += await self._parent_rules(parent, child)
        return LineageRules(tuple(dict.fromkeys(sets)))

    async def _parent_rules(self, parent: Session, child: Session) -> tuple[RuleSet, ...]:
        """Return the rules that a parent has now, and those that it had when it launched the child."""
        workplace = await workplace_at(self._workplaces, parent.directory)
        rights = child.launch_rights or await self._find_launch_rights(child)
        then = recall_launch(parent, rights) if rights else parent
        return _session_rules(workplace, parent).sets + _session_rules(workplace, then).sets

    async def _find_launch_rights(self, child: Session) -> LaunchRights | None:
        """Return the launch rights of a child of an older version, from its task; None: there is no task."""
        try:
            task = (await self._store.task(child.id)).task
        except NotFound:
            return None
        except Damaged:
            return LaunchRights(agent=_UNKNOWN_AGENT)
        return LaunchRights(agent=task.parent_agent)


def _session_rules(workplace: Workplace, session: Session) -> LineageRules:
    """Return the rules of a session by its agent; if the agent is gone, everything asks."""
    try:
        return workplace.rules(session.agent or "", session) or _rules_without_agent(session)
    except InvalidInput:
        return _rules_without_agent(session)


def _rules_without_agent(session: Session) -> LineageRules:
    """Return rules without an agent: everything asks, denials of the session count, approvals do not."""
    denials = tuple(rule for rule in session.permission or () if rule.action == "deny")
    mapped = tuple(rule for rule in rules_from_tools(session.tools or {}) if rule.action == "deny")
    return LineageRules((RuleSet((_ASK_RULE, *denials), mapped, asks_anew=(EVERYTHING,)),))


class Permissions:
    def __init__(self, *, store: Store, standing: RuleResolver, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._rule_resolver = standing
        self._clock = clock
        self._ids = ids

    async def permit(
        self, planned: PlannedCall, workplace: Workplace, session: Session
    ) -> Open | Failed | None:
        """Return None if the call may run; else the refusal or the open ask of its first ask not allowed."""
        call = planned.call
        planned = replace(planned, asks=(*_doom_loop_asks(call), *planned.asks))
        try:
            rules = await self._rule_resolver.effective_rules(
                workplace, _calling_agent(call, session), session
            )
            if rules is not None and rules.hides(call.tool):
                return Failed(f"Not allowed here: {call.tool}.")
            return await self._judge(planned, workplace, rules, session) if planned.asks else None
        except InvalidInput as error:  # the agent is gone
            return Failed(f"Not allowed: {error}.")

    async def judge_observed(
        self, planned: PlannedCall, workplace: Workplace, session: Session
    ) -> Open | Failed | None:
        """Decide a call that an external agent asks about: by its asks alone, whatever its tool is called."""
        rules = await self.call_rules(planned.call, workplace, session)
        return await self._judge(planned, workplace, rules, session) if planned.asks else None

    async def _judge(
        self, planned: PlannedCall, workplace: Workplace, rules: LineageRules | None, session: Session
    ) -> Open | Failed | None:
        call = planned.call
        agent = _calling_agent(call, session)
        judged = planned.evaluate(workplace.policy(agent, rules, ()))
        if any(action == "ask" for _, action in judged):
            approved = await self._store.approvals(session.project_id)
            judged = planned.evaluate(workplace.policy(agent, rules, approved)) if approved else judged
        if denied := [ask for ask, action in judged if action == "deny"]:
            return _denial(call, denied[0])
        for ask, action in judged:
            if action == "ask" and not {ask_hash := plan_hash(call, ask), WRITTEN_BY_PERSON} & set(
                call.granted
            ):
                decision = await _ask_hook(call, ask, workplace)
                if decision == "ask":
                    return workplace.ask_policy.refusal or self._open_ask(
                        call, ask, ask_hash, workplace.ask_policy
                    )
                if decision == "deny":
                    return _denial(call, ask)
        return None

    async def call_rules(self, call: Call, workplace: Workplace, session: Session) -> LineageRules | None:
        """Return the rules that apply to a call while it runs."""
        try:
            return await self._rule_resolver.effective_rules(
                workplace, _calling_agent(call, session), session
            )
        except InvalidInput:  # the agent is gone: everything asks
            return _rules_without_agent(session)

    def _open_ask(self, call: Call, ask: Ask, ask_hash: str, asking: AskPolicy) -> Open:
        request = PermissionRequest(
            id=self._ids.permission(),
            session_id=call.session_id,
            permission=ask.permission,
            patterns=ask.patterns,
            metadata=ask.metadata,
            always=ask.always,
            exact=ask.exact,
            tool=ToolRef(message_id=call.message_id, call_id=call.call_id),
        )
        now = self._clock.now()
        waits = asking.seconds if asking.silence != "park" else None
        return Open(
            kind="ask",
            since=now,
            due=now + int(waits * 1000) if waits else None,
            on_due=Failed(TOO_LATE, blocks=asking.silence == "fail"),
            ask=request,
            ask_hash=ask_hash,
            blocks=not asking.rejected_goes_on,
        )


async def _ask_hook(call: Call, ask: Ask, workplace: Workplace) -> Action:
    """Let the `permission.ask` hook decide what a person would be asked."""
    return await workplace.hooks.permission(call, ask) if "permission.ask" in workplace.hooks.names else "ask"


def _denial(call: Call, ask: Ask) -> Failed:
    return Failed(
        f"Not allowed here: {ask.permission} {quote_model_text(call.tool, ', '.join(ask.patterns))}."
    )


def _calling_agent(call: Call, session: Session) -> str:
    """Return the agent that made a call; calls of an older version do not store it."""
    return call.agent or session.agent or ""


def _doom_loop_asks(call: Call) -> tuple[Ask, ...]:
    """Return an ask for a call that repeats with the same input, in one step or over several."""
    timer = call.tool == "wait" and call.input.get("until") is None  # a timer may repeat
    if call.repeats < DOOM_LOOP_REPEATS - 1 or call.tool in POLLING or timer:
        return ()
    return (Ask("doom_loop", (call.tool,), (call.tool,), {"tool": call.tool, "input": call.input}),)


def plan_hash(call: Call, ask: Ask) -> str:
    """Hash the arguments and the ask that an answer is for; if either changes, it is asked again.

    Exact approvals are not part of the hash: asks of an older version may still be open.
    """
    plan = {
        "permission": ask.permission,
        "patterns": ask.patterns,
        "always": () if ask.exact else ask.always,
        "metadata": ask.metadata,
        "also": ask.also,
    }
    return hashlib.sha256(encode((call.tool, call.input, plan))).hexdigest()
