"""Store facade for what people do in a session without the model: shell commands, tasks to the background."""

from asyncagents.domain.fact import AdmitResult
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Task
from asyncagents.store.verb import background, shell
from asyncagents.store.verb.shell import NewShell
from asyncagents.store.verb_runner import VerbRunner


class ActionStore(VerbRunner):
    async def admit_shell(self, new: NewShell) -> AdmitResult:
        """Admit a shell command to a session that rests. The same key again changes nothing."""
        return await self._write(lambda tx: shell.admit_shell(tx, new))

    async def move_to_background(self, task_id: SessionId) -> Task:
        """Move a task to the background: its parent goes on now and gets a notice when the task ends."""
        return await self._write(lambda tx: background.move_to_background(tx, task_id))

    async def move_all_to_background(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """Move all tasks that a session waits for to the background; returns their ids."""
        return await self._write(lambda tx: background.move_all_to_background(tx, session_id))
