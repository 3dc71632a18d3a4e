"""Two processes on one file: each hears of the other's commits once, and neither loses anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from asyncagents.domain.event import MessageUpdated, SessionDeleted
from asyncagents.domain.id import Ids, OwnerId, SessionId
from asyncagents.errors import InvalidInput
from asyncagents.store.sqlite.database import SqliteDatabase, open_sqlite
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.store.fault import Faults
from tests.support.store.lab import ALICE, BOB, POOL, PROJECT, Lab, completed_result


class Process(Lab):
    def __init__(self, database: SqliteDatabase, clock: FakeClock, ids: Ids) -> None:
        super().__init__(database, clock, ids)
        self._sqlite = database
        self._heard = asyncio.Event()
        self.store.listen(lambda _: self._heard.set())

    async def look(self) -> None:
        """Poll, and wait until what was found is reported."""
        self._heard.clear()
        self._sqlite.poll()
        await self._heard.wait()


@asynccontextmanager
async def _process(path: Path, seed: int) -> AsyncIterator[Process]:
    clock, rng = FakeClock(), SeededRng(seed)
    ids = Ids(clock, rng)
    async with open_sqlite(path, clock=clock, rng=rng, ids=ids, connect=Faults().connect) as database:
        yield Process(database, clock, ids)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Process]:
    async with _process(tmp_path / "store.db", 1) as process:
        yield process


@pytest.fixture
async def there(tmp_path: Path, here: Process) -> AsyncIterator[Process]:
    async with _process(tmp_path / "store.db", 2) as process:
        yield process


def _said(process: Process) -> list[str]:
    return [event.info.id for event in process.events if isinstance(event, MessageUpdated)]


async def test_a_poll_reports_commits_of_the_other_process_once(here: Process, there: Process) -> None:
    session_id = await here.session()
    await there.look()
    assert there.woken == [session_id]
    there.commits.clear()
    prompt = await here.prompt(session_id)
    await there.look()
    assert _said(there) == [prompt]
    assert there.woken == [session_id]
    there.commits.clear()
    await there.look()
    await there.look()
    assert there.events == []
    assert there.woken == []


async def test_own_commits_are_not_reported_twice(here: Process, there: Process) -> None:
    session_id = await here.session()
    here.commits.clear()
    prompt = await here.prompt(session_id)
    await here.look()
    assert _said(here) == [prompt]
    await there.session()
    await here.look()
    assert _said(here) == [prompt]


async def test_a_write_also_reports_earlier_commits_of_the_other_process(
    here: Process, there: Process
) -> None:
    session_id = await here.session()
    await there.look()
    there.commits.clear()
    theirs = await here.prompt(session_id)
    mine = await there.prompt(session_id)
    assert _said(there) == [theirs, mine]
    await there.look()
    assert _said(there) == [theirs, mine]


async def test_a_failed_verb_leaves_commits_of_the_other_for_the_next_poll(
    here: Process, there: Process
) -> None:
    session_id = await here.session()
    await there.look()
    there.commits.clear()
    theirs = await here.prompt(session_id)
    with pytest.raises(Exception, match="ses_nobody"):
        await there.prompt(SessionId("ses_nobody"))
    await there.look()
    assert _said(there) == [theirs]


async def test_a_verb_that_fails_halfway_takes_no_revision(here: Process, there: Process) -> None:
    session_id = await here.session()
    await there.look()
    there.commits.clear()
    fact = there.input(session_id)
    for _ in range(3):
        with pytest.raises(InvalidInput):
            await there.store.admit(replace(fact, parts=fact.parts * 2))
    prompt = await here.prompt(session_id)
    await there.look()
    assert _said(there) == [prompt]


async def test_cancels_and_deletions_are_reported_to_the_other_process(here: Process, there: Process) -> None:
    session_id, _, claim = await here.claim_prompted()
    await here.step(claim)
    await there.store.cancel(session_id)
    await here.look()
    assert session_id in here.commits[-1].interrupted
    await there.store.delete_session(session_id)
    await here.look()
    assert [e.session_id for e in here.commits[-1].events if isinstance(e, SessionDeleted)] == [session_id]
    assert here.commits[-1].interrupted == [session_id]


@pytest.mark.spec("X-11", "S-12")
async def test_writers_side_by_side_lose_nothing(here: Process, there: Process) -> None:
    sessions = [await here.session() for _ in range(4)]

    async def write(process: Process, n: int) -> str:
        return await process.prompt(sessions[n % 4], f"no. {n}")

    both = [write(process, n) for n in range(100) for process in (here, there)]
    admitted = await asyncio.gather(*both)
    await asyncio.gather(here.look(), there.look())
    assert len(set(admitted)) == 200
    for process in (here, there):
        kept = [e.info.id for s in sessions for e in await process.store.messages(s)]
        assert sorted(kept) == sorted(admitted)
        assert sorted(_said(process)) == sorted(admitted)
        assert [(await process.store.control(s)).wake_seq for s in sessions] == [50] * 4


async def test_only_one_of_two_processes_claims_a_session(here: Process, there: Process) -> None:
    for _ in range(10):
        session_id = await here.session()
        await here.prompt(session_id)
        claims = await asyncio.gather(
            here.store.claim(session_id, ALICE, dead=None), there.store.claim(session_id, BOB, dead=None)
        )
        assert len([claim for claim in claims if claim is not None]) == 1


async def test_only_one_of_two_results_settles_a_call(here: Process, there: Process) -> None:
    _, _, calls = await here.start_calls(*(here.open_state() for _ in range(10)))
    for call in calls:
        answers = await asyncio.gather(
            here.store.settle(call.id, completed_result("here")),
            there.store.settle(call.id, completed_result("there")),
            return_exceptions=True,
        )
        assert len([answer for answer in answers if isinstance(answer, Exception)]) == 1


async def test_a_new_process_reports_no_commits_from_before_its_start(tmp_path: Path, here: Process) -> None:
    session_id = await here.session()
    await here.prompt(session_id)
    async with _process(tmp_path / "store.db", 3) as late:
        await late.look()
        assert late.events == []
        assert late.woken == []
        assert [info.id for info in await late.store.sessions(PROJECT)] == [session_id]
        assert [active.session_id for active in await late.store.active_sessions(POOL)] == [session_id]
        assert (await late.store.claim(session_id, OwnerId("carol"), dead=None)) is not None


async def test_a_deadline_set_by_the_other_process_is_reported(here: Process, there: Process) -> None:
    due = here.clock.now() + 10
    await here.start_calls(here.open_state(due=due))
    await there.look()
    assert [each for commit in there.commits for each in commit.due] == [due]
