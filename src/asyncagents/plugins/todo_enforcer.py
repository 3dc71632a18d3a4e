"""Reminds an agent that stops with unfinished todos, up to a limit and not twice without progress."""

import hashlib

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.continuation import continuation_key_prefix
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.conversation.todo import Todo, unfinished_todos
from asyncagents.domain.envelope import escape_tags
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids
from asyncagents.domain.session_state import RestReason, Snapshot
from asyncagents.domain.shape import encode
from asyncagents.engine.runner import Continue, RestVerdict
from asyncagents.engine.workplace.permission import RuleResolver
from asyncagents.engine.workplace.workplace import Workplaces, workplace_at
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store


class TodoEnforcer:
    """A `BeforeRest`. Its reminders are counted in the inbox, so the count survives a crash."""

    def __init__(self, *, store: Store, workplaces: Workplaces, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._workplaces = workplaces
        self._standing = RuleResolver(store, workplaces)
        self._clock = clock
        self._ids = ids

    async def __call__(self, snapshot: Snapshot, reason: RestReason) -> RestVerdict:
        step, session = snapshot.step, snapshot.info
        more = snapshot.calls or snapshot.unread
        if reason != "done" or more or step is None or session is None or step.finish != "stop":
            return ()
        if step.structured is not None:  # the structured answer is final
            return ()
        if await self._store.count_live(session.id):  # it waits for its tasks
            return ()
        left = unfinished_todos(await self._store.todos(session.id))
        if not left or not await self._may_keep_todos(session, step.agent):
            return ()
        key = await self._new_key(session, left)
        return () if key is None else Continue(self._nudge(session, step, left, key))

    async def _may_keep_todos(self, session: Session, agent: str) -> bool:
        """Tell whether the agent may write todos."""
        workplace = await workplace_at(self._workplaces, session.directory)
        try:
            rules = await self._standing.effective_rules(workplace, agent, session)
        except InvalidInput:  # the agent is gone
            return False
        return "todowrite" in workplace.tools and not (rules is not None and rules.hides("todowrite"))

    async def _new_key(self, session: Session, left: tuple[Todo, ...]) -> str | None:
        """Return the next reminder's key; None at the limit since the last prompt, or without progress."""
        workplace = await workplace_at(self._workplaces, session.directory)
        spoken = continuation_key_prefix(await self._store.newest_prompt(session.id))
        worked = await self._store.last_call_id(session.id)
        key = spoken + hashlib.sha256(encode((left, worked))).hexdigest()[:16]
        if await self._store.count_inputs(session.id, key):
            return None
        return key if await self._store.count_inputs(session.id, spoken) < workplace.nudges else None

    def _nudge(self, session: Session, step: AssistantMessage, left: tuple[Todo, ...], key: str) -> Admit:
        target = MessageTarget(session.id, step.agent, step.model_ref)
        system_message = build_system_message(
            target, todo_reminder(left), ids=self._ids, now=self._clock.now()
        )
        return Admit(message=system_message.message, parts=(system_message.part,), key=key, source="system")


def todo_reminder(left: tuple[Todo, ...]) -> str:
    listed = "".join(
        f"- [ ] {escape_tags(' '.join(todo.content.split()), files=True)} ({todo.status})\n" for todo in left
    )
    return (
        "[SYSTEM REMINDER - TODO CONTINUATION]\n"
        f"You have {len(left)} incomplete TODO items:\n{listed}\n"
        "You MUST complete all TODOs before stopping. Continue working on the next pending item."
    )
