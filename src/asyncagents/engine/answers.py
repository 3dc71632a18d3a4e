"""Callers that wait for the answer to a prompt; the answer itself is a row."""

import asyncio

from asyncagents.domain.event import PromptAnswered
from asyncagents.domain.id import MessageId
from asyncagents.store.tx import Commit


class Answers:
    def __init__(self) -> None:
        self._waiting: dict[MessageId, list[asyncio.Future[MessageId]]] = {}

    def expect(self, message_id: MessageId) -> asyncio.Future[MessageId]:
        """Ask before the prompt is stored: the answer may be there at once."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(message_id, [])
        waiting.append(future)
        future.add_done_callback(lambda done: self._forget(message_id, done))
        return future

    def _forget(self, message_id: MessageId, future: asyncio.Future[MessageId]) -> None:
        waiting = self._waiting.get(message_id, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(message_id, None)

    def committed(self, commit: Commit) -> None:
        if not self._waiting:
            return
        for event in commit.events:
            if isinstance(event, PromptAnswered):
                for future in list(self._waiting.get(event.message_id, ())):
                    if not future.done():
                        future.set_result(event.answer_id)
