"""A world where people run commands of their own in sessions, between and beside their prompts."""

import asyncio
import json
import sqlite3
from contextlib import nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents.app.assemble import Setup
from asyncagents.domain.call.call import Call, Completed
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.tool import Outcome, Tool, ToolContext
from asyncagents.engine.tool import ask_everything as ask
from asyncagents.errors import SessionBusy
from asyncagents.testing.process import Process
from tests.simulation.cast import Cast, Gatehouse, Props, WildModel, nobody_objects
from tests.simulation.scenario import ACTIVE_SECONDS, Scenario
from tests.simulation.stage import Stage, Violation

SHELLS = 3_000_000
"""From this seed on."""


class Command(Struct, frozen=True):
    command: str


class ShellCast(Cast):
    def setup(self, process: Process) -> Setup:
        hands = Hands(self._stage, process, self._seed)
        place = Gatehouse((*hands.tools(), Tool("bash", Command, hands.bash)), ask)
        model = WildModel(self._stage, process, self._seed)
        return Setup(
            model=model, open_workplaces=lambda launcher: nullcontext(place), before_rest=nobody_objects
        )


class Hands(Props):
    async def bash(self, args: Command, context: ToolContext) -> Outcome:
        """It touches the world somewhere in the middle."""
        session = self._stage.name(context.session_id)
        self._stage.enter(session, self._process.number)
        try:
            rng = self._rng(context)
            context.report({"output": "begun"})
            await asyncio.sleep(rng.choice([0, 1.0, 3.0]) * rng.random())
            self._affect("bash", context)
            await asyncio.sleep(rng.choice([0, 1.0]) * rng.random())
            return Completed(args.command)
        finally:
            self._stage.leave(session, self._process.number)


class ShellWorld(Scenario):
    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed, path)
        self.setup = ShellCast(self.stage, seed).setup
        self.ran: dict[str, MessageId] = {}
        """What was acknowledged: by its command, the message that answered."""
        self.refused: set[str] = set()

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        shells = [group.create_task(self._shell()) for _ in range(self.rng.randrange(4, 14))]
        return [*super()._begin(group), *shells]

    async def _shell(self) -> None:
        await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS)
        session_id = self.rng.choice(self.stage.sessions)
        await self.attempt(lambda: self._run(session_id))

    async def _run(self, session_id: SessionId) -> None:
        key, command = self.text(session_id, "shell")
        send = self.insist if self.rng.random() < 0.8 else self.request
        try:
            answer = await send(lambda r: r.shell(session_id, command, key=key))
        except SessionBusy:
            self.refused.add(command)
            self.stage.count("refused shells")
            return
        self.ran[command] = answer.info.id
        self.stage.count("shells")


def check_shells(world: ShellWorld, path: Path) -> None:
    """X-01: a command runs at most once, in a turn of its own that asks no model, and has its answer."""
    db = sqlite3.connect(path)
    try:
        rows = [msgspec.json.decode(row[0], type=Call) for row in db.execute("SELECT body FROM call")]
        own = [call for call in rows if call.is_run_by_person]
        commands = [call.input["command"] for call in own]
        _check_kept(world, commands)
        for call in own:
            _check_turn(db, world.stage, call, world.ran)
    finally:
        db.close()


def _check_kept(world: ShellWorld, commands: list[str]) -> None:
    if len(commands) > len(set(commands)):
        raise Violation("X-01: a command stands twice")
    if missing := world.ran.keys() - set(commands):
        raise Violation(f"X-01: acknowledged, and gone: {sorted(missing)}")
    if kept := world.refused & set(commands):
        raise Violation(f"X-01: refused, and kept: {sorted(kept)}")


def _check_turn(db: sqlite3.Connection, stage: Stage, call: Call, ran: dict[str, MessageId]) -> None:
    command = call.input["command"]
    done = [effect for effect in stage.effects if effect.call_id == call.id]
    if len(done) > 1:
        raise Violation(f"X-01: {command!r} ran {len(done)} times")
    query = "SELECT info FROM message WHERE session_id = ? AND turn = ? ORDER BY position"
    said, step, *more = (json.loads(row[0]) for row in db.execute(query, (call.session_id, call.turn)))
    # What nobody could begin to answer afterwards is closed with an error, outside of any turn.
    if step["id"] != call.message_id or "finish" in step or not all("error" in each for each in more):
        raise Violation(f"X-01: the turn of {command!r} has more to it: {step}, {more}")
    (answer,) = db.execute("SELECT answer_id FROM input WHERE message_id = ?", (said["id"],)).fetchone()
    if answer != call.message_id or ran.get(command, answer) != answer:
        raise Violation(f"X-01: {command!r} was answered by {answer}")
