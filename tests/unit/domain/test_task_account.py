"""What the runs of a task came to: each by itself, and all of them together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.id import MessageId
from asyncagents.domain.task.account import all_runs, earlier_runs, ended_runs, run_account
from asyncagents.domain.task.summary import metadata_text
from asyncagents.domain.task.task import (
    Account,
    FollowUp,
    RunBaseline,
    Task,
    TaskOutcome,
    Totals,
    end_run,
    resume_run,
)
from tests.support.domain.state import NOW, build_task

FOLLOW = FollowUp(MessageId("msg_2"), "And then?", NOW)


def account(calls: list[str], spent: int) -> Account:
    tokens = Tokens(input=spent, output=1, reasoning=0, cache=CacheTokens(read=0, write=spent))
    names = {name: calls.count(name) for name in calls}
    return Account(tool_calls=len(calls), by_name=names, last_tools=tuple(calls[-5:]), tokens=tokens)


def end(task: Task, session: Account, now: int) -> Task:
    latest = run_account(task, session)
    return end_run(replace(task, earlier=earlier_runs(task)), TaskOutcome(status="completed"), latest, now)


def resume(task: Task, session: Account, now: int) -> Task:
    return resume_run(task, replace(FOLLOW, at=now), None, RunBaseline(session, ended_runs(task)))


@pytest.mark.spec("Z-05")
def test_a_run_is_counted_from_where_it_began() -> None:
    first = end(build_task(began=NOW), account(["read", "bash"], 10), NOW + 3)
    again = resume(first, account(["read", "bash"], 10), NOW + 100)
    second = end(again, account(["read", "bash", "bash"], 25), NOW + 104)
    assert first.account is not None
    assert second.account is not None
    assert second.account.tool_calls == 1
    assert second.account.by_name == {"bash": 1}
    assert second.account.last_tools == ("bash",)
    assert second.account.tokens.input == 15
    assert second.account.tokens.output == 0
    assert second.account.ms == 4
    totals = all_runs(second, second.account)
    assert totals is not None
    assert totals.tool_calls == 3
    assert totals.by_name == {"read": 1, "bash": 2}
    assert totals.ms == 7
    assert totals.tokens.input == 25
    assert all_runs(first, first.account) is None


@pytest.mark.spec("Z-05")
def test_calls_between_two_runs_count_for_neither_run() -> None:
    first = end(build_task(began=NOW), account(["read"], 10), NOW)
    again = resume(first, account(["read", "bash"], 90), NOW)
    second = end(again, account(["read", "bash", "grep"], 95), NOW)
    assert second.account is not None
    assert second.account.by_name == {"grep": 1}
    assert second.account.tokens.input == 5
    assert ended_runs(second).by_name == {"read": 1, "grep": 1}


@pytest.mark.spec("Z-05")
def test_a_run_without_calls_has_zero_figures_beside_the_totals() -> None:
    first = end(build_task(began=NOW), account(["read", "bash"], 10), NOW)
    second = end(resume(first, account(["read", "bash"], 10), NOW), account(["read", "bash"], 10), NOW)
    told = metadata_text(second)
    assert "\ntool_calls: 0\n" in told
    assert "\ntokens: 0 input, 0 output, 0 reasoning, 0 cache read, 0 cache write\n" in told
    assert "\nruns: 2\ntotal_tool_calls: 2 (bash 1, read 1)\ntotal_tokens: 10 input," in told
    assert "\ntotal_cost: $0.0000\ntotal_duration: 0s\n" in told
    assert "total" not in metadata_text(first)


@given(st.lists(st.lists(st.sampled_from(["read", "bash", "grep"]), max_size=9), min_size=1, max_size=5))
@pytest.mark.spec("Z-05")
def test_the_totals_of_all_runs_equal_the_account_of_the_session(runs: list[list[str]]) -> None:
    calls: list[str] = []
    task = build_task(began=NOW)
    for number, run in enumerate(runs):
        if number:
            task = resume(task, account(calls, len(calls)), NOW)
        calls += run
        task = end(task, account(calls, len(calls)), NOW)
        assert task.account is not None
        assert task.account.tool_calls == len(run)
        assert task.account.last_tools == tuple(run[-5:])
    totals = ended_runs(task)
    assert totals == replace(_totals(account(calls, len(calls))), ms=0)


def _totals(whole: Account) -> Totals:
    return Totals(tool_calls=whole.tool_calls, by_name=whole.by_name, tokens=whole.tokens, cost=whole.cost)


@pytest.mark.spec("Z-05")
def test_sums_that_an_older_program_stored_are_labelled_as_totals() -> None:
    """It kept the calls and tokens of all runs, and the time of the last one."""
    mixed = build_task(status="completed", ended=NOW, run=1, resumes=1, account=account(["read"] * 3, 30))
    told = metadata_text(mixed)
    assert "\nruns: 2\ntotal_tool_calls: 3 (read 3)\ntotal_tokens: 30 input," in told
    assert "\ntool_calls" not in told
    assert "\ntokens" not in told
    assert "total_duration" not in told
    third = end(resume(mixed, account(["read"] * 3, 30), NOW), account(["read"] * 4, 31), NOW)
    assert third.account is not None
    assert third.account.tool_calls == 1
    assert "\nruns: 3\ntotal_tool_calls: 4 (read 4)\n" in metadata_text(third)


@pytest.mark.spec("Z-05")
def test_a_run_that_an_older_program_began_is_counted_from_its_last_end() -> None:
    live = build_task(
        status="resumed", run=1, resumes=1, began=NOW, account=replace(account(["read"] * 2, 20), ms=5_000)
    )
    done = end(live, account(["read"] * 2 + ["bash"], 22), NOW + 1_000)
    told = metadata_text(done)
    assert "\ntool_calls: 1 (bash 1)\ntokens: 2 input," in told
    assert "\nruns: 2\ntotal_tool_calls: 3 (read 2, bash 1)\n" in told
    assert "\nduration: 1s\n" in told
    assert "\ntotal_duration: 6s\n" in told
