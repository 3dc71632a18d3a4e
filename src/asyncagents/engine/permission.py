"""Whether a call may run: by the rules, by what was approved for good, or by asking a person."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.ask import PermissionRequest, ToolRef
from asyncagents.domain.call import BY_HAND, Call, Failed, Open
from asyncagents.domain.id import Ids
from asyncagents.domain.permission import Action, Effective
from asyncagents.domain.port import Clock
from asyncagents.domain.session import Session
from asyncagents.domain.shape import encode
from asyncagents.engine.tool import Ask, Policy, ToolContext
from asyncagents.engine.workplace import TOO_LATE, Asking, Workplace
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store

DOOM_LOOP = 3
"""So often the same call with the same input in a row, and somebody is asked."""


class Wish(Struct, frozen=True):
    """A call, and what it would touch."""

    call: Call
    context: ToolContext
    asks: tuple[Ask, ...]

    def judged(self, policy: Policy) -> list[tuple[Ask, Action]]:
        return [(ask, policy(ask, self.context)) for ask in self.asks]


class Permissions:
    def __init__(self, *, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def permit(self, wish: Wish, place: Workplace, session: Session) -> Open | Failed | None:
        """None: it may run. The first thing that is not allowed outright is refused, or asked for."""
        wish = replace(wish, asks=(*_doom_loop(wish.call), *wish.asks))
        if not wish.asks:
            return None
        try:
            return await self._judged(wish, place, await self._lineage(session))
        except InvalidInput as error:  # the agent is gone
            return Failed(f"Not allowed: {error}.")

    async def _judged(self, wish: Wish, place: Workplace, lineage: Sequence[Session]) -> Open | Failed | None:
        call = wish.call
        judged = wish.judged(place.policy(call.agent, lineage, ()))
        if any(action == "ask" for _, action in judged):
            approved = await self._store.approvals(lineage[-1].project_id)
            judged = wish.judged(place.policy(call.agent, lineage, approved))
        for ask, action in judged:
            if action == "deny":
                return Failed(f"Not allowed here: {ask.permission} {', '.join(ask.patterns)}.")
        for ask, action in judged:
            if action == "ask" and not {ask_hash := _hash(call, ask), BY_HAND} & set(call.granted):
                return place.asking.refusal or self._ask(call, ask, ask_hash, place.asking)
        return None

    async def rules(self, call: Call, place: Workplace, session: Session) -> Effective | None:
        """What counts for a call while it runs."""
        try:
            return place.rules(call.agent, await self._lineage(session))
        except InvalidInput:  # the agent is gone: it may do nothing unasked
            return Effective(())

    async def _lineage(self, session: Session) -> tuple[Session, ...]:
        return (session,) if session.parent_id is None else await self._store.lineage(session.id)

    def _ask(self, call: Call, ask: Ask, ask_hash: str, asking: Asking) -> Open:
        request = PermissionRequest(
            id=self._ids.permission(),
            session_id=call.session_id,
            permission=ask.permission,
            patterns=ask.patterns,
            metadata=ask.metadata,
            always=ask.always,
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


def _doom_loop(call: Call) -> tuple[Ask, ...]:
    """The same again and again, in one step or over several: perhaps it leads nowhere."""
    if call.repeats < DOOM_LOOP - 1:
        return ()
    return (Ask("doom_loop", (call.tool,), (call.tool,), {"tool": call.tool, "input": call.input}),)


def _hash(call: Call, ask: Ask) -> str:
    """An answer is for these arguments and this plan; if either changes, it is asked again."""
    return hashlib.sha256(encode((call.tool, call.input, ask))).hexdigest()
