"""Many verbs, one transaction: what goes wrong with one leaves its neighbours whole."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.event import Event, MessageUpdated
from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.errors import Conflict, NotFound, StoreError
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.tx import Commit, Tx, Verb
from asyncagents.store.verb import admit
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.store.fault import Fault, Faults, open_batches
from tests.support.store.lab import Lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """Sets the stage and reads; the batches under test are another writer on the same file."""
    clock, rng = FakeClock(), SeededRng(1)
    ids = Ids(clock, rng)
    async with open_sqlite(
        tmp_path / "store.db", clock=clock, rng=rng, ids=ids, connect=Faults().connect
    ) as database:
        yield Lab(database, clock, ids)


def _admit(fact: Admit) -> Verb[Any]:
    return lambda tx: admit.admit_input(tx, fact)


def _then(fact: Admit, error: Exception) -> Verb[Any]:
    """Does its work, and then fails."""

    async def verb(tx: Tx) -> None:
        await admit.admit_input(tx, fact)
        raise error

    return verb


def _published(events: list[Event]) -> list[MessageId]:
    return [event.info.id for event in events if isinstance(event, MessageUpdated)]


@pytest.mark.parametrize(
    "error", [Conflict("no"), KeyError("a bug"), sqlite3.IntegrityError("constraint"), RecursionError()]
)
async def test_a_failed_verb_of_a_batch_does_not_affect_the_others(
    lab: Lab, tmp_path: Path, error: Exception
) -> None:
    session_id = await lab.session()
    good, bad, late = (lab.input(session_id, text) for text in ("good", "bad", "late"))
    with open_batches(tmp_path / "store.db", seed=5) as group_commit:
        outcomes, commit_report = group_commit.run([_admit(good), _then(bad, error), _admit(late)])
    first, failed, last = outcomes
    assert first.value == AdmitResult(good.message.id, new=True)
    assert last.value == AdmitResult(late.message.id, new=True)
    expected = StoreError if isinstance(error, sqlite3.Error) else type(error)
    assert isinstance(failed.error, expected)
    assert _published(commit_report.events) == [good.message.id, late.message.id]
    assert commit_report.woken == [session_id, session_id]
    assert [e.info.id for e in await lab.store.messages(session_id)] == [good.message.id, late.message.id]
    assert (await lab.store.control(session_id)).wake_seq == 2


async def test_a_batch_of_failures_writes_nothing(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()
    before, cursor = await lab.read_everything(), await lab.store.cursor()
    verbs = [_then(lab.input(session_id), Conflict("no")) for _ in range(3)]
    with open_batches(tmp_path / "store.db", seed=5) as group_commit:
        outcomes, commit_report = group_commit.run(verbs)
    assert [type(outcome.error) for outcome in outcomes] == [Conflict] * 3
    assert commit_report == Commit([], [], [], [], upto=commit_report.upto)
    assert await lab.read_everything() == before
    assert await lab.store.cursor() == cursor


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_after_a_failed_commit_each_verb_of_the_batch_is_done_once(
    lab: Lab, tmp_path: Path, fault: Fault
) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {n}") for n in range(20)]
    faults = Faults()
    with open_batches(tmp_path / "store.db", seed=5, faults=faults) as group_commit:
        faults.commits = [fault]
        outcomes, commit_report = group_commit.run([_admit(fact) for fact in facts])
        poll = group_commit.poll()
    assert poll == Commit([], [], [], [], upto=poll.upto)
    assert [outcome.value for outcome in outcomes] == [
        AdmitResult(fact.message.id, new=True) for fact in facts
    ]
    assert _published(commit_report.events) == [fact.message.id for fact in facts]
    assert commit_report.woken == [session_id] * 20
    assert (await lab.store.control(session_id)).wake_seq == 20


async def test_a_full_disk_fails_only_the_verb_that_filled_it(lab: Lab, tmp_path: Path) -> None:
    path, faults = tmp_path / "store.db", Faults()
    session_id = await lab.session()
    small = [lab.input(session_id, f"small {n}") for n in range(3)]
    huge = lab.input(session_id, "x" * 2_000_000)
    faults.spare_pages = 60
    with open_batches(path, seed=5, faults=faults) as batches:
        outcomes, commit_report = batches.run([_admit(fact) for fact in (small[0], huge, small[1])])
        assert isinstance(outcomes[1].error, StoreError)
        assert "full" in str(outcomes[1].error)
        assert [outcomes[n].value.new for n in (0, 2)] == [True, True]
        assert _published(commit_report.events) == [small[0].message.id, small[1].message.id]
    with open_batches(path, seed=6) as group_commit:
        outcomes, _ = group_commit.run([_admit(huge), _admit(small[2])])
        assert [outcome.value.new for outcome in outcomes] == [True, True]
    assert len(await lab.store.messages(session_id)) == 4
    assert (await lab.store.control(session_id)).wake_seq == 4


async def test_a_silent_rollback_fails_only_the_verb_that_caused_it(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {n}") for n in range(4)]
    faults = Faults()
    with open_batches(tmp_path / "store.db", seed=5, faults=faults) as group_commit:

        async def falls(tx: Tx) -> None:
            await admit.admit_input(tx, facts[2])
            faults.rollback("database or disk is full")
            await tx.one("revision")

        outcomes, commit_report = group_commit.run(
            [_admit(facts[0]), _admit(facts[1]), falls, _admit(facts[3])]
        )
    assert [outcome.error is None for outcome in outcomes] == [True, True, False, True]
    assert isinstance(outcomes[2].error, StoreError)
    kept = [facts[n].message.id for n in (0, 1, 3)]
    assert _published(commit_report.events) == kept
    assert [e.info.id for e in await lab.store.messages(session_id)] == kept


@pytest.mark.parametrize(
    "start", ["BEGIN IMMEDIATE", "SAVEPOINT", "RELEASE", "UPDATE revision", "INSERT INTO mark"]
)
async def test_each_verb_of_a_batch_with_an_sql_error_fails_or_is_done(
    lab: Lab, tmp_path: Path, start: str
) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {n}") for n in range(3)]
    faults = Faults()
    with open_batches(tmp_path / "store.db", seed=5, faults=faults) as group_commit:
        faults.statements[start] = sqlite3.OperationalError("disk I/O error")
        outcomes, commit_report = group_commit.run([_admit(fact) for fact in facts[:2]])
        assert faults.statements == {}
        for outcome in outcomes:
            assert outcome.error is None or isinstance(outcome.error, StoreError)
        done = [outcome.value.message_id for outcome in outcomes if outcome.error is None]
        assert _published(commit_report.events) == done
        ((last,), _) = group_commit.run([_admit(facts[2])])
        assert last.value.new
    assert [e.info.id for e in await lab.store.messages(session_id)] == [*done, facts[2].message.id]


async def test_a_bug_in_a_batch_does_not_keep_the_write_lock(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()
    faults = Faults()
    with open_batches(tmp_path / "store.db", seed=5, faults=faults) as group_commit:
        faults.statements["PRAGMA data_version"] = ZeroDivisionError()  # type: ignore[assignment]
        with pytest.raises(ZeroDivisionError):
            group_commit.run([_admit(lab.input(session_id))])
        await lab.prompt(session_id)
        ((outcome,), _) = group_commit.run([_admit(lab.input(session_id))])
        assert outcome.error is None


async def test_results_and_events_leave_only_after_the_commit(tmp_path: Path) -> None:
    faults, clock = Faults(), FakeClock()
    path, ids = tmp_path / "store.db", Ids(clock, SeededRng(1))
    heard: list[Commit] = []
    async with open_sqlite(path, clock=clock, rng=SeededRng(2), ids=ids, connect=faults.connect) as database:
        lab = Lab(database, clock, ids)
        session_id = await lab.session()
        lab.store.listen(heard.append)
        loop = asyncio.get_running_loop()
        write = loop.create_task(lab.store.admit(lab.input(session_id)))
        seen: list[bool] = []
        faults.on_commit = lambda: seen.append(bool(heard) or write.done())
        faults.commits = [None]
        await write
        assert seen == [False]
        assert len(heard) == 1


async def test_a_listener_that_fails_does_not_strand_the_caller(tmp_path: Path) -> None:
    clock = FakeClock()
    ids = Ids(clock, SeededRng(1))
    async with open_sqlite(
        tmp_path / "store.db", clock=clock, rng=SeededRng(2), ids=ids, connect=Faults().connect
    ) as database:
        lab = Lab(database, clock, ids)
        session_id = await lab.session()
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

        def broken(commit: Commit) -> None:
            raise RuntimeError("not now")

        lab.store.listen(broken)
        await lab.prompt(session_id)
        assert complaints


async def test_a_caller_that_goes_away_does_not_undo_its_write(lab: Lab) -> None:
    session_id = await lab.session()
    fact = lab.input(session_id)
    loop = asyncio.get_running_loop()
    write = loop.create_task(lab.store.admit(fact))
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert await lab.store.admit(fact) == AdmitResult(fact.message.id, new=False)


async def test_verbs_that_were_submitted_before_a_close_are_committed(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "store.db"
    ids = Ids(clock, SeededRng(1))
    loop = asyncio.get_running_loop()
    async with open_sqlite(
        path, clock=clock, rng=SeededRng(2), ids=ids, connect=Faults().connect
    ) as database:
        lab = Lab(database, clock, ids)
        session_id = await lab.session()
        writes = [loop.create_task(lab.prompt(session_id)) for _ in range(200)]
        await asyncio.sleep(0)
    admitted = await asyncio.gather(*writes)
    async with open_sqlite(path, clock=clock, rng=SeededRng(3), connect=Faults().connect) as database:
        messages = await Lab(database, clock, ids).store.messages(session_id)
        assert [e.info.id for e in messages] == sorted(admitted)


async def test_a_read_that_failed_is_an_error_and_the_next_one_works(tmp_path: Path) -> None:
    faults, clock = Faults(), FakeClock()
    ids = Ids(clock, SeededRng(1))
    path = tmp_path / "store.db"
    async with open_sqlite(path, clock=clock, rng=SeededRng(2), ids=ids, connect=faults.connect) as database:
        lab = Lab(database, clock, ids)
        session_id = await lab.session()
        for start in ("SELECT", "BEGIN"):
            faults.statements[start] = sqlite3.OperationalError("disk I/O error")
            with pytest.raises(StoreError, match="disk I/O error"):
                await lab.store.session(session_id)
            assert (await lab.store.session(session_id)).id == session_id


async def test_a_closed_store_refuses_verbs(tmp_path: Path) -> None:
    clock = FakeClock()
    ids = Ids(clock, SeededRng(1))
    async with open_sqlite(
        tmp_path / "store.db", clock=clock, rng=SeededRng(2), connect=Faults().connect
    ) as database:
        lab = Lab(database, clock, ids)
        session_id = await lab.session()
    with pytest.raises(StoreError, match="closed"):
        await lab.prompt(session_id)
    with pytest.raises(StoreError, match="closed"):
        await lab.store.session(session_id)


async def test_a_verb_that_waits_fails_alone(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()

    async def sleepy(tx: Tx) -> None:
        await asyncio.Event().wait()

    fact = lab.input(session_id)
    with open_batches(tmp_path / "store.db", seed=5) as group_commit:
        (first, second), _ = group_commit.run([sleepy, _admit(fact)])
    assert isinstance(first.error, RuntimeError)
    assert second.value.new


async def test_a_verb_on_a_missing_session_fails_alone(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()
    with open_batches(tmp_path / "store.db", seed=5) as group_commit:
        outcomes, _ = group_commit.run(
            [_admit(lab.input(SessionId("ses_nobody"))), _admit(lab.input(session_id))]
        )
    assert isinstance(outcomes[0].error, NotFound)
    assert outcomes[1].value.new
