"""Whatever a parent's history holds: its fork is closed, in order, within its limit, and can be sent."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.delegation.fork import OPENING, ForkedHistory
from asyncagents.delegation.fork_copy import UNDER_WAY
from asyncagents.domain.call.call import (
    Completed,
    Failed,
    Settled,
)
from asyncagents.domain.call.late_result import result_text
from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.message import AssistantMessage, ModelRef, UserMessage
from asyncagents.domain.conversation.part import (
    FilePart,
    PartTime,
    ReasoningPart,
    StepFinishPart,
    SubtaskPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolWaiting,
)
from asyncagents.domain.id import CallId, PartId
from asyncagents.domain.shape import encode
from asyncagents.llm.anthropic import request as anthropic_body
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import ChatRequest, ModelTurn, RequestMessage, ToolCallBlock, ToolTurn, UserTurn
from asyncagents.llm.openai import request as openai_body
from asyncagents.testing.provider_check import anthropic_refusal, openai_refusal
from tests.simulation.stage import unanswered
from tests.support.domain.history import CHILD, SPENT, TIME, History, request_messages, summarise_history
from tests.support.domain.state import call

MODEL = ModelRef(provider_id="acme", model_id="sage-1")
ENDPOINT = Endpoint(provider_id="acme", base_url="https://api.acme.test/v1")
SIGNED = {"anthropic": {"signature": "c2lnbmVk", "model": "sage-1"}}
_MARK = re.compile(r"<(\d+)>")

SMALL = (0, 1, 60)
ANY = (*SMALL, 100, 200, 501, 3_001, 20_000, 70_000, 210_000)


class Parent(Struct, frozen=True):
    history: History
    head: list[MessageWithParts]
    shown: frozenset[PartId]

    @property
    def fork(self) -> ForkedHistory:
        return self.history.fork(self.head, self.shown)


class Author:
    """Writes a history at random; what each message says begins with the number of the message.

    From a seed: to draw every word would take ten times as long.
    """

    def __init__(self, seed: int, lengths: tuple[int, ...], *, all_closed: bool) -> None:
        self.rng = Random(seed)
        self.lengths = lengths
        self.all_closed = all_closed
        self.history = History()
        self.shown: set[PartId] = set()
        self.late: list[ToolPart] = []
        self.number = 0

    def words(self) -> str:
        letter: str = self.rng.choice("aé€😀\n ")
        return f"<{self.number}>" + letter * self.rng.choice(self.lengths)

    def prompt(self) -> None:
        history, kinds = self.history, ["plain", "synthetic", "file"]
        kinds += [] if self.all_closed else ["ignored", "subtask", "empty", "unknown", "late"]
        match self.rng.choice(kinds):
            case "late" if self.late:
                history.user(history.text(self.arrival(), synthetic=True))
            case "file":
                url = "data:text/plain;base64,aGk="
                history.user(self.words(), history.part(FilePart, mime="text/plain", url=url))
            case "subtask":
                task = history.part(SubtaskPart, prompt="p", description=self.words(), agent="explore")
                history.user(task)
            case "unknown":
                history.user(decode_part(b'{"type":"poem","id":"prt_x"}'), self.words())
            case "empty":
                history.user()
            case "ignored":
                history.user(history.text("for people", ignored=True))
            case kind:
                history.user(history.text(self.words(), synthetic=True if kind == "synthetic" else None))

    def arrival(self) -> str:
        part = self.late.pop()
        result = self.rng.choice([Completed, Failed])(self.words())
        return result_text(call(Settled(result, 9), call_id=part.call_id, tool=part.tool))

    def step(self) -> None:
        history = self.history
        parts: list[Any] = [self.words()] if self.rng.random() < 0.5 else []
        if not self.all_closed and self.rng.random() < 0.5:
            parts.insert(0, history.part(ReasoningPart, text="secret", time=TIME, metadata=SIGNED))
        parts += [self.called() for _ in range(self.rng.randint(0, 4))]
        error = aborted_error() if not self.all_closed and self.rng.random() < 0.1 else None
        parts.append(history.part(StepFinishPart, reason="stop", cost=1, tokens=SPENT))
        history.step(*parts, error=error, finish=None if error else "stop")

    def called(self) -> ToolPart:
        tool = self.rng.choice(["read", "bash", "deploy"])
        given = {"path": self.words(), "deep": [{"x": self.words()}, 1]} if self.rng.random() < 0.5 else {}
        done: list[Any] = [
            ToolCompleted(input=given, output=self.words(), title="", metadata={}, time=TIME),
            ToolFailed(input=given, error=self.words(), time=TIME),
        ]
        if self.all_closed:
            return self.history.call(self.rng.choice(done), tool)
        start = PartTime(start=1)
        open_ = [
            ToolPending(input=given, raw=""),
            ToolRunning(input=given, time=start),
            ToolWaiting(input=given, pending_id=CallId("tool_1"), time=start, output="secret"),
            replace(done[0], time=replace(TIME, compacted=9)),
        ]
        part = self.history.call(self.rng.choice([*done, *open_]), tool)
        if self.rng.random() < 0.25:
            self.shown.add(part.id)
            self.late.append(part)
        return part

    def wish(self) -> None:
        self.history.summary_wish()
        self.history.step("secret", summary=True)


def written(seed: int, lengths: tuple[int, ...] = ANY, *, all_closed: bool = False) -> Parent:
    author = Author(seed, lengths, all_closed=all_closed)
    head: list[MessageWithParts] = []
    if not all_closed and author.rng.random() < 0.5:
        head = summarise_history(author.history, author.words(), words=author.words())
    kinds = [author.prompt, author.step, author.step, *([] if all_closed else [author.wish])]
    author.number = 1
    author.prompt()
    for _ in range(author.rng.randint(0, 12)):
        author.number += 1
        author.rng.choice(kinds)()
    return Parent(author.history, head, frozenset(author.shown))


SEEDS = st.integers(0, 2**32)


def length(messages: Sequence[RequestMessage]) -> int:
    count = 0
    for said in messages:
        match said:
            case UserTurn(text):
                count += len(text)
            case ToolTurn(output=output):
                count += len(output)
            case ModelTurn(blocks):
                for block in blocks:
                    assert not hasattr(block, "metadata"), "a thought"
                    told_ = (
                        json.dumps(block.input, ensure_ascii=False, separators=(",", ":"))
                        if isinstance(block, ToolCallBlock)
                        else block.text
                    )
                    count += len(told_)
    return count


def marks(messages: Sequence[RequestMessage]) -> list[int]:
    return [int(number) for number in _MARK.findall(str(messages))]


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_fork_stays_within_its_limit(seed: int) -> None:
    parent = written(seed)
    fork = parent.fork
    event(f"messages left out: {'left out, the oldest' in fork.preamble}")
    assert length(request_messages(fork.entries)) <= 200_000 + len(OPENING)


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_fork_begins_with_a_user_and_every_call_has_one_result(seed: int) -> None:
    parent = written(seed)
    messages = request_messages(parent.fork.entries)
    assert not messages or isinstance(messages[0], UserTurn)
    assert unanswered(messages) == ""


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_fork_holds_the_newest_messages_of_its_parent_in_order(seed: int) -> None:
    parent = written(seed)
    fork = parent.fork
    numbers = marks(request_messages(fork.entries))
    assert numbers == sorted(numbers)
    body = {number for number in numbers if number}  # a summary has none
    read = marks(request_messages(parent.history.entries, shown=parent.shown))
    assert body == {number for number in read if number >= min(body, default=10**9)}
    if "left out, the oldest" not in fork.preamble:
        assert body == {*read}
    assert "secret" not in str(fork.entries)
    assert "never copied" not in str(fork.entries)


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_fork_has_ids_of_its_own_and_no_open_call(seed: int) -> None:
    parent = written(seed)
    entries = parent.fork.entries
    names = [entry.info.id for entry in entries]
    parts = [part for entry in entries for part in entry.parts]
    assert all(a < b for a, b in pairwise(names))
    assert all((a.id or "") < (b.id or "") for a, b in pairwise(parts))
    assert not {*names} & {entry.info.id for entry in (*parent.history.entries, *parent.head)}
    assert all(part.session_id == CHILD for part in parts)
    asked: set[str] = set()
    for entry in entries:
        if isinstance(entry.info, UserMessage):
            asked.add(entry.info.id)
        else:
            assert entry.info.parent_id in asked
            assert entry.info.cost == 0
            assert entry.info.error is None
            assert entry.info.summary is None
            assert entry.info.finish
    states = [part.state for part in parts if isinstance(part, ToolPart)]
    assert all(isinstance(state, ToolCompleted | ToolFailed) for state in states)
    assert [decode_part(encode(part)) for part in parts] == parts


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_call_of_a_fork_is_pending_if_and_only_if_its_result_follows(seed: int) -> None:
    parent = written(seed)
    messages = request_messages(parent.fork.entries)
    for place, said in enumerate(messages):
        if isinstance(said, ToolTurn) and "still pending" in said.output:
            news = f"The pending call {said.call_id} ({said.tool}) has "
            assert sum(isinstance(m, UserTurn) and news in m.text for m in messages[place:]) == 1
        if isinstance(said, ToolTurn) and said.output == UNDER_WAY:
            assert not any(f"call {said.call_id} (" in str(m) for m in messages)


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_small_history_is_copied_as_it_is(seed: int) -> None:
    parent = written(seed, SMALL, all_closed=True)
    fork = parent.fork
    assert request_messages(fork.entries) == request_messages(parent.history.entries)
    assert "Nothing was cut" in fork.preamble
    read = [entry for entry in parent.history.entries if request_messages([entry])]
    for copy, entry in zip(fork.entries, read, strict=True):
        same: dict[str, Any] = {"id": copy.info.id, "session_id": CHILD}
        if isinstance(copy.info, AssistantMessage):
            same |= {"parent_id": copy.info.parent_id, "cost": 0, "tokens": copy.info.tokens}
            same |= {"time": copy.info.time}
        assert replace(entry.info, **same) == copy.info


@pytest.mark.spec("T-11")
@given(SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_fork_can_be_sent_to_every_provider(seed: int) -> None:
    parent = written(seed)
    fork = parent.fork
    messages = (*request_messages(fork.entries), UserTurn(fork.preamble), UserTurn("Do it."))
    request = ChatRequest(model=MODEL, messages=messages)
    headers = {"anthropic-version": "2023-06-01"}
    assert openai_refusal(openai_body.write_body(ENDPOINT, request), {}) is None
    assert anthropic_refusal(anthropic_body.write_body(ENDPOINT, request), headers) is None
    json.dumps(anthropic_body.write_body(ENDPOINT, request)).encode()
