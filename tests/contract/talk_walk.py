"""A walk on which people also copy conversations, and take things out of them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from asyncagents.domain.conversation.copy import copy_conversation
from asyncagents.domain.conversation.session import NewSession, SessionChanges
from asyncagents.errors import SessionBusy
from tests.contract.build import POOL, PROJECT
from tests.contract.walk import MAX_SESSIONS, Walk


class TalkWalk(Walk):
    def _moves(self) -> list[Callable[[], Awaitable[None]]]:
        return [*super()._moves(), self.fork, self.cut, self.cut, self.cut_part, self.rename]

    async def rename(self) -> None:
        change = SessionChanges(title=f"title {self.rng.randrange(9)}", archived=self.rng.choice([None, 5]))
        await self.lab.store.conversation.update_session(await self._any_session(), change)

    async def fork(self) -> None:
        if len(await self.lab.store.sessions(PROJECT)) < MAX_SESSIONS:
            source = await self.lab.store.conversation.copy_source(await self._any_session())
            info = self.lab.info()
            copy = copy_conversation(source.messages, to=info.id, ids=self.lab.ids, now=self.lab.clock.now())
            await self.lab.store.conversation.copy_session(NewSession(info=info, pool=POOL), copy)

    async def cut(self) -> None:
        session_id = await self._any_session()
        entries = await self.lab.store.messages(session_id)
        if entries:
            with suppress(SessionBusy):
                gone = self.rng.choice(entries).info.id
                await self.lab.store.conversation.remove_message(session_id, gone)

    async def cut_part(self) -> None:
        session_id = await self._any_session()
        entries = [each for each in await self.lab.store.messages(session_id) if each.parts]
        if entries:
            entry = self.rng.choice(entries)
            part_id = self.rng.choice(entry.parts).id
            assert part_id is not None
            with suppress(SessionBusy):
                await self.lab.store.conversation.remove_part(session_id, entry.info.id, part_id)
