"""Work that an older version began goes on in this one: all comes to rest, nothing is lost or done twice."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from asyncagents.domain.id import CallId
from asyncagents.errors import AlreadySettled, NotFound
from asyncagents.llm.model import ToolTurn, UserTurn
from tests.recorded.cast import SUMMARY
from tests.recorded.compare import lost_messages, lost_results, unanswered
from tests.recorded.copy import Copy, Shifted, running
from tests.recorded.going_on import LATER, SOON, Done, finish, prompt, told
from tests.recorded.inventory import take_inventory

Finished = tuple[Copy, Done, dict[str, Any]]
ENDED = {"completed", "error", "cancelled"}
SPOKEN_TO = (
    *("summed", "full", "pruned", "the copy", "the copy of what waits", "undone", "undone files", "unknown"),
    *(
        "undoing files",
        "imported",
        "held",
        "abort",
        "cancelled tree",
        "shell",
        "rejected",
        "crashing",
        "renamed",
    ),
    *("titled", "opened", "cut out", "cleared", "in doubt", "overflow", "unformed", "allowed once"),
)
"""Sessions that were at rest, by name."""
_FINISHED: dict[tuple[str, type], Finished] = {}


@pytest.fixture
async def finished(copy: Copy) -> Finished:
    """A copy whose work is done, what came of it, and its inventory then; made once, to be looked at."""
    key = copy.recording.version, type(copy)
    if key not in _FINISHED:
        done = await finish(copy)
        async with copy.open(Shifted(copy.recording.now + LATER)) as opened:
            _FINISHED[key] = copy, done, await take_inventory(opened, await copy.rows())
    return _FINISHED[key]


def both(copy: Copy, after: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every recorded session, as it was and as it is."""
    for session_id, session in copy.recording.inventory["sessions"].items():
        yield session, after["sessions"][session_id]


def calls_of(copy: Copy) -> dict[str, dict[str, Any]]:
    sessions = copy.recording.inventory["sessions"].values()
    return {call_id: call for session in sessions for call_id, call in session["calls"].items()}


@pytest.mark.spec("X-11")
@pytest.mark.timeout(240)
async def test_all_comes_to_rest_and_nothing_is_lost(finished: Finished) -> None:
    copy, done, after = finished
    assert after["statuses"] == {}
    assert not after["tables"]["request"]["state"].keys() & {"open", "backoff"}
    assert not after["tables"]["notice"]["state"].keys() & {"due"}
    assert not after["tables"]["delivery"]["state"].keys() & {"owed"}
    assert after["tables"]["call"]["state"].keys() == {"settled"}
    for was, now in both(copy, after):
        assert lost_messages(was, now) == []
        assert lost_results(was, now, done.given.results) == []
        assert [each for each in unanswered(now) if each not in unanswered(was)] == []
        assert {task["status"] for task in now["tasks"].values()} <= ENDED
        assert was["tasks"].keys() == now["tasks"].keys()
        assert was["todos"] == now["todos"]


@pytest.mark.spec("X-11")
@pytest.mark.timeout(240)
async def test_no_call_or_delivery_runs_twice_and_cut_off_calls_are_reconciled(finished: Finished) -> None:
    copy, done, after = finished
    runs = Counter(key for _, key in done.runs)
    calls = calls_of(copy)
    cancelled = copy.recording.inventory["sessions"][copy.recording.session("cancelled unserved")]["calls"]
    over = {key for key, call in calls.items() if call["state"] == "settled"}
    waited = {key for key, call in calls.items() if call["state"] == "open" and not call.get("ask")}
    assert {key: times for key, times in runs.items() if times > 1} == {}
    assert not runs.keys() & (over | waited)
    for call_id, call in calls.items():
        if call["state"] == "running" and call_id not in cancelled:
            assert runs[call_id] == (call["effect"] != "once")
        if call["state"] == "requested":
            assert runs[call_id] == 1
    assert not runs.keys() & cancelled.keys()

    owed = {each["id"] for each in copy.recording.inventory["deliveries"] if each["state"] == "owed"}
    assert owed <= set(done.letters)
    assert max(Counter(done.letters).values()) == 1
    assert {each["id"] for each in after["deliveries"] if each["state"] == "delivered"} >= set(done.letters)


@pytest.mark.spec("X-11")
@pytest.mark.timeout(240)
async def test_submitted_results_and_due_notices_reach_the_models(finished: Finished) -> None:
    copy, done, after = finished
    text = told(done.requests)
    assert done.given.results
    assert [each for each in done.given.results.values() if each not in text] == []
    assert len(done.given.replies) == len(copy.recording.inventory["asks"])
    for was, now in both(copy, after):
        open_before = {(task_id, run) for task_id, run, state, _ in was["notices"] if state == "due"}
        for task_id, run, state, _ in now["notices"]:
            if (task_id, run) in open_before:
                assert state == "told"
                assert now["tasks"][task_id]["description"] in text
    assert "nobody saw it yet" in text
    assert "and this along with it" in text


@pytest.mark.spec("X-11")
@pytest.mark.timeout(240)
async def test_sessions_take_a_further_prompt(copy: Copy) -> None:
    """After a summary, a copy, an import, an undo, a pruning, an abort, a failure, beside an unknown part."""
    session, inventory = copy.recording.session, copy.recording.inventory
    async with running(copy, after_ms=SOON) as at:
        said = {name: await prompt(at, session(name), "hello") for name in SPOKEN_TO}
        again = await asyncio.wait_for(at.runtime.prompt(session("hello"), "hello", key="a key"), 20)
        unasked = await prompt(at, session("allowed always"), "allowed always")
        with pytest.raises(NotFound):
            await at.runtime.session(session("gone"))
        (late,) = map(CallId, inventory["sessions"][session("shipped")]["calls"])
        same = await at.runtime.complete(late, "v1 is live", title="Deployed")
        with pytest.raises(AlreadySettled):
            await at.runtime.complete(late, "v2 is live")
        text = told(at.model.requests)
        (pruned,) = [each for each in at.model.requests if each.messages[0] == UserTurn("pruned")]

    assert {name for name, each in said.items() if "Hi there" not in each} == set()
    assert again.info.id == inventory["sessions"][session("hello")]["messages"][1]["id"]
    assert unasked == "As ever."
    assert same.is_settled
    assert SUMMARY in text
    assert "held back" in text
    assert "Stopped with all" in text, "a quiet notice is told with what comes next"
    assert "Undo me." not in text
    outputs = [len(each.output) for each in pruned.messages if isinstance(each, ToolTurn)]
    assert sum(outputs) < len(outputs) * max(outputs) // 2, "what was pruned is not read again"
