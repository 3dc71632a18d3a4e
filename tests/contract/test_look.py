"""Launches that come together look once at whoever launches, and stand behind each other in order."""

import asyncio

import pytest

from asyncagents.delegation.parent_reader import SharedRead
from asyncagents.errors import NotFound
from tests.support.store.lab import Lab


async def test_concurrent_calls_share_one_read_and_are_numbered_in_order(lab: Lab) -> None:
    session_id = await lab.session()
    look = SharedRead(lab.store)
    seen = await asyncio.gather(*(look.read(session_id) for _ in range(5)))
    assert [before for _, before in seen] == [0, 1, 2, 3, 4]
    assert len({id(launcher) for launcher, _ in seen}) == 1, "one read for all"
    later, before = await look.read(session_id)
    assert later.info.id == session_id
    assert before == 0


async def test_waiting_calls_still_read_when_the_first_one_is_cancelled(lab: Lab) -> None:
    session_id = await lab.session()
    look = SharedRead(lab.store)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(look.read(session_id)) for _ in range(3)]
        await asyncio.sleep(0)  # all of them have begun
        tasks[0].cancel()
    assert tasks[0].cancelled()
    assert [task.result()[1] for task in tasks[1:]] == [0, 1]


async def test_concurrent_reads_of_a_deleted_session_all_fail(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.store.delete_session(session_id)
    look = SharedRead(lab.store)
    heard = await asyncio.gather(*(look.read(session_id) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in heard] == [NotFound] * 3
    with pytest.raises(NotFound):
        await look.read(session_id)
