"""Add a step when a plugin's note at the end of an answer asks for it, limited per prompt."""

from msgspec.structs import replace

from asyncagents.config.config import NUDGES
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.continuation import continuation_key_prefix
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids
from asyncagents.domain.step import StepEnd
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.store.store import Store


class Continuation:
    """Its input commits with the step and is counted in the inbox, so the limit survives a crash."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def extend_step(self, end: StepEnd, workplace: Workplace) -> StepEnd:
        """Add the input that makes the turn go on, if this step would be its last one.

        Reminders of todos count towards the limit; where they are off, their default number is the limit.
        """
        message = end.message
        answered = message.finish == "stop" and message.error is None and message.structured is None
        if not answered or end.calls or end.facts:
            return end
        keys = continuation_key_prefix(await self._store.newest_prompt(message.session_id))
        if await self._store.count_inputs(message.session_id, keys) >= (workplace.nudges or NUDGES):
            return end
        target = MessageTarget(message.session_id, message.agent, message.model_ref)
        system_message = build_system_message(
            target, prompt_text("note-go-on"), ids=self._ids, now=self._clock.now()
        )
        key = f"{keys}note:{message.id}"
        return replace(
            end,
            goes_on=Admit(
                message=system_message.message, parts=(system_message.part,), key=key, source="system"
            ),
        )
