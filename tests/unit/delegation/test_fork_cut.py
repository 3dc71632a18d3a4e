"""What is cut from a fork's history, to the character; and what it is told of that."""

from typing import Any

import pytest

from asyncagents.delegation.fork import OPENING, ForkedHistory
from asyncagents.delegation.fork_copy import UNDER_WAY
from asyncagents.delegation.fork_limit import cut
from asyncagents.domain.call.call import (
    Completed,
    Failed,
    Result,
    Settled,
)
from asyncagents.domain.call.late_result import pending_text, result_text
from asyncagents.domain.conversation.part import FilePart, PartTime, TextPart, ToolPart, ToolWaiting
from asyncagents.domain.id import CallId
from asyncagents.engine.model_input import SUMMARISED
from asyncagents.llm.model import UserTurn
from tests.support.domain.history import (
    History,
    characters,
    inputs,
    outputs,
    request_messages,
    summarise_history,
    texts,
)
from tests.support.domain.state import call

LONG = "abcdefghij" * 400
"""4,000 characters."""


def with_results(*results: str, tool: str = "read") -> History:
    """The oldest first, each in a step of its own."""
    history = History()
    history.user("Go")
    for output in results:
        history.step(history.completed_call(output, tool), finish="tool-calls")
    return history


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    ("newer", "kept"), [(0, 4_000), (4, 4_000), (5, 3_000), (14, 3_000), (15, 500), (16, 500), (99, 500)]
)
@pytest.mark.parametrize("together", [False, True])
def test_a_result_is_cut_by_how_many_are_newer(newer: int, kept: int, together: bool) -> None:
    history = History()
    history.user("Go")
    if together:  # calls of one step
        history.step(
            history.completed_call(LONG),
            *(history.completed_call("x") for _ in range(newer)),
            finish="tool-calls",
        )
    else:
        history = with_results(LONG, *["x"] * newer)
    first = outputs(history.fork())[0]
    left_out = f"\n[… {4_000 - kept:,} characters left out …]" if kept < 4_000 else ""
    assert first == LONG[:kept] + left_out


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(("newer", "limit"), [(5, 3_000), (15, 500)])
@pytest.mark.parametrize("over", [0, 1])
def test_a_result_is_cut_if_it_is_one_character_too_long(newer: int, limit: int, over: int) -> None:
    text = "é" * (limit + over)
    first = outputs(with_results(text, *["x"] * newer).fork())[0]
    assert first == (f"{'é' * limit}\n[… 1 characters left out …]" if over else text)


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(("newer", "kept"), [(4, 4_000), (5, 3_000), (15, 500)])
@pytest.mark.parametrize("how", ["shell", "error", "shell error"])
def test_shell_and_error_output_keeps_both_ends_when_cut(newer: int, kept: int, how: str) -> None:
    history = History()
    history.user("Go")
    tool = "bash" if "shell" in how else "read"
    long = history.failed_call(LONG, tool) if "error" in how else history.completed_call(LONG, tool)
    history.step(long, *(history.completed_call("x") for _ in range(newer)), finish="tool-calls")
    half = kept // 2
    mark = f"\n[… {4_000 - kept:,} characters left out …]\n"
    assert outputs(history.fork())[0] == (LONG if kept == 4_000 else LONG[:half] + mark + LONG[-half:])


@pytest.mark.spec("T-11")
def test_a_cut_to_an_odd_length_keeps_one_more_character_at_the_start() -> None:
    assert cut("abcdefgh", 5, ends=True) == "abc\n[… 3 characters left out …]\ngh"
    assert cut("abcdefgh", 1, ends=True) == "a\n[… 7 characters left out …]"


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(("newer", "kept"), [(0, 500), (4, 500), (5, 200), (14, 200), (15, 100), (40, 100)])
@pytest.mark.parametrize("over", [0, 1])
def test_inputs_are_cut_by_the_number_of_newer_calls(newer: int, kept: int, over: int) -> None:
    history = History()
    history.user("Go")
    history.step(history.completed_call("x", content="é" * (kept + over)), finish="tool-calls")
    for _ in range(newer):
        history.step(history.completed_call("x"), finish="tool-calls")
    expected = "é" * kept + ("\n[… 1 characters left out …]" if over else "")
    assert inputs(history.fork())[0] == {"content": expected}


@pytest.mark.spec("T-11")
def test_every_text_in_an_input_is_cut_and_its_shape_stays() -> None:
    history = History()
    history.user("Go")
    given: dict[str, Any] = {
        "edits": [{"old": LONG, "new": "b"}, [LONG]],
        "count": 3,
        "all": True,
        "none": None,
        "rate": 0.5,
    }
    history.step(history.completed_call("x", **given), finish="tool-calls")
    short = cut(LONG, 500)
    assert inputs(history.fork()) == [{**given, "edits": [{"old": short, "new": "b"}, [short]]}]


