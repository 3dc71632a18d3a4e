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
def test_what_steers_a_terminal_is_left_out(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_line_is_one_line_and_not_too_long() -> None:
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
def test_how_long_ago(before: int, expected: str) -> None:
    assert ago(NOW - before, NOW) == expected


def test_numbers_are_short() -> None:
    numbers = (0, 999, 1000, 12_345, 200_000, 1_000_000)
    assert [short_number(number) for number in numbers] == ["0", "999", "1k", "12.3k", "200k", "1M"]
    assert [dollars(cost) for cost in (None, 0, 0.00012, 1.5)] == ["-", "-", "$0.0001", "$1.50"]
    tokens = Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5))
    assert token_text(tokens) == "15"
    assert token_text(None) == "0"


def test_streams_that_are_no_terminal_are_not_mixed_up(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_what_the_library_logs_is_a_line_and_what_the_store_says_is_said_elsewhere(
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


def test_a_line_that_comes_while_a_person_types_has_a_line_of_its_own(
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


def test_what_is_written_while_the_screen_is_lent_comes_after(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_an_error_that_cannot_say_what_it_is_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise SystemExit

    log = logging.getLogger("tests.cli.silent")
    log.propagate, log.handlers = False, [ScreenLogHandler(Screen())]
    log.warning("it failed", exc_info=Silent())
    assert capsys.readouterr().err == "warning: it failed: Silent\n"


def test_a_warning_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.warn("odd")
    screen.warn("odd")
    assert capsys.readouterr().err == "warning: odd\n"
