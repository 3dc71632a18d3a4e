"""What external agents keep, and what their programs did: it outlives all processes of a world."""

import asyncio
import random
import re
from typing import Any, TypeAlias

from msgspec import Struct, field

from asyncagents.domain.id import SessionId
from asyncagents.engine.external.agent import ExternalStep
from asyncagents.remote.acp.opening import load_text
from asyncagents.remote.acp.replay import WORK
from asyncagents.testing.process import Process
from tests.simulation.stage import Stage

JsonObject: TypeAlias = dict[str, Any]
INPUT = re.compile(r"^(?:(?:s\d+|t\d+x\d+):.*|(?:more of|again) t\d+x\d+)$", re.MULTILINE)
"""A line of a prompt that is an input; lines of transcripts begin with their speaker."""
INSTRUCTIONS = "Be kind."
FREE, ASKED, DENIED = "https://free.example", "https://ask.example", "https://deny.example"


class Persona(Struct, frozen=True, kw_only=True):
    """How an external agent is made."""

    loads: bool
    resumes: bool
    forgets: float
    """How often it does not know a session any more."""
    shows_prompts: bool
    """Whether its replay holds the prompts."""
    splits: bool
    """Whether its replay shows the blocks of a prompt one by one."""
    stores_late: bool
    """Whether it stores what it does after it is shown: its end may come in between."""
    doubles: bool
    """Whether it shows the end of a replay once more after the load."""
    numbers_anew: bool
    """Whether each prompt counts its calls from one."""
    moves: bool
    """Whether some processes know it by another command."""


def draw_persona(rng: random.Random) -> Persona:
    loads, resumes = rng.choice([(True, True), (True, False), (True, False), (False, True), (False, False)])
    return Persona(
        loads=loads,
        resumes=resumes,
        forgets=rng.choice([0, 0, 0.1, 0.3]),
        shows_prompts=rng.random() < 0.85,
        splits=rng.random() < 0.4,
        stores_late=rng.random() < 0.25,
        doubles=rng.random() < 0.5,
        numbers_anew=rng.random() < 0.5,
        moves=rng.random() < 0.1,
    )


class Prompted(Struct, kw_only=True):
    """A prompt that a program got, and what it did about it."""

    session_id: SessionId
    step_id: str
    external_id: str
    texts: tuple[str, ...]
    at: float
    said: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """What it said after its answer."""
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    """How each of its calls ended first: status and output."""
    asked: set[str] = field(default_factory=set)
    """Calls that asked for a permission."""
    outcome: str = ""
    """The reason with which it answered; empty: it did not."""


class Allowed(Struct, frozen=True):
    """A program read that it may make a call."""

    session_id: SessionId
    url: str
    call: tuple[str, str]
    """The step and the program's own id of the call."""


