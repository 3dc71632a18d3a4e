"""Quick verbs are worked on in one place and committed in another: nothing is lost, or done twice."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.domain.id import Ids
from asyncagents.errors import Conflict, StoreError
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.tx import Tx, Verb
from asyncagents.store.verb import admit
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.store.fault import Fault, Faults, open_batches
from tests.support.store.lab import Lab


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def lab(tmp_path: Path, faults: Faults) -> AsyncIterator[Lab]:
    clock, rng = FakeClock(), SeededRng(1)
    ids = Ids(clock, rng)
    async with open_sqlite(
        tmp_path / "store.db", clock=clock, rng=rng, ids=ids, connect=faults.connect
    ) as database:
        yield Lab(database, clock, ids)


def _admit(fact: Admit) -> Verb[Any]:
    return lambda tx: admit.admit_input(tx, fact)


async def _thread(tx: Tx) -> int:
    return threading.get_ident()


async def test_inline_verbs_run_in_the_thread_of_the_caller_and_others_do_not(lab: Lab) -> None:
    here = threading.get_ident()
    assert await lab.database.write(_thread, inline=True) == here
    assert await lab.database.read(_thread, inline=True) == here
    assert here not in {await lab.database.write(_thread), await lab.database.read(_thread)}


async def test_inline_and_other_verbs_are_done_in_the_order_of_their_calls(lab: Lab) -> None:
    done: list[int] = []

    def noted(number: int) -> Verb[Any]:
        async def verb(tx: Tx) -> None:
            done.append(number)

        return verb

    writes = [lab.database.write(noted(number), inline=number % 3 != 0) for number in range(200)]
    await asyncio.gather(*writes)
    assert done == list(range(200))


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_inline_verbs_are_done_once_after_a_failed_commit(
    lab: Lab, faults: Faults, fault: Fault
) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {number}") for number in range(10)]
    faults.commits = [fault]
    done = await asyncio.gather(*(lab.database.write(_admit(fact), inline=True) for fact in facts))
    assert done == [AdmitResult(fact.message.id, new=True) for fact in facts]
    assert (await lab.store.control(session_id)).wake_seq == 10


async def test_a_failed_inline_verb_does_not_affect_the_others(lab: Lab) -> None:
    session_id = await lab.session()
    good, bad, late = (lab.input(session_id, text) for text in ("good", "bad", "late"))

    async def fails(tx: Tx) -> None:
        await admit.admit_input(tx, bad)
        raise Conflict("no")

    verbs = (_admit(good), fails, _admit(late))
    done = await asyncio.gather(
        *(lab.database.write(verb, inline=True) for verb in verbs), return_exceptions=True
    )
    assert isinstance(done[1], Conflict)
    assert [entry.info.id for entry in await lab.store.messages(session_id)] == [
        good.message.id,
        late.message.id,
    ]


async def test_a_write_waits_for_the_lock_of_another_process_in_a_thread(lab: Lab, tmp_path: Path) -> None:
    """The loop goes on meanwhile: it is the loop that lets the other one end."""
    session_id = await lab.session()
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(lab.database.write(_admit(lab.input(session_id)), inline=True))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    assert (await writing).new


async def test_an_inline_verb_also_reports_a_commit_of_another_process(lab: Lab, tmp_path: Path) -> None:
    session_id = await lab.session()
    heard: list[str] = []
    lab.database.listen(lambda commit: heard.extend(commit.woken))
    with open_batches(tmp_path / "store.db", seed=9) as group_commit:
        group_commit.run([_admit(lab.input(session_id, "from elsewhere"))])
    await lab.database.write(_admit(lab.input(session_id, "from here")), inline=True)
    assert heard == [session_id, session_id]


async def test_a_failed_inline_read_is_an_error_and_the_next_one_works(lab: Lab, faults: Faults) -> None:
    session_id = await lab.session()
    await lab.store.session(session_id)
    faults.statements["BEGIN"] = sqlite3.OperationalError("disk I/O error")
    with pytest.raises(StoreError, match="disk I/O error"):
        await lab.store.session(session_id)
    assert (await lab.store.session(session_id)).id == session_id


async def test_an_inline_read_that_finds_a_lock_succeeds(lab: Lab, faults: Faults) -> None:
    session_id = await lab.session()
    await lab.store.session(session_id)
    faults.statements["BEGIN"] = sqlite3.OperationalError("database is locked")
    assert (await lab.store.session(session_id)).id == session_id
