"""Actions on a session other than a prompt: slash commands, compaction, shell."""

import asyncio
from typing import Unpack

from asyncagents.domain.agent.command import Invocation
from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.conversation.failure import unknown
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import CommandExecuted, SessionError, SessionIdle, SessionStatus
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.input.content_hash import with_hash
from asyncagents.engine.input.intake import Intake
from asyncagents.engine.input.message import Inputs, To, a_prompt, a_text
from asyncagents.engine.runtime.answers import Answers, Sent, send
from asyncagents.errors import InvalidInput, RequestError
from asyncagents.store.store import Store
from asyncagents.store.verb.shell import NewShell


class Doing:
    """Commands, compaction and shell of a session."""

    def __init__(
        self, *, store: Store, bus: Bus, answers: Answers, inputs: Inputs, intake: Intake, ids: Ids
    ) -> None:
        self._store = store
        self._bus = bus
        self._answers = answers
        self._inputs = inputs
        self._intake = intake
        self._ids = ids

    async def command(
        self,
        session_id: SessionId,
        name: str,
        arguments: str = "",
        *,
        key: str | None = None,
        **to: Unpack[To],
    ) -> Entry:
        """Run a slash command of the session's directory, as the prompt `/name arguments` does, and wait."""
        return await (await self.hand_in_command(session_id, name, arguments, key=key, **to)).answer(
            session_id
        )

    async def hand_in_command(
        self,
        session_id: SessionId,
        name: str,
        arguments: str = "",
        *,
        key: str | None = None,
        **to: Unpack[To],
    ) -> Sent:
        """Admit a command and return at once; it is durable whether or not its `answer` is awaited."""
        called = Invocation(a_text(name, "a name"), a_text(arguments, "arguments"))
        async with self._intake.alone(session_id, key):
            fact = await self._intake.command(session_id, called, key=key, to=to)
            sent = await send(self._store, self._answers, fact)
        if sent.new:
            self._tell_when_done(session_id, called, sent.message_id)
        return sent

    def _tell_when_done(self, session_id: SessionId, called: Invocation, message_id: MessageId) -> None:
        """Publish `CommandExecuted` when the command is answered, also if its sender is gone by then."""

        def tell(answer: asyncio.Future[MessageId]) -> None:
            if answer.cancelled() or answer.exception() is not None:
                return
            done = CommandExecuted(
                name=called.name,
                session_id=session_id,
                arguments=called.arguments,
                message_id=answer.result(),
            )
            self._bus.publish(done)

        self._answers.expect(session_id, message_id).add_done_callback(tell)

    async def compact(
        self, session_id: SessionId, focus: str = "", *, key: str | None = None, model: str | None = None
    ) -> Entry:
        """Summarise the conversation to free room in the window; `focus`: what the summary should mind.

        `model` ("provider/model") writes this summary, unless the agent `compaction` has one of its own.
        """
        sent = await self.hand_in_summary(session_id, focus, key=key, model=model)
        return await sent.answer(session_id)

    async def hand_in_summary(
        self,
        session_id: SessionId,
        focus: str = "",
        *,
        key: str | None = None,
        model: str | ModelRef | None = None,
        goes_on: bool = False,
    ) -> Sent:
        """Admit a compaction and return at once; `goes_on`: the model then goes on with its work."""
        wish = a_text(focus, "a focus")
        to = To(model=model)
        fact = self._inputs.compaction(session_id, wish, key=key, to=to, goes_on=goes_on)
        fact = with_hash(await self._intake.gate.check_input(fact), key, to, focus=wish, goes_on=goes_on)
        return await send(self._store, self._answers, fact)

    async def shell(
        self, session_id: SessionId, command: str, *, key: str | None = None, **to: Unpack[To]
    ) -> Entry:
        """Run a command in the shell of a session that rests, as its person, and wait for its end.

        No rule and no model is asked; the model reads the output with the next prompt. There is no timeout:
        `abort` ends it. If the process dies meanwhile, the command is not run again.
        """
        return await (await self.hand_in_shell(session_id, command, key=key, **to)).answer(session_id)

    async def hand_in_shell(
        self,
        session_id: SessionId,
        command: str,
        *,
        key: str | None = None,
        **to: Unpack[To],
    ) -> Sent:
        """Admit a shell command and return at once. Raises `SessionBusy` unless the session rests."""
        if not a_prompt(command).strip() or "\0" in command:
            raise InvalidInput("a command must have some text, without NUL characters")
        fact = with_hash(await self._intake.own(session_id, key=key, to=to), key, to, shell=command)
        new = NewShell(fact, command, self._ids.message())
        answer = self._answers.expect(session_id, fact.message.id)
        try:
            return Sent(self._store, self._answers, await self._store.by_hand.shell(new), answer)
        except BaseException:
            answer.cancel()
            raise

    def say_refused(self, session_id: SessionId, error: RequestError) -> None:
        """Publish a refused request as an event, for clients that ignore the response."""
        self._bus.publish(SessionError(session_id=session_id, error=unknown(str(error))))

    async def say_idle(self, session_id: SessionId) -> None:
        """Publish the idle status again, for a listener that missed it; not if the session works by now."""
        status = await self._store.status(session_id)
        if isinstance(status, Idle):
            self._bus.publish(SessionStatus(session_id=session_id, status=status))
            self._bus.publish(SessionIdle(session_id=session_id))

    async def background(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Move the tasks that a session waits for to the background; return their ids."""
        return await self._store.by_hand.background_all(session_id)
