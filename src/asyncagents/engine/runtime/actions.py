"""Actions on a session: a prompt whose events are streamed, slash commands, compaction, shell."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Unpack

from asyncagents.domain.agent.command import Invocation
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import (
    CommandExecuted,
    Event,
    PromptAnswered,
    SessionDeleted,
    SessionError,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.fact import AdmitResult, NewShell
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.subscribe import subscribe_events
from asyncagents.engine.input.content_hash import with_hash
from asyncagents.engine.input.intake import Intake
from asyncagents.engine.input.message import InputBuilder, PromptOptions, require_prompt, require_text
from asyncagents.engine.runtime.answers import AnswerWaiters, SubmittedPrompt, submit_prompt
from asyncagents.errors import InvalidInput, RequestError
from asyncagents.store.store import Store


class SessionActions:
    """Actions on a session; the runtime offers them as its own methods."""

    def __init__(
        self,
        *,
        store: Store,
        bus: Bus,
        answers: AnswerWaiters,
        inputs: InputBuilder,
        intake: Intake,
        ids: Ids,
    ) -> None:
        self._store = store
        self._bus = bus
        self._answer_waiters = answers
        self._input_builder = inputs
        self._intake = intake
        self._ids = ids

    async def stream(
        self, session_id: SessionId, text: str, *, key: str | None = None, **options: Unpack[PromptOptions]
    ) -> AsyncGenerator[Event, None]:
        """Send a prompt and yield the session's events until it is answered, or the session is deleted."""
        async with subscribe_events(self._bus, self._store, session_id) as events:
            async with self._intake.lock_key(session_id, key):
                admitted = await self._store.admit(
                    await self._intake.prepare_prompt(session_id, text, key=key, options=options)
                )
            message_id = admitted.message_id
            if not admitted.new and (await self._store.input(message_id)).answer_id is not None:
                return
            async for event in events:
                yield event
                answered = isinstance(event, PromptAnswered) and event.message_id == message_id
                if answered or isinstance(event, SessionDeleted):
                    return

    async def admit_prompt(
        self,
        session_id: SessionId,
        text: str,
        *,
        key: str | None = None,
        wakes: bool = True,
        **options: Unpack[PromptOptions],
    ) -> AdmitResult:
        """Admit a prompt as `send` does, and say as well whether its key is new."""
        async with self._intake.lock_key(session_id, key):
            fact = await self._intake.prepare_prompt(session_id, text, key=key, options=options, wakes=wakes)
            return await self._store.admit(fact)

    async def command(
        self,
        session_id: SessionId,
        name: str,
        arguments: str = "",
        *,
        key: str | None = None,
        **options: Unpack[PromptOptions],
    ) -> MessageWithParts:
        """Run a slash command of the session's directory, as the prompt `/name arguments` does, and wait."""
        return await (await self.submit_command(session_id, name, arguments, key=key, **options)).answer(
            session_id
        )

    async def submit_command(
        self,
        session_id: SessionId,
        name: str,
        arguments: str = "",
        *,
        key: str | None = None,
        **options: Unpack[PromptOptions],
    ) -> SubmittedPrompt:
        """Admit a command and return at once; it is durable whether or not its `answer` is awaited."""
        invocation = Invocation(require_text(name, "a name"), require_text(arguments, "arguments"))
        async with self._intake.lock_key(session_id, key):
            fact = await self._intake.prepare_command(session_id, invocation, key=key, options=options)
            sent = await submit_prompt(self._store, self._answer_waiters, fact)
        if sent.is_new:
            self._publish_when_done(session_id, invocation, sent.message_id)
        return sent

    def _publish_when_done(
        self, session_id: SessionId, invocation: Invocation, message_id: MessageId
    ) -> None:
        """Publish `CommandExecuted` when the command is answered, also if its sender is gone by then."""

        def tell(answer: asyncio.Future[MessageId]) -> None:
            if answer.cancelled() or answer.exception() is not None:
                return
            done = CommandExecuted(
                name=invocation.name,
                session_id=session_id,
                arguments=invocation.arguments,
                message_id=answer.result(),
            )
            self._bus.publish(done)

        self._answer_waiters.expect(session_id, message_id).add_done_callback(tell)

    async def compact(
        self, session_id: SessionId, focus: str = "", *, key: str | None = None, model: str | None = None
    ) -> MessageWithParts:
        """Summarise the conversation to free room in the window; `focus`: what the summary should mind.

        `model` ("provider/model") writes this summary, unless the agent `compaction` has one of its own.
        """
        sent = await self.submit_compaction(session_id, focus, key=key, model=model)
        return await sent.answer(session_id)

    async def submit_compaction(
        self,
        session_id: SessionId,
        focus: str = "",
        *,
        key: str | None = None,
        model: str | ModelRef | None = None,
        goes_on: bool = False,
    ) -> SubmittedPrompt:
        """Admit a compaction and return at once; `goes_on`: the model then goes on with its work."""
        wish = require_text(focus, "a focus")
        options = PromptOptions(model=model)
        fact = self._input_builder.build_compaction(
            session_id, wish, key=key, options=options, goes_on=goes_on
        )
        fact = with_hash(await self._intake.gate.check_input(fact), key, options, focus=wish, goes_on=goes_on)
        return await submit_prompt(self._store, self._answer_waiters, fact)

    async def shell(
        self, session_id: SessionId, command: str, *, key: str | None = None, **options: Unpack[PromptOptions]
    ) -> MessageWithParts:
        """Run a command in the shell of a session that rests, as its person, and wait for its end.

        No rule and no model is asked; the model reads the output with the next prompt. There is no timeout:
        `abort` ends it. If the process dies meanwhile, the command is not run again.
        """
        return await (await self.submit_shell(session_id, command, key=key, **options)).answer(session_id)

    async def submit_shell(
        self,
        session_id: SessionId,
        command: str,
        *,
        key: str | None = None,
        **options: Unpack[PromptOptions],
    ) -> SubmittedPrompt:
        """Admit a shell command and return at once. Raises `SessionBusy` unless the session rests."""
        if not require_prompt(command).strip() or "\0" in command:
            raise InvalidInput("a command must have some text, without NUL characters")
        fact = with_hash(
            await self._intake.prepare_shell(session_id, key=key, options=options),
            key,
            options,
            shell=command,
        )
        new = NewShell(fact, command, self._ids.message())
        answer = self._answer_waiters.expect(session_id, fact.message.id)
        try:
            return SubmittedPrompt(
                self._store, self._answer_waiters, await self._store.actions.admit_shell(new), answer
            )
        except BaseException:
            answer.cancel()
            raise

    def publish_refusal(self, session_id: SessionId, error: RequestError) -> None:
        """Publish a refused request as an event, for clients that ignore the response."""
        self._bus.publish(SessionError(session_id=session_id, error=unknown_error(str(error))))

    async def publish_idle(self, session_id: SessionId) -> None:
        """Publish the idle status again, for a listener that missed it; not if the session works by now."""
        status = await self._store.status(session_id)
        if isinstance(status, Idle):
            self._bus.publish(SessionStatus(session_id=session_id, status=status))
            self._bus.publish(SessionIdle(session_id=session_id))

    async def background(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Move the tasks that a session waits for to the background; return their ids."""
        return await self._store.actions.move_all_to_background(session_id)