@pytest.mark.spec("T-11")
def test_an_input_that_is_very_deep_is_cut_short() -> None:
    given: dict[str, Any] = {"a": "bottom"}
    for _ in range(5_000):
        given = {"a": [given]}
    history = History()
    history.user("Go")
    history.step(history.completed_call("x", **given), finish="tool-calls")
    (copy,) = inputs(history.fork())
    assert "bottom" not in str(copy)
    assert "left out" in str(copy)


def late(part: ToolPart, result: Result) -> str:
    return result_text(call(Settled(result, 9), call_id=part.call_id, tool=part.tool))


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(("newer", "kept"), [(4, None), (5, 3_000), (15, 500)])
@pytest.mark.parametrize(
    ("tool", "result"),
    [("deploy", Completed(LONG)), ("deploy", Failed(LONG)), ("bash", Completed(LONG))],
)
def test_a_late_result_is_cut_where_it_arrived(
    newer: int, kept: int | None, tool: str, result: Result
) -> None:
    history = History()
    history.user("Go")
    part = history.completed_call("told later", tool)
    history.step(part, finish="tool-calls")
    came = late(part, result)
    history.user(history.text(came, synthetic=True))
    for _ in range(newer):
        history.step(history.completed_call("x"), finish="tool-calls")
    fork = history.fork(shown=frozenset({part.id}))
    ends = tool == "bash" or isinstance(result, Failed)
    assert outputs(fork)[0] == pending_text(part.call_id, tool)
    assert texts(fork)[1] == came.removesuffix(LONG) + cut(LONG, kept, ends=ends)


@pytest.mark.spec("T-11")
def test_notes_of_open_calls_do_not_count_as_newer_results() -> None:
    history = History()
    history.user("Go")
    history.step(history.completed_call(LONG), finish="tool-calls")
    waiting = ToolWaiting(input={}, pending_id=CallId("tool_1"), time=PartTime(start=1))
    history.step(*(history.call(waiting, "job") for _ in range(30)), finish="tool-calls")
    assert outputs(history.fork()) == [LONG, *[UNDER_WAY] * 30]


def said(*lengths: int) -> History:
    """Prompts of so many characters, each of a letter of its own."""
    history = History()
    for number, length in enumerate(lengths):
        history.user(chr(ord("a") + number) * length)
    return history


def first_letters(fork: ForkedHistory) -> str:
    return "".join(text[0] for text in texts(fork))


@pytest.mark.spec("T-11")
@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ((60_000, 60_000), "ab"),
        ((40_000, 40_000, 40_000), "abc"),
        ((100_000, 100_000), "ab"),
        ((100_000, 100_001), "b"),
        ((1, 100_000, 100_000), "bc"),
        ((1, 1, 1, 199_998), "bcd"),
        ((150_000, 10, 150_000), "bc"),
        ((1, 200_000), "b"),
        ((200_000,), "a"),
    ],
)
def test_the_oldest_messages_are_left_out_until_the_fork_fits(lengths: tuple[int, ...], kept: str) -> None:
    history = said(*lengths)
    fork = history.fork()
    assert first_letters(fork) == kept
    gone = len(lengths) - len(kept)
    assert ("left out, the oldest" in fork.preamble) == bool(gone)
    assert request_messages(fork.entries) == request_messages(history.entries[gone:])


@pytest.mark.spec("T-11")
def test_results_and_inputs_count_towards_the_limit_as_the_model_reads_them() -> None:
    history = History()
    history.user("a" * 99_000)
    history.user("b" * 50_000)
    given = {"content": "c" * 500}
    history.step(
        history.completed_call("d" * (51_000 - len('{"content":""}') - 500), **given), finish="tool-calls"
    )
    assert first_letters(history.fork()) == "ab"
    history.user("e")
    assert first_letters(history.fork()) == "be"


@pytest.mark.spec("T-11")
def test_a_copy_that_lost_its_prompt_begins_with_an_opening_message() -> None:
    history = said(150_000)
    history.step("b" * 100_000)
    fork = history.fork()
    assert texts(fork) == [OPENING, "b" * 100_000]
    assert "1 message left out, the oldest." in fork.preamble


@pytest.mark.spec("T-11")
def test_a_result_is_left_out_together_with_its_call() -> None:
    history = History()
    history.user("Go")
    history.step(history.completed_call("r" * 90_000), finish="tool-calls")
    history.user("b" * 199_999)
    assert request_messages(history.fork().entries) == [UserTurn("b" * 199_999)]


