"""Histories of a parent, and what a model is told of their copies."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from asyncagents.delegation.fork import ForkedHistory, fork_history
from asyncagents.domain.conversation.codec import UnknownPart
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import (
    CompactionPart,
    Part,
    PartTime,
    StepStartPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolState,
)
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import Ids, MessageId, PartId, SessionId
from asyncagents.engine.model_input import ModelInput
from asyncagents.llm.model import ModelTurn, RequestMessage, TextBlock, ToolCallBlock, ToolTurn, UserTurn
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.domain.state import SESSION, step, user

CHILD = SessionId("ses_child")
FORKING = MessageId("msg_forking")
NONE: frozenset[PartId] = frozenset()
TIME = PartTime(start=30, end=40)
SPENT = Tokens(input=9_000, output=500, reasoning=7, cache=CacheTokens(read=3, write=4))


class History:
    """Grows as a session does: every message answers the last one that a user sent."""

    def __init__(self) -> None:
        self.entries: list[MessageWithParts] = []
        self.asked = MessageId("msg_0000")
        self._messages = 0
        self._parts = 0

    def user(self, *parts: Part | UnknownPart | str, **more: Any) -> MessageId:
        message_id = self.asked = self._next()
        self._add(replace(user(), id=message_id, **more), parts)
        return message_id

    def step(self, *parts: Part | UnknownPart | str, finish: str | None = "stop", **more: Any) -> MessageId:
        message_id = self._next()
        spent = {"parent_id": self.asked, "cost": 0.25, "tokens": SPENT}
        info = replace(step(finish), id=message_id, **(spent | more))
        self._add(info, (self.part(StepStartPart), *parts))
        return message_id

    def part(self, kind: type[Any], **more: Any) -> Any:
        self._parts += 1
        return kind(id=PartId(f"prt_{self._parts:05}"), session_id=SESSION, message_id=self.asked, **more)

    def text(self, words: str, **more: Any) -> TextPart:
        made: TextPart = self.part(TextPart, text=words, **more)
        return made

    def call(self, state: ToolState, tool: str = "read") -> ToolPart:
        made: ToolPart = self.part(ToolPart, call_id=f"toolu_{self._parts}", tool=tool, state=state)
        return made

    def completed_call(self, output: str, tool: str = "read", **given: Any) -> ToolPart:
        return self.call(completed_state(output, **given), tool)

    def failed_call(self, error: str, tool: str = "read", **given: Any) -> ToolPart:
        return self.call(ToolFailed(input=given, error=error, time=TIME), tool)

    def summary_wish(self, *parts: Part) -> MessageId:
        return self.user(self.part(CompactionPart, auto=True), *parts)

    def fork(self, head: Sequence[MessageWithParts] = (), shown: frozenset[PartId] = NONE) -> ForkedHistory:
        """The fork at a call that the model makes now."""
        at = replace(step("tool-calls"), id=FORKING, parent_id=self.asked)
        return fork_history(
            head,
            [
                *self.entries,
                MessageWithParts(info=at, parts=(self.completed_call("never copied", "asyncagents_task"),)),
            ],
            before=FORKING,
            to=CHILD,
            ids=Ids(FakeClock(), SeededRng(1)),
            shown=shown,
        )

    def _next(self) -> MessageId:
        self._messages += 1
        return MessageId(f"msg_{self._messages:04}")

    def _add(self, info: Any, parts: Sequence[Part | UnknownPart | str]) -> None:
        placed = tuple(self.text(part) if isinstance(part, str) else part for part in parts)
        self.entries.append(MessageWithParts(info=info, parts=placed))


def completed_state(output: str, **given: Any) -> ToolCompleted:
    return ToolCompleted(input=given, output=output, title="t", metadata={"diff": "x" * 9}, time=TIME)


def request_messages(
    entries: Sequence[MessageWithParts],
    head: Sequence[MessageWithParts] = (),
    shown: frozenset[PartId] = NONE,
) -> list[RequestMessage]:
    prompt = ModelInput()
    prompt.begin_with_summary(head)
    prompt.extend(entries, shown, since=0)
    return list(prompt.messages)


def outputs(fork: ForkedHistory) -> list[str]:
    return [said.output for said in request_messages(fork.entries) if isinstance(said, ToolTurn)]


def inputs(fork: ForkedHistory) -> list[dict[str, Any]]:
    return [
        made.input
        for said in request_messages(fork.entries)
        if isinstance(said, ModelTurn)
        for made in said.calls
    ]


def texts(fork: ForkedHistory) -> list[str]:
    """What users and models said."""
    found: list[str] = []
    for said in request_messages(fork.entries):
        if isinstance(said, UserTurn):
            found.append(said.text)
        elif isinstance(said, ModelTurn):
            found += [block.text for block in said.blocks if isinstance(block, TextBlock)]
    return found


def characters(said: Sequence[RequestMessage]) -> int:
    """All that a wire would carry of it, but for its frame."""
    count = 0
    for each in said:
        match each:
            case UserTurn(text, files):
                count += len(text) + sum(len(file.url) for file in files)
            case ToolTurn(output=output):
                count += len(output)
            case ModelTurn(blocks):
                count += sum(
                    len(str(block.input)) if isinstance(block, ToolCallBlock) else len(block.text)
                    for block in blocks
                )
    return count


def steps(fork: ForkedHistory) -> list[AssistantMessage]:
    return [entry.info for entry in fork.entries if isinstance(entry.info, AssistantMessage)]


def summarise_history(
    history: History, *notes: str, words: str = "They build a shop."
) -> list[MessageWithParts]:
    """The head that stands for what came before; it is not among the entries."""
    history.summary_wish(history.text("mind the tests"), *(history.text(n, synthetic=True) for n in notes))
    history.step(words, summary=True, agent="compaction", mode="compaction", model_id="small")
    head, history.entries = history.entries[-2:], history.entries[:-2]
    return head
