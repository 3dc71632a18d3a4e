"""List, resume, cancel and explain tasks, and move them to the background."""

from collections.abc import Callable

from msgspec.structs import replace

from asyncagents.domain.call.waiting import OpenCall, describe_open_call, waits_outside_tree
from asyncagents.domain.fact import Resume
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import TaskWithProgress
from asyncagents.domain.task.view import BackgroundTask, background_task
from asyncagents.domain.why import CLAIM_GRACE_MS, Why, explain_session
from asyncagents.engine.input.intake import Intake
from asyncagents.engine.input.message import require_prompt
from asyncagents.engine.runtime.abort import Aborter
from asyncagents.engine.runtime.sessions import complete_session_id
from asyncagents.errors import Damaged, NotFound
from asyncagents.store.store import Store


class Tasks:
    """List, resume, cancel and explain the tasks of a runtime."""

    def __init__(self, *, store: Store, intake: Intake, aborter: Aborter) -> None:
        self.is_served_elsewhere: Callable[[str], bool] = _never_served
        """Whether another process serves a pool; set by the app."""
        self._store = store
        self._intake = intake
        self._aborter = aborter

    async def get(self, task_id: SessionId) -> BackgroundTask:
        """Return a task with its progress."""
        return _as_background_task(await self._store.task(task_id))

    async def find(self, start: str) -> BackgroundTask:
        """Find a task by its id or a unique beginning of it."""
        return await self.get(await complete_session_id(self._store, start))

    async def list(
        self, session_id: SessionId | None = None, *, live: bool = False, limit: int = 100
    ) -> tuple[BackgroundTask, ...]:
        """List tasks of a session's tree, oldest first; or all, newest first. `live`: those not ended."""
        if session_id is not None:
            seen = await self._store.tasks_of_tree(session_id)
        elif live:
            seen = await self._store.live_tasks()
        else:
            seen = await self._store.tasks(limit=limit)
        return tuple(_as_background_task(each) for each in seen if each.task.live or not live)

    async def batch(self, batch_id: str) -> tuple[BackgroundTask, ...]:
        """Return the tasks launched in one turn."""
        return tuple(_as_background_task(each) for each in await self._store.tasks_of_batch(batch_id))

    async def resume(self, task_id: SessionId, prompt: str, *, key: str | None = None) -> BackgroundTask:
        """Send a follow-up: an ended task begins another run, a live one reads it before its next step."""
        await self._store.task(task_id)
        require_prompt(prompt)
        try:
            async with self._intake.lock_key(task_id, key):
                fact = await self._intake.prepare_prompt(task_id, prompt, key=key, options={})
                await self._store.resume(Resume(task_id, fact, prompt))
        except NotFound as error:
            raise NotFound("session of task", f"{task_id} (start a new task instead)") from error
        return await self.get(task_id)

    async def background(self, task_id: SessionId) -> BackgroundTask:
        """Move a task to the background: its parent continues, and gets a notice of its end."""
        await self._store.actions.move_to_background(task_id)
        return await self.get(task_id)

    async def cancel(self, task_id: SessionId, *, key: str | None = None) -> bool:
        """Cancel a task with all below it; its parent gets a notice.

        Returns False if a run was still stopping after 5 seconds; the cancel itself is committed.
        The same key again cancels no later run.
        """
        await self._store.task(task_id)
        return await self._aborter.abort(task_id, key=key)

    async def cancel_batch(self, batch_id: str, *, key: str | None = None) -> bool:
        """Cancel all tasks of a batch that have not ended."""
        found = await self._store.tasks_of_batch(batch_id)
        if not found:
            raise NotFound("batch", batch_id)
        stopped = [await self._aborter.abort(each.task.id, key=key) for each in found if each.task.live]
        return all(stopped)

    async def list_awaited(self, session_id: SessionId, *, asks: bool = False) -> tuple[OpenCall, ...]:
        """List what a session's tree waits for outside; with `asks` only people, the oldest first."""
        root_id = (await self._store.control(session_id)).root_id
        if asks:
            return tuple(
                describe_open_call(each.call, each.lineage) for each in await self._store.asks(root_id)
            )
        calls = [
            call
            for each in await self._store.statuses(root_id)
            for call in await self._store.open_calls(each)
            if waits_outside_tree(call)
        ]
        return tuple(describe_open_call(call) for call in calls)

    async def why(self, session_id: SessionId) -> Why:
        """Explain why a session does not proceed."""
        try:
            situation = await self._store.situation(session_id)
        except Damaged as error:
            sentence = f"Its rows cannot be read: {error}"
            return Why(session_id=session_id, code="unreadable", sentence=sentence)
        lives = self._aborter.is_owner_alive(situation.control.owner)
        served = self._aborter.serves_pool(situation.control.pool) or self.is_served_elsewhere(
            situation.control.pool
        )
        why = explain_session(replace(situation, owner_lives=lives, served=served))
        here = self._aborter.serves_pool(situation.control.pool)
        if why.code in ("ready", "no_worker") and (
            here or situation.now - situation.updated >= CLAIM_GRACE_MS
        ):
            return await self._explain_missing_model(why)
        return why

    async def _explain_missing_model(self, why: Why) -> Why:
        """Replace the reason if the session waits for a model that cannot be asked."""
        lacks = await self._intake.gate.lacks_model(why.session_id)
        if lacks is None:
            return why
        sentence = f"It waits for a model, and goes on once there is one: {lacks}."
        return Why(session_id=why.session_id, code="no_model", sentence=sentence)


ANY_POOL = ""
"""Any pool."""


def _never_served(pool: str) -> bool:
    return False


def _as_background_task(seen: TaskWithProgress) -> BackgroundTask:
    return background_task(seen.task, seen.progress)