@pytest.mark.spec("T-11")
def test_an_image_counts_a_fixed_amount_and_not_its_bytes() -> None:
    history = History()
    url = "data:image/png;base64," + "a" * 300_000
    history.user("See", history.part(FilePart, mime="image/png", url=url))
    history.user("b" * 190_000)
    assert len(history.fork().entries) == 2
    history.user("c" * 10_000)
    assert first_letters(history.fork()) == "bc"


@pytest.mark.spec("T-11")
def test_if_the_newest_message_alone_is_too_long_its_results_share_the_room() -> None:
    history = History()
    history.user("Go")
    history.step(
        "I read.", *(history.completed_call(letter * 50_000) for letter in "vwxyz"), finish="tool-calls"
    )
    fork = history.fork()
    assert texts(fork) == [OPENING, "I read."]
    assert [output[0] + output[-1] for output in outputs(fork)] == ["vv", "ww", "xx", "yy", "zz"]
    assert all(output.count("characters left out") == 1 for output in outputs(fork))
    assert 150_000 < characters(request_messages(fork.entries)) <= 200_000 + len(OPENING)
    assert "5 tool results shortened; 1 message left out, the oldest." in fork.preamble


@pytest.mark.spec("T-11")
def test_one_prompt_that_is_too_long_keeps_both_ends() -> None:
    history = said(200_001)
    (text,) = texts(history.fork())
    assert text[0] == "a"
    assert text[-1] == "a"
    assert text.count("left out") == 1
    assert 199_000 < len(text) <= 200_000
    assert "1 long text shortened" in history.fork().preamble


@pytest.mark.spec("T-11")
def test_a_message_that_cannot_be_cut_is_left_out_even_if_it_is_newest() -> None:
    history = said(10)
    history.step(history.completed_call("x", many=["a" * 9] * 30_000), finish="tool-calls")
    assert history.fork().entries == ()


@pytest.mark.spec("T-11")
def test_a_summary_stays_when_old_messages_go() -> None:
    history = History()
    head = summarise_history(history, "note")
    history.user("a" * 150_000)
    history.user("b" * 150_000)
    assert texts(history.fork(head)) == [f"note\n{SUMMARISED}", "They build a shop.", "b" * 150_000]


@pytest.mark.spec("T-11")
@pytest.mark.parametrize("over", [0, 1])
def test_a_long_summary_is_cut_before_any_message_goes(over: int) -> None:
    history = History()
    head = summarise_history(history, words="s" * 60_000)
    history.user("a" * 70_000)
    history.user("b" * (70_000 - len(SUMMARISED) + over))
    fork = history.fork(head)
    assert first_letters(fork) == f"{SUMMARISED[0]}sab"
    assert len(texts(fork)[1]) <= 25_000 if over else texts(fork)[1] == "s" * 60_000
    assert ("1 long text shortened" in fork.preamble) == bool(over)


@pytest.mark.spec("T-11")
def test_a_summary_counts_towards_the_limit_of_the_messages() -> None:
    history = History()
    head = summarise_history(history)
    history.user("a" * 100_000)
    history.user("b" * 100_000)
    assert texts(history.fork(head))[2:] == ["b" * 100_000]


@pytest.mark.spec("T-11")
def test_a_very_long_summary_leaves_room_for_the_newest() -> None:
    history = History()
    head = summarise_history(history, "n" * 90_000, words="s" * 400_000)
    history.user("a" * 140_000)
    fork = history.fork(head)
    note, summary, newest = texts(fork)
    assert (len(note) + len(summary) <= 50_000) is True
    assert newest == "a" * 140_000
    assert note.endswith(SUMMARISED)
    assert summary.count("left out") == 1


@pytest.mark.spec("T-11")
def test_the_preamble_counts_shortened_results_and_left_out_messages() -> None:
    history = History()
    history.user("Go")
    history.step(history.completed_call(LONG, content=LONG), finish="tool-calls")
    for _ in range(6):
        history.step(history.completed_call(LONG), finish="tool-calls")
    preamble = history.fork().preamble
    assert "Cut from it: 2 tool results shortened; 1 tool input shortened. Where" in preamble
    history.user("b" * 200_000)
    assert "Cut from it: 8 messages left out, the oldest ones. Where" in history.fork().preamble


@pytest.mark.spec("T-11")
def test_texts_of_people_and_models_are_never_cut_for_their_age() -> None:
    history = History()
    history.user(history.text(LONG), history.text(LONG, synthetic=True))
    history.step(LONG)
    history.step(*(history.completed_call("x") for _ in range(20)), finish="tool-calls")
    assert texts(history.fork()) == [f"{LONG}\n{LONG}", LONG]
    assert all(
        part.text == LONG
        for entry in history.fork().entries
        for part in entry.parts
        if isinstance(part, TextPart)
    )
