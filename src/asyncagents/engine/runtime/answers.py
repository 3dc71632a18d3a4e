"""Futures of callers that wait for the answer to a prompt; the answer itself is a row."""

import asyncio

from msgspec import Struct

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.event import Event, PromptAnswered, SessionDeleted
from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.errors import Closed, NotFound
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit


class _Waiter(Struct, eq=False):
    session_id: SessionId
    message_id: MessageId
    future: asyncio.Future[MessageId]


class AnswerWaiters:
    def __init__(self) -> None:
        self._waiters: dict[MessageId, list[_Waiter]] = {}

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiters)

    def expect(self, session_id: SessionId, message_id: MessageId) -> asyncio.Future[MessageId]:
        """Return a future of the answer. Call it before storing the prompt: the answer may follow at once."""
        future = asyncio.get_running_loop().create_future()
        waiting = _Waiter(session_id, message_id, future)
        self._waiters.setdefault(message_id, []).append(waiting)
        future.add_done_callback(lambda done: self._forget(waiting))
        return future

    def _forget(self, waiting: _Waiter) -> None:
        others = self._waiters[waiting.message_id]
        others.remove(waiting)
        if not others:
            del self._waiters[waiting.message_id]

    def on_commit(self, commit: Commit) -> None:
        if not self._waiters:
            return
        for event in commit.events:
            self._handle_event(event)

    def _handle_event(self, event: Event) -> None:
        match event:
            case PromptAnswered(message_id=message_id, answer_id=answer_id):
                for waiting in self._waiters.get(message_id, ()):
                    if not waiting.future.done():
                        waiting.future.set_result(answer_id)
            case SessionDeleted(session_id=session_id):
                self._fail(NotFound("session", session_id), session_id)
            case _:
                pass

    def close(self) -> None:
        """Fail every waiting future: the runtime closes."""
        self._fail(Closed("the runtime was closed before the answer came; the prompt is stored"))

    def _fail(self, error: Exception, session_id: SessionId | None = None) -> None:
        for waiting in [each for some in self._waiters.values() for each in some]:
            if session_id in (None, waiting.session_id) and not waiting.future.done():
                waiting.future.set_exception(error)


class SubmittedPrompt:
    """An admitted prompt, with the future of its answer."""

    def __init__(
        self, store: Store, answers: AnswerWaiters, admitted: AdmitResult, answer: asyncio.Future[MessageId]
    ) -> None:
        self._store = store
        self._waiters = answers
        self._admitted = admitted
        self._answer = answer

    @property
    def message_id(self) -> MessageId:
        """The id of the prompt."""
        return self._admitted.message_id

    @property
    def is_new(self) -> bool:
        """False if the key was used before."""
        return self._admitted.new

    async def answer(self, session_id: SessionId) -> MessageWithParts:
        """Wait for the answer; for a key that was used before, the answer of the first prompt."""
        try:
            if self._admitted.new:
                return await self._store.message(await self._answer)
        finally:
            self._answer.cancel()
        return await self._stored_answer(session_id)

    async def _stored_answer(self, session_id: SessionId) -> MessageWithParts:
        answer = self._waiters.expect(session_id, self._admitted.message_id)
        try:
            known = (await self._store.input(self._admitted.message_id)).answer_id
            return await self._store.message(known or await answer)
        finally:
            answer.cancel()


async def submit_prompt(store: Store, answers: AnswerWaiters, fact: Admit) -> SubmittedPrompt:
    """Admit input and register for its answer first, which may follow at once."""
    answer = answers.expect(fact.session_id, fact.message.id)
    try:
        return SubmittedPrompt(store, answers, await store.admit(fact), answer)
    except BaseException:
        answer.cancel()
        raise