class Pipe:
    """Bytes from one side to the other; what was written can be read after the end."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ended = False
        self._ready = asyncio.Event()

    def feed(self, data: bytes) -> None:
        if not self._ended:
            self._data += data
            self._ready.set()

    def end(self, *, drop: bool = False) -> None:
        self._ended = True
        if drop:
            self._data.clear()
        self._ready.set()

    async def read(self) -> bytes:
        await self._ready.wait()
        data = bytes(self._data)
        self._data.clear()
        if not self._ended:
            self._ready.clear()
        return data


class ForeignProgram:
    """Implements `AgentProgram` in memory. It ends with its process, or before."""

    def __init__(self, number: int, step: ExternalStep, process: Process, *, stage: Stage, name: str) -> None:
        self.number = number
        self.step = step
        self.process = process
        self.opened = self.now
        self.closed: float | None = None
        self.broke = False
        """Whether it ended of itself."""
        self.erred = False
        """Whether it answered a request with an error, or not at all."""
        self.prompted: Prompted | None = None
        """The prompt that it got."""
        self.answered = False
        """Whether it was given an answer to an ask."""
        self.hangs = False
        """Whether it waits to be cancelled."""
        self.refused = False
        """Whether the known session could not be opened."""
        self.offers_nothing = False
        """Whether it can neither load nor resume a session."""
        self.replay: list[JsonObject] | None = None
        """What a load has shown."""
        self._stage = stage
        self._name = name
        self._to_agent = Pipe()
        self._to_client = Pipe()
        stage.enter(name, process.number)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def is_alive(self) -> bool:
        """Return whether it works; it ends with its process."""
        if self.closed is None and self.process.dead:
            self.end(drop=True)
        return self.closed is None

    @property
    def works(self) -> bool:
        """Whether it works on a prompt."""
        return self.is_alive() and self.prompted is not None and not self.prompted.outcome

    def end(self, *, drop: bool = False) -> None:
        if self.closed is None:
            self.closed = self.now
            self._stage.leave(self._name, self.process.number)
        self._to_agent.end(drop=True)
        self._to_client.end(drop=drop)

    def break_down(self) -> None:
        self.broke = True
        self.end()

    async def read(self) -> bytes:
        return await self._to_client.read()

    async def write(self, data: bytes) -> None:
        if self.is_alive():
            self._to_agent.feed(data)

    async def end_text(self) -> str:
        return "It was never there."

    def redact(self, text: str) -> str:
        return text

    async def agent_read(self) -> bytes:
        return await self._to_agent.read()

    async def agent_write(self, data: bytes) -> None:
        if self.is_alive():
            self._to_client.feed(data)


class Foreign:
    """All that external agents remember, and a record of what their programs got and did."""

    def __init__(self, seed: int, stage: Stage, agents: tuple[str, ...]) -> None:
        rng = random.Random(f"foreign:{seed}")
        self.personas = {agent: draw_persona(rng) for agent in agents}
        self.seed = seed
        self.stage = stage
        self.sessions: dict[str, list[JsonObject]] = {}
        """By external id: the updates, with the prompts."""
        self.unfinished: dict[str, list[JsonObject]] = {}
        """By external id: calls that asked, and did not end."""
        self.asked: dict[str, list[JsonObject]] = {}
        """By external id: all calls that asked."""
        self.prompts: list[Prompted] = []
        self.programs: list[ForeignProgram] = []
        self.allowed: list[Allowed] = []
        self.not_started: dict[str, ExternalStep] = {}
        """Steps whose program did not start."""
        self.received: set[tuple[SessionId, str]] = set()
        """The inputs that were sent, by session."""

    def hangs(self, session_id: SessionId) -> bool:
        return any(p.hangs and p.closed is None for p in self.programs if p.step.session_id == session_id)

    def receive(self, program: ForeignProgram, external_id: str, texts: tuple[str, ...]) -> Prompted:
        """Take a prompt: what was acted on before is never sent again as it was."""
        step = program.step
        prompted = Prompted(
            session_id=step.session_id,
            step_id=step.step_id,
            external_id=external_id,
            texts=texts,
            at=program.now,
        )
        program.prompted = prompted
        self.stage.count("prompts to go on" if load_text("continue") in texts else "foreign prompts")
        told = (text for text in texts if not text.startswith(load_text("transcript")))
        repeats = {load_text("continue"), load_text("repeat")} <= set(texts)
        for text in INPUT.findall("\n".join(told)):
            if (step.session_id, text) in self.received:
                self.stage.count("prompts repeated" if repeats else "prompts sent again")
                if not repeats or self.personas[step.agent].loads:
                    self._check_again(program, text)
            self.received.add((step.session_id, text))
        self.prompts.append(prompted)
        return prompted

    def _check_again(self, program: ForeignProgram, text: str) -> None:
        if program.process.number in self.stage.suspects:
            return
        if program.replay is None:
            self.stage.violate(f"X-03: {text!r} was sent again without a look at what was done for it")
        if shows_work(program.replay, text):
            self.stage.violate(f"X-03: {text!r} was sent again though the replay shows work on it")


def shows_work(replay: list[JsonObject], text: str) -> bool:
    """Tell whether something follows an input in a replay; one without prompts cannot tell."""
    prompts = [place for place, each in enumerate(replay) if each["sessionUpdate"] == "user_message_chunk"]
    places = [place for place in prompts if text in replay[place]["content"]["text"].splitlines()]
    if prompts and not places:
        return False
    after = replay[places[-1] :] if places else replay
    return any(each["sessionUpdate"] in WORK for each in after)
