"""The demo's claims about its crew, checked against the store and the ledger."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.cli.demo_check import History
from asyncagents.cli.demo_crew import QUICK, STOCK, SUM, answer, title
from asyncagents.cli.demo_ledger import Effect
from asyncagents.cli.demo_screen import Screen
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.id import SessionId
from asyncagents.domain.message import UserMessage
from asyncagents.domain.part import TextPart
from asyncagents.engine.runtime import Runtime


class Team(Struct, frozen=True):
    """An orchestrator's history, and its tasks."""

    history: History
    tasks: tuple[BackgroundTask, ...]

    @property
    def said(self) -> str:
        return self.history[-1].text

    def by_title(self, thing: str) -> BackgroundTask:
        [task] = [task for task in self.tasks if task.description == title(thing)]
        return task


async def team(runtime: Runtime, root_id: SessionId) -> Team:
    return Team(await runtime.messages(root_id), await runtime.tasks.list(root_id))


def check_same(screen: Screen, slow: Team, fast: Team) -> None:
    results = [{task.description: task.result for task in each.tasks} for each in (slow, fast)]
    wanted = {title(thing): answer(thing) for thing in STOCK}
    screen.check(
        "Both did the same work: five tasks each, with the same five results, and the same answer.",
        holds=results == [wanted, wanted] and slow.said == fast.said == SUM,
        seen=(results, slow.said, fast.said),
    )


def check_told(screen: Screen, found: Team) -> None:
    """Check that the orchestrator's model reads one notice for each task."""
    told = [
        part.text
        for entry in found.history
        if isinstance(entry.info, UserMessage)
        for part in entry.parts
        if isinstance(part, TextPart) and part.synthetic
    ]
    times = [sum(text.count(f"Task {task.session_id} ") for text in told) for task in found.tasks]
    screen.check(
        "The orchestrator got exactly one notice for each of the five tasks.",
        holds=times == [1] * len(STOCK),
        seen=(times, told),
    )


def check_as_before(screen: Screen, before: Team, after: Team) -> None:
    kept = [(before.by_title(thing), after.by_title(thing)) for thing in QUICK]
    same = [(old.status, old.completed_at, old.result) for old, _ in kept] == [
        (new.status, new.completed_at, new.result) for _, new in kept
    ]
    results = {task.description: (task.status, task.result) for task in after.tasks}
    wanted = {title(thing): ("completed", answer(thing)) for thing in STOCK}
    screen.check(
        "What had ended stayed as it was; the three that were cut off went on, and all have their result.",
        holds=same and results == wanted and after.said == SUM,
        seen=(kept, results, after.said),
    )


def check_counted(screen: Screen, runs: Sequence[Effect], pid: int) -> None:
    """Check that the ledger has each count once, all by the killed process."""
    screen.check(
        "Nothing was run twice: five counts in the world outside, all by the process that was killed.",
        holds=len(runs) == len({run.key for run in runs}) == len(STOCK)
        and {run.pid for run in runs} == {pid},
        seen=runs,
    )
