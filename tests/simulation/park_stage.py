"""What the outside knows of calls that wait for it: what it sent, what it was answered, what models read."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from asyncagents.domain.call.call import (
    Completed,
    Failed,
    Result,
)
from asyncagents.domain.call.late_result import pending_text
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.webhook.delivery import SignedRequest
from asyncagents.llm.model import ModelTurn, RequestMessage, ToolTurn
from tests.simulation.parks import BAD, Errand, errand
from tests.simulation.rows import Rows
from tests.simulation.stage import Stage


class Refused(Struct, frozen=True):
    """Somebody came with a result, and was told of another."""

    call_id: CallId
    result: Result
    first: str


class Posted(Struct):
    """Somebody outside was told; `answer`: its status, 0 for nobody, -1 if it never came, None: not yet."""

    process: int
    letter: SignedRequest
    answer: int | None = None


class ParkStage(Stage):
    def __init__(self, rows: Rows, seed: int) -> None:
        super().__init__(rows)
        self._seed = seed
        self.serve: Callable[[CallId, Errand], None] = lambda call_id, errand: None
        """The outside hears of a call that was begun."""
        self.errands: dict[CallId, Errand] = {}
        self.dues: dict[CallId, list[int | None]] = {}
        """When each run of a tool said that its wait would be over, in ms."""
        self.running: dict[SessionId, list[CallId]] = {}
        """Tools that run."""
        self.opened_by: dict[CallId, int] = {}
        """Which process heard that it waits while another call kept its session at work."""
        self.lasting: set[int] = set()
        """Processes that lived to the end and could write."""
        self.heard: set[CallId] = set()
        """Those of which it is known that their tool was heard, whatever had become of the call."""
        self.settled: dict[CallId, PendingToolCall] = {}
        """What was acknowledged."""
        self.posts: dict[str, list[Posted]] = {}
        self.secrets: dict[CallId, set[str]] = {}
        """What the tool was told to have results signed with."""
        self.offered: dict[CallId, list[Result]] = {}
        """What was sent, acknowledged or not."""
        self.refused: list[Refused] = []
        self.repeats: dict[str, int] = {}
        """Requests that were sent again, word for word."""

    def opened(self, call_id: CallId, session_id: SessionId, process: int, due: int | None) -> None:
        """A tool says that it waits. Without another at work, a result that was faster may end its run."""
        self.dues.setdefault(call_id, []).append(due)
        self.opened_by.pop(call_id, None)
        others = [each for each in self.running.get(session_id, []) if each != call_id]
        if any(each not in self.offered for each in others):
            self.opened_by[call_id] = process

    def hire(self, call_id: CallId, *, timer: bool = False) -> Errand:
        """A tool has been started; a second run of the same call is no news."""
        known = self.errands.get(call_id)
        if known is None:
            known = self.errands[call_id] = errand(self._seed, call_id, timer=timer)
            self.serve(call_id, known)
        return known

    def acknowledged(self, call: PendingToolCall, result: Result) -> None:
        """Whoever says the same gets the same answer, whenever it comes."""
        if _given(call) != result or call.status != ("failed" if call.error else "completed"):
            self.violate(f"P-05: {result} was acknowledged for {call.id}, and it is {call}")
        if call.tool == "build" and call.result and call.result.output.startswith(BAD):
            self.violate(f"P-05: {result} was taken by {call.id}, which does not take it")
        first = self.settled.setdefault(call.id, call)
        if first != call:
            self.violate(f"P-05: {call.id} was {first} and is {call}")
        self.acknowledged_result(call.id, result)

    def asked(self, session: str, messages: Sequence[RequestMessage], *, summary: bool = False) -> int:
        """A model is asked because something is new, and never while a call of its last step is out."""
        before = self.requests.get(session, ())
        tries = super().asked(session, messages, summary=summary)
        if tuple(messages) == before:
            self.repeats[session] = self.repeats.get(session, 0) + 1
            return tries
        if isinstance(messages[-1], ModelTurn):
            self.violate(f"P-04: {session} was resumed, and there was nothing new")
        batch = _last_batch(messages)
        if any(turn.output == pending_text(turn.call_id, turn.tool) for turn in batch):
            self.violate(f"P-04: {session} was resumed before all of {batch} were in")
        if batch:
            self.count("batches resumed")
        return tries


def _given(call: PendingToolCall) -> Result | None:
    if call.result is None:
        return None if call.error is None else Failed(call.error)
    return Completed(call.result.output, call.result.title, call.result.metadata)


def _last_batch(messages: Sequence[RequestMessage]) -> list[ToolTurn]:
    """The results that came last, if nothing was said after them."""
    batch: list[ToolTurn] = []
    for told in reversed(messages):
        if not isinstance(told, ToolTurn):
            break
        batch.append(told)
    return batch
