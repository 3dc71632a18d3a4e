"""The door to what people do in sessions themselves, past the model."""

from asyncagents.domain.fact import Admitted
from asyncagents.domain.id import SessionId
from asyncagents.domain.task import Task
from asyncagents.store.door import Door
from asyncagents.store.verb import background, shell
from asyncagents.store.verb.shell import NewShell


class HandStore(Door):
    async def shell(self, new: NewShell) -> Admitted:
        """Have a session that rests run a command. The same key again changes nothing."""
        return await self._write(lambda tx: shell.shell(tx, new))

    async def background(self, task_id: SessionId) -> Task:
        """Let whoever waits for a task go on; a notice tells of its end."""
        return await self._write(lambda tx: background.background(tx, task_id))

    async def background_all(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Let a session go on that waits for tasks; which tasks that were."""
        return await self._write(lambda tx: background.background_all(tx, session_id))
