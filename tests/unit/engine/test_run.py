"""A run can be interrupted at any moment, any number of times, and only what is in its scope ends."""

import asyncio

import pytest
from msgspec.structs import replace

from asyncagents.domain.id import CallId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.run import Run, is_being_cancelled
from tests.support.domain.state import CONTROL, SESSION

RUNNING = Snapshot(control=replace(CONTROL, in_turn=True, turn_rev=5))


async def forever() -> None:
    await asyncio.Event().wait()


async def test_an_interrupt_ends_the_code_in_the_scope() -> None:
    run = Run(SESSION)
    asyncio.get_running_loop().call_soon(run.interrupt)
    with pytest.raises(TimeoutError):
        async with run.interruptible():
            await forever()
    assert run.interrupted is True
    assert run.is_woken is True
    assert is_being_cancelled() is False


async def test_more_interrupts_change_nothing_at_any_moment() -> None:
    run = Run(SESSION)
    asyncio.get_running_loop().call_soon(run.interrupt)
    ended = False
    try:
        async with run.interruptible():
            try:
                await forever()
            finally:
                run.interrupt()  # while the scope is on its way out
                ended = True
    except TimeoutError:
        run.interrupt()
    assert ended


async def test_an_interrupt_after_the_scope_finds_nothing_to_end() -> None:
    run = Run(SESSION)
    async with run.interruptible():
        pass
    run.interrupt()
    await asyncio.sleep(0)
    assert run.interrupted


async def test_an_interrupt_before_the_scope_ends_it_at_once() -> None:
    run = Run(SESSION)
    run.interrupt()
    with pytest.raises(TimeoutError):
        async with run.interruptible():
            await forever()


async def test_a_failure_in_the_scope_is_raised_unchanged() -> None:
    run = Run(SESSION)

    async def fail() -> None:
        async with run.interruptible():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not run.interrupted


async def test_the_snapshot_decides_whether_an_interrupt_is_cleared() -> None:
    run = Run(SESSION)
    run.interrupt()
    run.clear_interrupt(replace(RUNNING, control=replace(RUNNING.control, cancel_rev=6)), run.interrupts)
    assert run.interrupted
    run.clear_interrupt(RUNNING, run.interrupts - 1)
    assert run.interrupted, "the snapshot is older than the interrupt"
    run.clear_interrupt(RUNNING, run.interrupts)
    assert not run.interrupted


async def test_an_interrupt_ends_the_tools() -> None:
    run = Run(SESSION)
    async with asyncio.TaskGroup() as group:
        task = run.tasks[CallId("tool_1")] = group.create_task(forever())
        await asyncio.sleep(0)
        run.interrupt()
    assert task.cancelled()


async def test_a_wake_is_kept_until_the_next_wait_and_a_failure_ends_the_wait() -> None:
    run = Run(SESSION)
    run.wake()
    await run.wait()
    assert not run.is_woken
    run.fail(ZeroDivisionError("first"))
    run.fail(ValueError("second"))
    with pytest.raises(ZeroDivisionError, match="first"):
        await run.wait()


async def test_a_cancelled_asyncio_task_is_seen_as_being_cancelled() -> None:
    found: list[bool] = []

    async def look() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            found.append(is_being_cancelled())
            raise

    async with asyncio.TaskGroup() as group:
        task = group.create_task(look())
        await asyncio.sleep(0)
        task.cancel()
    assert found == [True]
