"""Tasks in a few words: launched, at work, ended, and what their parents are to be told."""

from typing import Any

from asyncagents.domain.call.call import Call, Completed, Open, Running, WaitFor
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.fact import Spawn
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.task.task import Task, batch_of
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.task import task_columns
from tests.support.store.lab import Lab, Step


class Parent:
    """A session with one step whose calls launch tasks."""

    def __init__(self, lab: Lab, claim: Claim, step: Step, calls: list[Call]) -> None:
        self.lab = lab
        self.id = claim.session_id
        self.lease = claim
        self.step = step
        self.calls = calls

    def spawn(self, call: Call, **more: Any) -> Spawn:
        """The fact of a launch; `more` is the task's."""
        lab = self.lab
        info = lab.info(parent=self.id)
        limits = {name: more.pop(name, default) for name, default in (("deepest", 3), ("most", 200))}
        background = more.pop("background", True)
        task = Task(
            id=info.id,
            parent_id=self.id,
            message_id=self.step.id,
            parent_agent="build",
            agent="general",
            description=more.pop("description", "Find it"),
            prompt="look",
            batch=batch_of(self.id, 1),
            created=lab.clock.now(),
            began=lab.clock.now(),
            background=background,
            calls=() if background else (call.id,),
            **more,
        )
        first = lab.input(info.id, "look", key=f"task:{info.id}")
        return Spawn(info=info, first=first, task=task, **limits)

    async def launch(self, call: Call, **more: Any) -> SessionId:
        """In the background, or (`background=False`) with the call open until it ends."""
        fact = self.spawn(call, **more)
        if fact.task.background:
            await self.lab.store.finish_call(self.lease, call.id, Completed("launched"), (fact,))
        else:
            state = Open(kind="task", since=self.lab.clock.now())
            await self.lab.store.open_call(self.lease, call.id, state, (fact,))
        return fact.info.id

    async def watch(self, call: Call, task_id: SessionId, *, any: bool = False) -> None:
        wait = WaitFor(task_id, "asyncagents_output", any=any)
        state = Open(kind="wait", since=self.lab.clock.now(), watch=wait)
        await self.lab.store.open_call(self.lease, call.id, state)

    async def rest(self) -> bool:
        """Its turn ends with an answer."""
        lab = self.lab
        step = await lab.step(self.lease)
        await lab.end(self.lease, step)
        control = await lab.store.control(self.id)
        return await lab.store.rest(self.lease, control.wake_seq, "done")


async def open_parent(lab: Lab, count: int = 1, *, tool: str = "task") -> Parent:
    """`count` calls have begun."""
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    calls = [lab.call(step, tool=tool) for _ in range(count)]
    await lab.end(claim, step, *calls)
    moved = [await lab.move(claim, call, Running(claim.fence)) for call in calls]
    return Parent(lab, claim, step, moved)


async def open_middle(lab: Lab, child: SessionId, count: int = 1) -> Parent:
    """A task at work that launches tasks itself."""
    claim = await lab.claim(child)
    step = await lab.step(claim)
    calls = [lab.call(step, tool="task") for _ in range(count)]
    await lab.end(claim, step, *calls)
    return Parent(lab, claim, step, [await lab.move(claim, call, Running(claim.fence)) for call in calls])


async def work_child(lab: Lab, child: SessionId, text: str = "Red.", *, error: Failure | None = None) -> None:
    """A child answers and rests."""
    claim = await lab.claim(child)
    step = await lab.step(claim)
    await lab.end(claim, step, text=text, error=error)
    control = await lab.store.control(child)
    assert await lab.store.rest(claim, control.wake_seq, "error" if error else "done")


async def open_notices(lab: Lab, session_id: SessionId) -> list[tuple[str, int, str]]:
    """(task, run, state) of those that a session has not been told of."""
    rows: list[Row] = await lab.database.read(lambda tx: tx.all("open_notices", session_id))
    return [(row[0], row[1], row[2]) for row in rows]


async def task_row(lab: Lab, task_id: SessionId) -> tuple[bytes, int]:
    row = await lab.database.read(lambda tx: tx.one("task", task_id))
    assert row is not None
    return row[0], row[1]


async def rewrite_task(lab: Lab, task: Task, raw: bytes, version: int) -> None:
    async def verb(tx: Tx) -> None:
        await tx.run("put_task", *task_columns(task), raw, version, await tx.rev())

    await lab.database.write(verb)
