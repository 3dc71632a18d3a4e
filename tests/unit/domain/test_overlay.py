"""Writing over older bytes keeps what only a newer version knows and drops what we removed."""

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import Unreadable, decode_message, decode_part, overlay
from asyncagents.domain.conversation.failure import APICause, APIError, aborted_error
from asyncagents.domain.conversation.message import AssistantMessage, Message
from asyncagents.domain.conversation.part import Part, PartTime, ToolCompleted, ToolPart
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.shape import encode
from tests.support.domain.recorded_body import CONVERSATIONS, read_body
from tests.support.domain.strategy import nouns

NEWER = "x-newer"
KINDS = [*get_args(Part), *get_args(Message), Session]
same_kind = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(nouns(kind), nouns(kind)))


def marked(value: Any) -> Any:
    """The JSON of a noun, with an unknown field in every object that is modelled."""
    match value:
        case msgspec.Struct():
            tree = json.loads(encode(value))
            for field in msgspec.structs.fields(value):
                if field.encode_name in tree:
                    tree[field.encode_name] = marked(getattr(value, field.name))
            return tree | {NEWER: {"deep": [1, None]}}
        case tuple():
            return [marked(item) for item in value]
        case _:
            return json.loads(encode(value))


def unmarked(tree: Any) -> Any:
    match tree:
        case dict():
            return {key: unmarked(value) for key, value in tree.items() if key != NEWER}
        case list():
            return [unmarked(item) for item in tree]
        case _:
            return tree


def assert_marks_kept(tree: Any, old: Any, new: Any) -> None:
    assert NEWER in tree
    for field in msgspec.structs.fields(new):
        before, after = getattr(old, field.name, None), getattr(new, field.name)
        if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            assert_marks_kept(tree[field.encode_name], before, after)


@given(st.sampled_from(KINDS).flatmap(nouns))
def test_writing_the_same_again_keeps_every_unknown_field(noun: msgspec.Struct) -> None:
    assert json.loads(overlay(encode(marked(noun)), noun)) == marked(noun)


@given(same_kind)
def test_known_fields_come_from_the_new_and_unknown_ones_from_the_old(
    pair: tuple[msgspec.Struct, msgspec.Struct],
) -> None:
    old, new = pair
    tree = json.loads(overlay(encode(marked(old)), new))
    assert unmarked(tree) == json.loads(encode(new))
    assert_marks_kept(tree, old, new)


@given(same_kind)
def test_without_unknown_fields_the_new_bytes_stand_alone(
    pair: tuple[msgspec.Struct, msgspec.Struct],
) -> None:
    old, new = pair
    assert overlay(encode(old), new) == encode(new)


def test_a_state_leaves_nothing_of_the_state_before() -> None:
    body = next(p for p in read_body("parts") if p.get("state", {}).get("status") == "pending")
    part = decode_part(encode(body))
    assert isinstance(part, ToolPart)
    done = ToolCompleted(input={}, output="o", title="", metadata={}, time=PartTime(start=1, end=2))
    old = encode(body | {"state": body["state"] | {NEWER: 1}})
    state = json.loads(overlay(old, replace(part, state=done)))["state"]
    assert "raw" not in state
    assert state[NEWER] == 1


def test_another_failure_leaves_nothing_of_the_failure_before() -> None:
    message = assistant()
    api = APIError(data=APICause(message="busy", is_retryable=True, status_code=503))
    old = encode(replace(message, error=api))
    assert json.loads(overlay(old, replace(message, error=aborted_error())))["error"] == {
        "name": "MessageAbortedError",
        "data": {"message": "Aborted"},
    }


def test_a_known_failure_leaves_nothing_of_an_unknown_one() -> None:
    message = assistant()
    old = encode(json.loads(encode(message)) | {"error": {"name": "Gremlin", "data": {"wet": True}}})
    new = replace(message, error=aborted_error())
    assert overlay(old, new) == encode(new)


def test_unknown_bytes_are_copied_not_parsed() -> None:
    message = assistant()
    old = encode(message)[:-1] + b',"x-newer": 1.50e+3}'
    assert b'"x-newer":1.50e+3' in overlay(old, message)


def test_elements_of_an_array_keep_unknown_fields_when_others_go() -> None:
    rules = [Rule(permission=name, pattern="*", action="ask") for name in ("read", "edit", "bash")]
    body = read_body("sessions")[0]
    old = body | {"permission": [marked(rule) | {NEWER: rule.permission} for rule in rules]}
    session = msgspec.json.decode(encode(old), type=Session)
    kept = json.loads(overlay(encode(old), replace(session, permission=(rules[2], rules[0]))))["permission"]
    assert [rule[NEWER] for rule in kept] == ["bash", "read"]


def test_broken_old_bytes_are_unreadable() -> None:
    with pytest.raises(Unreadable):
        overlay(b"[1]", assistant())


def assistant() -> AssistantMessage:
    message = decode_message(
        encode(next(e["info"] for e in CONVERSATIONS if e["info"]["role"] == "assistant"))
    )
    assert isinstance(message, AssistantMessage)
    return message
