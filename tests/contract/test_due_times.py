"""What a process has left to do: sessions with work, and the first due row of each kind."""

from asyncagents.store.verb.read import DueTimes
from tests.support.store.lab import ALICE, POOL, Lab
from tests.support.store.step import fail_first_step

HOUR = 3_600_000


async def test_a_session_has_work_from_its_prompt_until_it_rests(lab: Lab) -> None:
    resting, working = await lab.session(), await lab.session()
    assert await lab.store.sessions_with_work(POOL, limit=10) == ()
    await lab.prompt(working)
    ready = await lab.store.sessions_with_work(POOL, limit=10)
    await lab.claim(working, ALICE)
    running = await lab.store.sessions_with_work(POOL, limit=10)
    assert ready == running == (working,)
    assert resting not in running
    assert await lab.store.sessions_with_work("another", limit=10) == ()


async def test_sessions_with_work_are_limited_and_the_oldest_come_first(lab: Lab) -> None:
    sessions = [await lab.session() for _ in range(3)]
    for each in sessions:
        await lab.prompt(each)
    assert await lab.store.sessions_with_work(POOL, limit=2) == tuple(sessions[:2])


async def test_a_store_at_rest_has_no_due_times(lab: Lab) -> None:
    await lab.session()
    assert await lab.store.due_times() == DueTimes(None, None, None, None)


async def test_the_next_try_of_a_request_is_a_due_time(lab: Lab) -> None:
    await fail_first_step(lab)
    times = await lab.store.due_times()
    assert times == DueTimes(call=None, task=None, backoff=lab.clock.now() + 60_000, delivery=None)


async def test_the_deadline_of_an_open_call_is_a_due_time(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    await lab.store.open_call(claim, call.id, lab.open_state(due=lab.clock.now() + HOUR))
    times = await lab.store.due_times()
    assert times == DueTimes(call=lab.clock.now() + HOUR, task=None, backoff=None, delivery=None)


async def test_the_census_counts_calls_that_wait_for_a_person(lab: Lab) -> None:
    session_id, claim, (first, second) = await lab.start_calls(None, None)
    for call in (first, second):
        await lab.start(claim, call)
    await lab.store.open_call(claim, first.id, lab.ask(session_id))
    await lab.store.open_call(claim, second.id, lab.open_state())
    assert (await lab.store.census.take(POOL)).asks == 1
