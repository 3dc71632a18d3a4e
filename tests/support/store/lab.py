"""What a test says to a store, in few words: sessions, prompts, steps and calls with plausible content."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.ask import Option, PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Call, CallState, Completed, Failed, Open, OpenKind, Result, Running
from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import Part, PartTime, TextPart
from asyncagents.domain.conversation.session import (
    CacheTokens,
    NewSession,
    Session,
    SessionTime,
    Tokens,
    default_title,
)
from asyncagents.domain.event import Event, PartUpdated
from asyncagents.domain.fact import Admit, AdmitResult, InputSource, Settle
from asyncagents.domain.id import CallId, Ids, MessageId, OwnerId, RequestId, SessionId
from asyncagents.domain.session_state import Claim, Snapshot
from asyncagents.domain.step import CallMove, NewStep, StartedStep, StepEnd
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit, Database, Row
from asyncagents.testing.clock import FakeClock

PROJECT = "prj"
POOL = "here"
ALICE, BOB = OwnerId("alice"), OwnerId("bob")
MODEL = ModelRef(provider_id="scripted", model_id="parrot")
SPENT = Tokens(input=100, output=20, reasoning=5, cache=CacheTokens(read=0, write=0))


class Step(Struct, frozen=True):
    """A step that was started."""

    started: StartedStep
    request_id: RequestId

    @property
    def id(self) -> MessageId:
        return self.started.message.id


class Lab:
    """A store with a clock and ids, and short words for what is done to it."""

    def __init__(self, database: Database, clock: FakeClock, ids: Ids) -> None:
        self.database = database
        self.store = Store(database)
        self.clock = clock
        self.ids = ids
        self.commits: list[Commit] = []
        self.store.listen(self.commits.append)

    @property
    def events(self) -> list[Event]:
        return [event for commit in self.commits for event in commit.events]

    @property
    def woken(self) -> list[SessionId]:
        return [session_id for commit in self.commits for session_id in commit.woken]

    # Sessions and input

    def info(self, *, parent: SessionId | None = None, project: str = PROJECT, **more: Any) -> Session:
        now = self.clock.now()
        return Session(
            id=self.ids.session(),
            slug="calm-river",
            project_id=project,
            directory="/work",
            title=default_title(now, child=parent is not None),
            version="1",
            time=SessionTime(created=now, updated=now),
            parent_id=parent,
            **more,
        )

    async def session(self, *, parent: SessionId | None = None, project: str = PROJECT) -> SessionId:
        new = NewSession(info=self.info(parent=parent, project=project), pool=POOL)
        return (await self.store.create_session(new)).id

    def input(
        self,
        session_id: SessionId,
        text: str = "hello",
        *,
        key: str | None = None,
        wakes: bool = True,
        source: InputSource = "person",
    ) -> Admit:
        message = UserMessage(
            id=self.ids.message(),
            session_id=session_id,
            time=MessageTime(created=self.clock.now()),
            agent="build",
            model=MODEL,
        )
        part = TextPart(id=self.ids.part(), session_id=session_id, message_id=message.id, text=text)
        return Admit(message=message, parts=(part,), key=key or message.id, wakes=wakes, source=source)

    def settle_fact(self, call_id: CallId, output: str) -> Settle:
        return Settle(call_id, Completed(output))

    async def prompt(
        self,
        session_id: SessionId,
        text: str = "hello",
        *,
        wakes: bool = True,
        source: InputSource = "person",
    ) -> MessageId:
        admitted: AdmitResult = await self.store.admit(
            self.input(session_id, text, wakes=wakes, source=source)
        )
        return admitted.message_id

    # A run

    async def claim(
        self, session_id: SessionId, owner: OwnerId = ALICE, *, dead: OwnerId | None = None
    ) -> Claim:
        snapshot = await self.store.claim(session_id, owner, dead=dead)
        assert snapshot is not None
        return Claim(session_id, snapshot.control.fence)

    async def claim_prompted(self) -> tuple[SessionId, MessageId, Claim]:
        """A session with one prompt, claimed."""
        session_id = await self.session()
        message_id = await self.prompt(session_id)
        return session_id, message_id, await self.claim(session_id)

    def new_step(self, since: int = 1) -> NewStep:
        return NewStep(
            message_id=self.ids.message(),
            part_id=self.ids.part(),
            request_id=self.ids.request(),
            since=since,
        )

    async def step(self, claim: Claim, since: int = 1) -> Step:
        new = self.new_step(since)
        started = await self.store.start_step(claim, new)
        assert started is not None
        return Step(started, new.request_id)

    async def end(
        self,
        claim: Claim,
        step: Step,
        *calls: Call,
        text: str = "hi",
        finish: str | None = None,
        error: Failure | None = None,
        tokens: Tokens | None = SPENT,
    ) -> Snapshot:
        end = self.step_end(step, *calls, text=text, finish=finish, error=error, tokens=tokens)
        return await self.store.finish_step(claim, end)

    def step_end(
        self,
        step: Step,
        *calls: Call,
        text: str = "hi",
        finish: str | None = None,
        error: Failure | None = None,
        tokens: Tokens | None = SPENT,
    ) -> StepEnd:
        now = self.clock.now()
        message = replace(
            step.started.message,
            time=MessageTime(created=step.started.message.time.created, completed=now),
            tokens=tokens or Tokens.zero(),
            finish=finish or ("tool-calls" if calls else "stop"),
            error=error,
        )
        part = self.text(step, text, end=now)
        return StepEnd(
            request_id=step.request_id,
            message=message,
            parts=(part,),
            events=self.part_events(part),
            calls=calls,
            tokens=tokens,
        )

    async def write(self, claim: Claim, *parts: Part, published: bool = True) -> None:
        """Keep parts of a step as it streams; those that listeners know already are not published."""
        await self.store.write_parts(claim, parts, self.part_events(*parts) if published else ())

    def part_events(self, *parts: Part) -> tuple[Event, ...]:
        now = self.clock.now()
        return tuple(PartUpdated(session_id=part.session_id, part=part, time=now) for part in parts)

    def text(self, step: Step, text: str, *, end: int | None = None) -> TextPart:
        time = PartTime(start=self.clock.now(), end=end)
        message = step.started.message
        return TextPart(
            id=self.ids.part(), session_id=message.session_id, message_id=message.id, text=text, time=time
        )

    # Calls

    def call(
        self, step: Step, *, tool: str = "build", given: dict[str, Any] | None = None, turn: int = 1
    ) -> Call:
        message = step.started.message
        call_id = self.ids.call()
        return Call(
            id=call_id,
            session_id=message.session_id,
            message_id=message.id,
            part_id=self.ids.part(),
            call_id=f"toolu_{call_id[-6:]}",
            tool=tool,
            input=given or {"target": "all"},
            turn=turn,
            created=self.clock.now(),
        )

    async def start_calls(self, *states: CallState | None) -> tuple[SessionId, Claim, list[Call]]:
        """A session whose first step made a call for each state, and moved it there."""
        session_id, _, claim = await self.claim_prompted()
        step = await self.step(claim)
        calls = [self.call(step) for _ in states]
        await self.end(claim, step, *calls)
        return session_id, claim, [await self.move(claim, c, s) for c, s in zip(calls, states, strict=True)]

    async def move(self, claim: Claim, call: Call, state: CallState | None) -> Call:
        if state is not None:
            await self.store.advance(claim, (CallMove(call.id, state),))
        return await self.store.call(call.id)

    async def start(self, claim: Claim, call: Call) -> Call:
        return await self.move(claim, call, Running(claim.fence))

    def open_state(
        self, kind: OpenKind = "async", *, due: int | None = None, on_due: Result | None = None
    ) -> Open:
        return Open(
            kind=kind, since=self.clock.now(), due=due, on_due=on_due or Failed("Tool execution timed out")
        )

    def ask(self, session_id: SessionId, *, due: int | None = None, on_due: Result | None = None) -> Open:
        request = PermissionRequest(
            id=self.ids.permission(),
            session_id=session_id,
            permission="bash",
            patterns=("make *",),
            metadata={},
            always=("make *",),
        )
        return replace(self.open_state("ask", due=due, on_due=on_due), ask=request, ask_hash="h1")

    def exact_ask(self, session_id: SessionId, text: str) -> Open:
        """For a line that no pattern covers."""
        opened = self.ask(session_id)
        assert opened.ask is not None
        request = replace(opened.ask, patterns=("ls", text), always=(text,), exact=True)
        return replace(opened, ask=request, ask_hash=text)

    def question(self, session_id: SessionId, *texts: str) -> Open:
        asked = tuple(
            Question(question=text, header=text, options=(Option(label="red", description=""),))
            for text in texts or ("Which colour?",)
        )
        request = QuestionRequest(id=self.ids.question(), session_id=session_id, questions=asked)
        return replace(self.open_state("question"), question=request)

    async def open_ask(self, *more: CallState | None) -> tuple[SessionId, Claim, Call, list[Call]]:
        """A session with an ask open, and further calls."""
        session_id, claim, (call, *others) = await self.start_calls(None, *more)
        return session_id, claim, await self.move(claim, call, self.ask(session_id)), others

    # What is there

    async def requests(self, session_id: SessionId) -> list[Row]:
        """(id, message id, state, tokens, estimated)"""
        return await self.database.read(lambda tx: tx.all("session_requests", session_id))

    async def positions(self, session_id: SessionId) -> list[int]:
        rows = await self.database.read(lambda tx: tx.all("positions", session_id))
        return [row[0] for row in rows]

    async def read_everything(self) -> dict[str, Any]:
        """All that reads can show, to compare before and after."""
        store = self.store
        found: dict[str, Any] = {"statuses": await store.statuses(), "due": await store.next_due()}
        for session in await store.sessions(PROJECT, limit=1_000):
            messages = await store.messages(session.id)
            users = [entry.info.id for entry in messages if isinstance(entry.info, UserMessage)]
            found[session.id] = {
                "session": session,
                "control": await store.control(session.id),
                "messages": messages,
                "history": await store.history(session.id),
                "calls": await store.calls(session.id),
                "inputs": [await store.input(message_id) for message_id in users],
                "requests": await self.requests(session.id),
                "positions": await self.positions(session.id),
            }
        return found


def completed_result(output: str = "built") -> Completed:
    return Completed(output)


def ask_id(call: Call) -> str:
    assert call.ask_id is not None
    return call.ask_id


def state_of(call: Call) -> str:
    return type(call.state).__name__


def result_of(call: Call) -> Result:
    result: Result = call.state.result  # type: ignore[union-attr]
    return result
