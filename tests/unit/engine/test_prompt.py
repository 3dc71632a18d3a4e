"""What the model is told of a history: what it said, what came of its calls, nothing that is for people."""

from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    Call,
    Completed,
    Failed,
    Running,
    Settled,
    render,
)
from asyncagents.domain.call.late_result import pending_text
from asyncagents.domain.conversation.codec import decode_part
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import (
    Part,
    PartTime,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    TextPart,
)
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import PartId
from asyncagents.engine.model_input import INTERRUPTED, ModelInput
from asyncagents.llm.model import (
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolTurn,
    UserTurn,
)
from tests.support.domain.state import SESSION, call, open_state, step, user

NONE: frozenset[PartId] = frozenset()
GIVEN = {"env": "prod"}


def entry(info: Message, *parts: Part | Call) -> MessageWithParts:
    shown = tuple(render(part) if isinstance(part, Call) else part for part in parts)
    return MessageWithParts(info=info, parts=shown)


def text(words: str, **more: Any) -> TextPart:
    return TextPart(id=PartId(f"prt_{words}"), session_id=SESSION, message_id=user().id, text=words, **more)


def thought(words: str) -> ReasoningPart:
    return ReasoningPart(
        id=PartId("prt_r"), session_id=SESSION, message_id=step().id, text=words, time=PartTime(start=1)
    )


def told(*entries: MessageWithParts, shown: frozenset[PartId] = NONE) -> list[RequestMessage]:
    prompt = ModelInput()
    prompt.extend(entries, shown, since=len(entries))
    return list(prompt.messages)


START = StepStartPart(id=PartId("prt_s"), session_id=SESSION, message_id=step().id)
FINISH = StepFinishPart(
    id=PartId("prt_f"), session_id=SESSION, message_id=step().id, reason="stop", cost=0, tokens=Tokens.zero()
)
DONE = call(Settled(Completed("v2"), 9))
BROKEN = call(Settled(Failed("no route"), 9))
MADE = (ToolCallBlock("toolu_1", "deploy", GIVEN),)


@pytest.mark.spec("S-05")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(entry(user(), text("Hi")), [UserTurn("Hi")], id="a prompt"),
        pytest.param(entry(user(), text("a"), text("b")), [UserTurn("a\nb")], id="a prompt of two texts"),
        pytest.param(entry(user(), text("Go on", synthetic=True)), [UserTurn("Go on")], id="synthetic"),
        pytest.param(
            entry(user(), text("shown", ignored=True), text("told")), [UserTurn("told")], id="ignored"
        ),
        pytest.param(entry(user(), text("shown", ignored=True)), [], id="nothing but ignored"),
        pytest.param(entry(user()), [], id="an empty prompt"),
        pytest.param(
            entry(step("stop"), START, text("Yes"), FINISH), [ModelTurn((TextBlock("Yes"),))], id="an answer"
        ),
        pytest.param(
            entry(step("stop"), thought("Hm"), text("Yes")),
            [ModelTurn((ThinkingBlock("Hm"), TextBlock("Yes")))],
            id="with reasoning",
        ),
        pytest.param(entry(step("stop"), START, FINISH), [], id="an empty answer"),
        pytest.param(entry(step("stop"), thought("Hm")), [], id="nothing but reasoning"),
        pytest.param(entry(step(None, aborted_error())), [], id="aborted before a word"),
        pytest.param(
            entry(step(None, aborted_error()), text("Ye")),
            [ModelTurn((TextBlock("Ye"),))],
            id="aborted halfway",
        ),
        pytest.param(
            entry(step("tool-calls"), text("I will"), DONE),
            [ModelTurn((TextBlock("I will"), *MADE)), ToolTurn("toolu_1", "deploy", "v2")],
            id="a call and its result",
        ),
        pytest.param(
            entry(step("tool-calls"), BROKEN),
            [ModelTurn(MADE), ToolTurn("toolu_1", "deploy", "no route", failed=True)],
            id="a call that failed",
        ),
        pytest.param(
            entry(step("tool-calls"), call(Running(1))),
            [ModelTurn(MADE), ToolTurn("toolu_1", "deploy", INTERRUPTED, failed=True)],
            id="a call without an end",
        ),
    ],
)
def test_a_message_is_converted_to_request_messages(
    given: MessageWithParts, expected: list[RequestMessage]
) -> None:
    assert told(given) == expected


@pytest.mark.parametrize("state", [open_state("async", note="queued"), Settled(Completed("v2"), 9)])
def test_a_call_that_was_shown_as_pending_stays_so(state: Any) -> None:
    row = call(state)
    pending = ToolTurn("toolu_1", "deploy", pending_text("toolu_1", "deploy"))
    assert told(entry(step("tool-calls"), row), shown=frozenset({row.part_id})) == [
        ModelTurn(MADE),
        pending,
    ]


def test_calls_come_before_their_results_in_the_order_in_which_they_were_made() -> None:
    second = replace(BROKEN, part_id=PartId("prt_2"), call_id="toolu_2", tool="notify")
    assert told(entry(step("tool-calls"), DONE, second)) == [
        ModelTurn((*MADE, ToolCallBlock("toolu_2", "notify", GIVEN))),
        ToolTurn("toolu_1", "deploy", "v2"),
        ToolTurn("toolu_2", "notify", "no route", failed=True),
    ]


def test_a_part_of_an_unknown_type_is_left_out() -> None:
    poem = decode_part(b'{"type":"poem","id":"prt_1"}')
    assert told(MessageWithParts(info=user(), parts=(poem, text("Hi")))) == [UserTurn("Hi")]


@pytest.mark.spec("S-05")
def test_a_model_input_grows_without_changing_earlier_messages() -> None:
    prompt = ModelInput()
    prompt.extend([entry(user(), text("Hi"))], NONE, since=2)
    before = list(prompt.messages)
    prompt.extend([entry(step("stop"), text("Yes")), entry(user(), text("And?"))], NONE, since=4)
    assert list(prompt.messages) == [*before, ModelTurn((TextBlock("Yes"),)), UserTurn("And?")]
    assert prompt.since == 4
