"""What is written: two streams that keep to their lines, and nothing that could steer a terminal."""

import logging

import pytest

from asyncagents.cli.terminal.screen import (
    Screen,
    ScreenLogHandler,
    ago,
    dollars,
    one_line,
    plain,
    print_table,
    short_number,
    token_text,
)
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.errors import StoreError

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x1b]0;title\x07", "]0;title"),
        ("back\rward\x08\x7f", "backward"),
        ("\x9b31m", "31m"),
        ("rm \u202etxt.a\u202c \u2067b\u2069", "rm txt.a b"),
        ("Grüße 🌍", "Grüße 🌍"),
    ],
)
def test_control_and_bidi_characters_are_removed(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_text_becomes_one_line_of_limited_length() -> None:
    assert one_line(" a\n\tb \x1b c ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (0, "just now"),
        (-5, "just now"),
        (59_999, "just now"),
        (MINUTE, "1 min ago"),
        (HOUR * 2, "2 h ago"),
        (DAY * 3, "3 d ago"),
        (DAY * 40, "2026-12-06"),
    ],
)
def test_a_past_time_is_shown_as_an_age_or_a_date(before: int, expected: str) -> None:
    assert ago(NOW - before, NOW) == expected


def test_numbers_are_short() -> None:
    numbers = (0, 999, 1000, 12_345, 200_000, 1_000_000)
    assert [short_number(number) for number in numbers] == ["0", "999", "1k", "12.3k", "200k", "1M"]
    assert [dollars(cost) for cost in (None, 0, 0.00012, 1.5)] == ["-", "-", "$0.0001", "$1.50"]
    tokens = Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5))
    assert token_text(tokens) == "15"
    assert token_text(None) == "0"


def test_answer_and_notes_keep_to_their_streams_outside_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    screen.write_reasoning("let me")
    screen.write_reasoning(" see")
    screen.write_answer("The ans")
    screen.note("retry")
    screen.write_answer("wer\x1b[0m")
    screen.end_line()
    screen.end_line()
    said = capsys.readouterr()
    assert said.out == "The answer\x1b[0m\n"
    assert said.err == "let me see\nretry\n"


def test_a_table_is_as_wide_as_its_widest_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("a", "long title", "x"), ("bbb", "t\n\x1b", "y")], flexible=1)
    print_table([], flexible=0)
    assert capsys.readouterr().out == "a    long title  x\nbbb  t           y\n"


def test_a_logged_warning_is_one_line_and_store_errors_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logging.getLogger("tests.cli.notes")
    log.propagate, log.handlers = False, [ScreenLogHandler(Screen())]
    log.info("too quiet")
    log.warning("%s is odd", "this")
    for error in (ValueError("broken"), StoreError("full")):
        try:
            raise error
        except Exception:
            log.exception("a run failed")
    log.warning("a hook raised ValueError: once", exc_info=ValueError("once"))
    assert capsys.readouterr().err.splitlines() == [
        "warning: this is odd",
        "warning: a run failed: ValueError: broken",
        "warning: a hook raised ValueError: once",
    ]


def test_a_note_that_arrives_while_a_person_types_has_its_own_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    screen.show_prompt("yes? > ")
    screen.note("something happened")
    asking = screen.prompt_visible
    screen.show_prompt("yes? > ")
    screen.mark_answered()
    screen.clear_prompt()
    assert asking is False
    assert capsys.readouterr().err == "yes? > \nsomething happened\nyes? > "


def test_output_during_a_suspension_is_written_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    with screen.suspend_output():
        screen.note("a note")
        screen.write_answer("words")
        meanwhile = capsys.readouterr()
    after = capsys.readouterr()
    assert meanwhile.out == ""
    assert meanwhile.err == ""
    assert after.out == "words"
    assert after.err == "a note\n"


def test_an_error_whose_str_raises_is_shown_by_its_class_name(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise SystemExit

    log = logging.getLogger("tests.cli.silent")
    log.propagate, log.handlers = False, [ScreenLogHandler(Screen())]
    log.warning("it failed", exc_info=Silent())
    assert capsys.readouterr().err == "warning: it failed: Silent\n"


def test_a_repeated_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.warn("odd")
    screen.warn("odd")
    assert capsys.readouterr().err == "warning: odd\n"
