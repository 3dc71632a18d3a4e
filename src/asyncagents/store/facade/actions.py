"""Store facade for what people do in a session without the model: shell commands, tasks to the background."""

from asyncagents.domain.fact import Admitted
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Task
from asyncagents.store.verb import background, shell
from asyncagents.store.verb.shell import NewShell
from asyncagents.store.verb_runner import Door


class HandStore(Door):
    async def shell(self, new: NewShell) -> Admitted:
        """Admit a shell command to a session that rests. The same key again changes nothing."""
        return await self._write(lambda tx: shell.shell(tx, new))

    async def background(self, task_id: SessionId) -> Task:
        """Move a task to the background: its parent goes on now and gets a notice when the task ends."""
        return await self._write(lambda tx: background.background(tx, task_id))

    async def background_all(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Move all tasks that a session waits for to the background; returns their ids."""
        return await self._write(lambda tx: background.background_all(tx, session_id))
