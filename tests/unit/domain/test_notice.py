"""What a parent is told when tasks end: fixed formats, and nothing in them that a child can forge."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.id import SessionId
from asyncagents.domain.task.notice import BatchCount, Notice, NoticeFormat, build_notice
from asyncagents.domain.task.task import EndedBy, TaskEnd, TaskError, TaskStatus
from tests.support.domain.state import build_task_end
from tests.support.hostile.text import Envelope, find_tags, forged_notices, hostile_texts, read_envelopes

BATCHES = {"bat_1": BatchCount(1, 3), "bat_2": BatchCount(2, 2)}
SOURCE = (
    "This notice is from the asyncagents runtime. No person wrote it, and it is not a request of the user."
)
FAILED = build_task_end(status="error", result=None, error=TaskError("APIError", "The provider is down."))


def told(*ends: TaskEnd, running: int = 0, notice_format: NoticeFormat | None = None) -> Notice:
    return build_notice(ends, BATCHES, running, notice_format or NoticeFormat())


@pytest.mark.spec("T-12")
@pytest.mark.parametrize(
    ("end", "text"),
    [
        (build_task_end(), '✓ **Agent "Find the tests" finished in 1m 5s.**\nTask Progress: 1/3'),
        (FAILED, '✗ **Agent "Find the tests" failed in 1m 5s.**\nTask Progress: 1/3'),
        (
            build_task_end(status="cancelled", ms=45_000),
            '⊘ **Agent "Find the tests" cancelled after 45s.**\nTask Progress: 1/3',
        ),
        (build_task_end(resumes=2), "✓ **Resume #2 completed in 1m 5s.**\nTask Progress: 1/3"),
        (build_task_end(resumes=2, status="error"), "✗ **Resume #2 failed in 1m 5s.**\nTask Progress: 1/3"),
        (
            build_task_end(resumes=2, status="cancelled"),
            '⊘ **Agent "Find the tests" cancelled after 1m 5s.**\nTask Progress: 1/3',
        ),
    ],
)
def test_people_see_an_end_in_a_fixed_format(end: TaskEnd, text: str) -> None:
    assert told(end).visible == (text,)


@pytest.mark.spec("T-13")
def test_the_visible_text_mentions_the_attached_hint_in_development() -> None:
    (text,) = told(build_task_end(), notice_format=NoticeFormat(development=True)).visible
    assert text == '✓ **Agent "Find the tests" finished in 1m 5s.**\nTask Progress: 1/3 [hint attached]'


@pytest.mark.spec("T-12")
def test_while_others_run_the_hint_names_each_task_that_ended() -> None:
    other = build_task_end(id=SessionId("ses_other"), description="Read the docs", batch="bat_2", result="")
    given = told(build_task_end(), other, running=2)
    assert given.visible == (
        '✓ **Agent "Find the tests" finished in 1m 5s.**\nTask Progress: 1/3',
        '✓ **Agent "Read the docs" finished in 1m 5s.**\nTask Progress: 2/2',
    )
    assert given.hidden == (
        "<system-reminder>\n"
        f"{SOURCE}\n"
        'Task ses_child "Find the tests" of agent explore: completed.\n'
        'Task ses_other "Read the docs" of agent explore: completed without a final text.\n'
        'If you need results immediately, use asyncagents_output(task_id="ses_child").\n'
        'If you need results immediately, use asyncagents_output(task_id="ses_other").\n'
        "You can continue working or just say 'waiting' and halt.\n"
        "WATCH OUT for leftovers, you will likely WANT to wait for all agents to complete.\n"
        "</system-reminder>"
    )


@pytest.mark.spec("T-12")
def test_the_hint_counts_the_finished_tasks_when_none_runs() -> None:
    other = build_task_end(id=SessionId("ses_other"), batch="bat_2", status="cancelled", ended_by="deadline")
    third = build_task_end(id=SessionId("ses_third"))
    assert told(build_task_end(), other, third).hidden == (
        "<system-reminder>\n"
        f"{SOURCE}\n"
        'Task ses_child "Find the tests" of agent explore: completed.\n'
        'Task ses_other "Find the tests" of agent explore: cancelled (its time was up).\n'
        'Task ses_third "Find the tests" of agent explore: completed.\n'
        "All 5 tasks finished.\n"
        "Use asyncagents_output tools to see agent responses.\n"
        "</system-reminder>"
    )


@pytest.mark.spec("T-12")
def test_the_hint_of_a_single_task_is_in_the_singular() -> None:
    hidden = build_notice([build_task_end()], {"bat_1": BatchCount(1, 1)}, 0, NoticeFormat()).hidden
    assert "\n1 task finished.\nUse asyncagents_output tools to see agent responses.\n" in hidden


@pytest.mark.spec("Z-03")
def test_the_notice_of_a_sync_task_without_background_tasks_has_no_counts() -> None:
    """Its call was given up before it ended."""
    given = build_notice([build_task_end()], {"bat_1": BatchCount(0, 0)}, 0, NoticeFormat())
    assert given.visible == ('✓ **Agent "Find the tests" finished in 1m 5s.**',)
    assert "finished." not in given.hidden
    assert "Use asyncagents_output tools to see agent responses." in given.hidden


@pytest.mark.spec("T-12")
def test_two_runs_of_a_task_have_separate_lines_and_one_hint() -> None:
    hidden = told(build_task_end(), build_task_end(run=1, resumes=1), running=1).hidden
    assert 'Task ses_child "Find the tests" of agent explore, resume #1: completed.\n' in hidden
    assert hidden.count("If you need results immediately") == 1


@pytest.mark.spec("T-12")
@pytest.mark.parametrize("running", [0, 1])
def test_a_failure_adds_its_error_with_the_id_of_its_task(running: int) -> None:
    _, error = read_envelopes(told(FAILED, running=running).hidden)
    assert error == Envelope(
        "task_error", 'task_id="ses_child" error_type="APIError"', "The provider is down."
    )


@pytest.mark.spec("T-12")
def test_a_result_is_in_the_notice_only_if_that_is_wanted() -> None:
    assert [each.tag for each in read_envelopes(told(build_task_end()).hidden)] == ["system-reminder"]
    ends = (build_task_end(), build_task_end(id=SessionId("ses_silent"), result=" "), FAILED)
    _, *data = read_envelopes(told(*ends, notice_format=NoticeFormat(inline_result=True)).hidden)
    assert [(each.tag, each.text) for each in data] == [
        ("task_result", "In tests/."),
        ("task_error", "The provider is down."),
    ]


def test_the_hint_names_the_tool_that_the_model_has() -> None:
    notice_format = NoticeFormat(tool="async_task_result")
    assert (
        'use async_task_result(task_id="ses_child").'
        in told(build_task_end(), running=1, notice_format=notice_format).hidden
    )
    assert (
        "Use async_task_result tools to see agent responses."
        in told(build_task_end(), notice_format=notice_format).hidden
    )
    assert "asyncagents_output" not in told(build_task_end(), running=1, notice_format=notice_format).hidden


@pytest.mark.parametrize("running", [0, 1])
def test_a_model_with_no_tool_to_read_a_result_gets_it_with_the_notice(running: int) -> None:
    reminder, result = read_envelopes(
        told(build_task_end(), running=running, notice_format=NoticeFormat(tool=None)).hidden
    )
    assert result.tag == "task_result"
    assert result.text == "In tests/."
    assert "use " not in reminder.text.lower()


@pytest.mark.parametrize("status", ["running", "resumed"])
def test_a_task_that_has_not_ended_is_no_notice(status: TaskStatus) -> None:
    with pytest.raises(ValueError, match="ses_child has not ended"):
        told(build_task_end(status=status))


ENDS = st.builds(
    build_task_end,
    id=st.sampled_from(["ses_a", "ses_b", "ses_c"]),
    description=hostile_texts,
    agent=hostile_texts,
    status=st.sampled_from(["completed", "error", "cancelled"]),
    resumes=st.integers(0, 2),
    result=st.none() | hostile_texts,
    error=st.none() | st.builds(TaskError, hostile_texts, hostile_texts),
    ended_by=st.none() | st.sampled_from(get_args(EndedBy)),
    ms=st.integers(0, 10**8),
)
_STRICT = re.compile(
    r'(✓ \*\*Agent "[^"]*" finished in|✗ \*\*Agent "[^"]*" failed in|⊘ \*\*Agent "[^"]*" cancelled after'
    r"|✓ \*\*Resume #\d completed in|✗ \*\*Resume #\d failed in) [\dhms ]+\.\*\*\nTask Progress: 1/3"
)


@pytest.mark.spec("T-12")
@given(st.lists(ENDS, min_size=1, max_size=4), st.integers(0, 2), st.booleans())
def test_no_child_can_forge_a_notice_or_leave_its_envelope(
    ends: list[TaskEnd], running: int, inline: bool
) -> None:
    given = told(*ends, running=running, notice_format=NoticeFormat(inline_result=inline))
    assert len(given.visible) == len(ends)
    for text in given.visible:
        assert _STRICT.fullmatch(text)
        assert text.count("**") == 2
        assert find_tags(text) == 0
    reminder, *data = read_envelopes(given.hidden)
    assert reminder.tag == "system-reminder"
    hints = len({end.id for end in ends}) + 2 if running else 2
    assert len(reminder.text.splitlines()) == 1 + len(ends) + hints + bool(data)
    assert [each.text for each in data] == list(_expected(ends, inline))
    assert forged_notices(given.hidden) == []
    assert all(end.id in reminder.text for end in ends)


def _expected(ends: list[TaskEnd], inline: bool) -> list[str]:
    """What was said and what went wrong, in the order of the ends."""
    texts: list[str] = []
    for end in ends:
        texts += [end.error.message] if end.error else []
        texts += (
            [end.result]
            if inline and end.status == "completed" and (end.result or "").strip() and end.result
            else []
        )
    return texts
