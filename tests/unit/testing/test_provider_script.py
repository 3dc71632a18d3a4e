"""Which reply answers is read from the request; only `times` is counted."""

import logging
from typing import Any

import pytest

from asyncagents.testing.provider_reply import Reply, ToolUse
from asyncagents.testing.provider_script import Playbook, parse_directive

OTHER = Reply(text="other")
ONE, TWO, THREE = Reply(text="one"), Reply(text="two"), Reply(text="three")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def blocks(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


ASSISTANT = {"role": "assistant", "content": "…"}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "done"}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]}


def said(book: Playbook, *messages: dict[str, Any]) -> str:
    return book.pick(messages).text


def test_the_messages_of_the_model_count_the_steps() -> None:
    book = Playbook({"go": [ONE, TWO]}, otherwise=OTHER)
    assert said(book, user("go")) == "one"
    assert said(book, user("go"), ASSISTANT, TOOL) == "two"
    assert said(book, user("go"), ASSISTANT, RESULT) == "two"
    assert said(book, user("go"), ASSISTANT, TOOL, ASSISTANT) == "other"
    assert said(book, user("go")) == "one", "it keeps no state"


def test_an_unknown_text_gets_the_default_reply_and_hides_no_known_text() -> None:
    book = Playbook({"go": [ONE, TWO]}, otherwise=OTHER)
    assert said(book) == "other"
    assert said(book, user("what?")) == "other"
    assert said(book, user("go"), ASSISTANT, user("a reminder")) == "two"


def test_a_known_text_may_be_one_of_several_blocks() -> None:
    book = Playbook({"go": [ONE], "on": [TWO]}, otherwise=OTHER)
    assert said(book, blocks("go", "a reminder")) == "one"
    assert said(book, blocks("go", "on")) == "two", "the later one"
    assert said(Playbook({"a\nb": [ONE]}, otherwise=OTHER), blocks("a", "b")) == "one"


def test_a_reply_with_times_is_used_up_so_that_a_retry_gets_the_next() -> None:
    book = Playbook({"go": [Reply(text="fails", status=503, times=2), ONE, TWO]}, otherwise=OTHER)
    assert [said(book, user("go")) for _ in range(4)] == ["fails", "fails", "one", "one"]
    assert said(book, user("go"), ASSISTANT) == "two"


def test_a_failing_reply_may_stand_between_two_steps() -> None:
    book = Playbook({"go": [ONE, Reply(text="fails", cut_at=9, times=1), TWO]}, otherwise=OTHER)
    assert said(book, user("go")) == "one"
    assert [said(book, user("go"), ASSISTANT) for _ in range(2)] == ["fails", "two"]


def test_a_counted_reply_that_succeeds_is_a_step() -> None:
    book = Playbook({"go": [Reply(text="first", times=1), ONE, TWO]}, otherwise=OTHER)
    assert said(book, user("go")) == "first"
    assert said(book, user("go"), ASSISTANT) == "one"
    assert said(book, user("go"), ASSISTANT, ASSISTANT) == "two"


def test_the_replies_of_each_prompt_are_counted_separately() -> None:
    fails = Reply(text="fails", status=500, times=1)
    book = Playbook({"a": [fails, ONE], "b": [fails, TWO]}, otherwise=OTHER)
    assert [said(book, user(text)) for text in "abab"] == ["fails", "fails", "one", "two"]


def test_a_directive_in_the_prompt_is_a_reply() -> None:
    book = Playbook({}, otherwise=OTHER)
    reply = book.pick([user('please [[{"text": "hi", "chunks": 5, "gap": 0.1}]] now')])
    assert reply == Reply(text="hi", chunks=5, gap=0.1)
    assert said(book, user('[[ {"text": "hi"} ]]')) == "hi"
    assert said(book, user('[[{"text": "hi"}]]'), ASSISTANT) == "other", "it was one step"


def test_a_directive_may_have_steps_that_share_the_rest() -> None:
    text = '[[{"gap": 0.5, "steps": [{"tools": [{"name": "ls", "args": {"at": [[1]]}}]}, {"text": "end"}]}]]'
    assert parse_directive(text) == [
        Reply(gap=0.5, tools=(ToolUse("ls", {"at": [[1]]}),)),
        Reply(gap=0.5, text="end"),
    ]
    assert said(Playbook({}, otherwise=OTHER), user(text), ASSISTANT, RESULT) == "end"


def test_a_later_user_text_cancels_a_directive_and_a_tool_result_does_not() -> None:
    book = Playbook({}, otherwise=OTHER)
    told = user('[[{"steps": [{"text": "one"}, {"text": "two"}]}]]')
    assert said(book, told, ASSISTANT, RESULT) == "two"
    assert said(book, told, ASSISTANT, TOOL) == "two"
    assert said(book, told, user("never mind")) == "other"
    assert said(book, told, user('[[{"text": "new"}]]')) == "new"


def test_of_several_blocks_the_last_one_with_a_directive_counts() -> None:
    book = Playbook({}, otherwise=OTHER)
    assert said(book, blocks('[[{"text": "old"}]]', '[[{"text": "new"}]]', "attached")) == "new"


def test_a_directive_with_times_is_counted_by_its_text() -> None:
    book = Playbook({}, otherwise=OTHER)
    text = '[[{"steps": [{"status": 429, "times": 1, "text": "fails"}, {"text": "one"}]}]]'
    assert [said(book, user(text)) for _ in range(2)] == ["fails", "one"]
    assert said(book, user(text + "!")) == "fails"


@pytest.mark.parametrize(
    "wrong",
    [
        '[[{"chunkz": 5}]]',
        '[[{"chunks": "5"}]]',
        '[[{"chunks": 0}]]',
        '[[{"steps": 5}]]',
        '[[{"steps": ["text"]}]]',
        '[[{"text": "hi"}',
        "[[1, 2]]",
        '[[{"a":' + "[" * 100_000,
        "[[{" * 1000,
    ],
)
def test_a_malformed_directive_is_ignored(wrong: str) -> None:
    assert parse_directive(wrong) is None
    assert parse_directive(f'{wrong} [[{{"text": "hi"}}]]') == [Reply(text="hi")]


def test_a_directive_with_an_unknown_field_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse_directive('[[{"chunkz": 5}]]')
    assert "chunkz" in caplog.text


def test_messages_of_any_shape_are_answered() -> None:
    book = Playbook({"go": [ONE]}, otherwise=OTHER)
    odd: list[dict[str, Any]] = [{}, {"role": "user"}, {"role": "user", "content": [1, {"type": "text"}]}]
    assert book.pick(odd) == OTHER
