"""Task rows of another release, or broken ones: what is not known is kept, and nobody else is harmed."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Open, Settled
from asyncagents.domain.conversation.codec import SHAPE_VERSION
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import TaskCompleted
from asyncagents.domain.fact import ClearTasks
from asyncagents.domain.id import SessionId
from asyncagents.errors import StoreError
from asyncagents.store.tx import Tx
from tests.support.store.lab import Lab
from tests.support.store.task import Parent, open_notices, open_parent, rewrite_task, task_row, work_child

NEWER = SHAPE_VERSION + 1


def _with(raw: bytes, **more: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(raw) | more)


@pytest.mark.spec("X-06")
async def test_a_newer_task_ends_and_keeps_its_unknown_fields(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    task = (await lab.store.task(child)).task
    raw, _ = await task_row(lab, child)
    await rewrite_task(lab, task, _with(raw, mood="bright"), NEWER)
    await work_child(lab, child)
    raw, version = await task_row(lab, child)
    kept = msgspec.json.decode(raw)
    assert kept["mood"] == "bright"
    assert kept["status"] == "completed"
    assert kept["result"] == "Red."
    assert version == NEWER
    assert not (await lab.store.task(child)).task.live
    assert await lab.store.unconcluded_tasks() == ()
    assert await lab.store.count_live(boss.id) == 0


@pytest.mark.spec("T-03")
async def test_an_open_call_of_a_task_that_a_newer_release_wrote_is_settled(lab: Lab) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    child = await boss.launch(call, background=False)
    task = (await lab.store.task(child)).task
    raw, _ = await task_row(lab, child)
    await rewrite_task(lab, task, _with(raw, mood="bright"), NEWER)
    await lab.store.cancel(child)
    state = (await lab.store.call(call.id)).state
    assert isinstance(state, Settled)


async def _broken(lab: Lab, **more: Any) -> tuple[Parent, SessionId, SessionId]:
    """A parent with a good and a broken task, and a call to spare."""
    boss = await open_parent(lab, 3)
    good = await boss.launch(boss.calls[0])
    bad = await boss.launch(boss.calls[1], **more)
    task = (await lab.store.task(bad)).task
    await rewrite_task(lab, task, b'{"id": 7', SHAPE_VERSION)
    return boss, good, bad


async def test_a_broken_task_is_an_error_where_it_is_read_and_hides_no_other(lab: Lab) -> None:
    boss, good, bad = await _broken(lab)
    with pytest.raises(StoreError, match="unreadable task"):
        await lab.store.task(bad)
    for seen in (
        await lab.store.tasks_of(boss.id),
        await lab.store.tasks_of_tree(boss.id),
        await lab.store.live_tasks(),
        await lab.store.tasks(),
    ):
        assert [each.task.id for each in seen] == [good]


async def test_other_tasks_end_and_are_published_beside_a_broken_one(lab: Lab) -> None:
    boss, good, _ = await _broken(lab)
    cursor = await lab.store.cursor()
    await work_child(lab, good)
    assert [e.session_id for e in (await lab.store.feed(cursor)).events if isinstance(e, TaskCompleted)] == [
        good
    ]
    assert await boss.rest()
    assert await open_notices(lab, boss.id) == []


async def test_a_parent_of_a_broken_task_can_be_aborted_and_so_can_its_other_tasks(lab: Lab) -> None:
    boss, good, bad = await _broken(lab)
    ended = await lab.store.cancel(boss.id)
    assert {boss.id, good, bad} <= set(ended)
    assert (await lab.store.task(good)).task.status == "cancelled"
    assert (await lab.store.control(bad)).cancel_rev > 0


async def test_a_parent_of_a_broken_task_can_clear_and_be_deleted(lab: Lab) -> None:
    boss, good, bad = await _broken(lab)
    fact = ClearTasks(boss.id)
    await lab.store.finish_call(boss.lease, boss.calls[2].id, Completed("cleared"), (fact,))
    assert await lab.store.count_live(boss.id) == 0
    assert await lab.store.tasks() == ()
    boss, good, bad = await _broken(lab)
    assert set(await lab.store.delete_session(boss.id)) == {boss.id, good, bad}
    assert await lab.store.tasks() == ()


async def test_a_broken_task_does_not_block_the_expiry_of_deadlines(lab: Lab) -> None:
    await _broken(lab, due=lab.clock.now() + 1)
    lab.clock.advance(1)
    await lab.store.expire()
    assert await lab.store.next_due() is None


async def test_the_situation_of_a_parent_lists_its_readable_tasks(lab: Lab) -> None:
    boss, good, _ = await _broken(lab)
    situation = await lab.store.situation(boss.id)
    assert [task.id for task in situation.children] == [good]


@pytest.mark.spec("T-09")
async def test_a_broken_task_is_given_up_so_that_its_parent_can_end(
    lab: Lab,
) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    claim = await lab.claim(child)
    step = await lab.step(claim)
    call = lab.call(step, tool="task")
    await lab.end(claim, step, call)
    middle = Parent(lab, claim, step, [await lab.start(claim, call)])
    grandchild = await middle.launch(middle.calls[0])
    assert await middle.rest()
    await rewrite_task(lab, (await lab.store.task(grandchild)).task, b"[]", SHAPE_VERSION)
    await work_child(lab, grandchild)
    assert await lab.store.status(grandchild) == Idle()
    assert await lab.store.unconcluded_tasks() == (grandchild,)
    await lab.store.conclude_task(grandchild)
    assert await lab.store.unconcluded_tasks() == (child,)
    await lab.store.conclude_task(child)
    assert (await lab.store.task(child)).task.status == "completed"
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("T-15")
async def test_an_unreadable_notice_is_given_as_a_failed_task(lab: Lab) -> None:
    """Else its parent would fail at every step from here on."""
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await work_child(lab, child)

    async def spoil(tx: Tx) -> None:
        await tx.run("delete_task_notices", child)
        await tx.one("insert_notice", child, 0, boss.id, await tx.rev(), "due", True, b'{"id": 7')

    await lab.database.write(spoil)
    await lab.step(boss.lease)
    told = [part for entry in await lab.store.history(boss.id) for part in entry.parts]
    texts = [part.text for part in told if isinstance(part, TextPart)]
    assert [text.splitlines()[0] for text in texts if text.startswith("✗")] == [
        '✗ **Agent "a task" failed in 0s.**'
    ]
    assert child in texts[-1]
    assert await open_notices(lab, boss.id) == []


@pytest.mark.spec("D-04")
@pytest.mark.parametrize("ruled", [False, True])
async def test_a_task_moved_to_the_background_is_denied_questions(lab: Lab, ruled: bool) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    fact = boss.spawn(call, background=False)
    own = (Rule(permission="todowrite", pattern="*", action="deny"),) if ruled else ()
    fact = replace(fact, info=replace(fact.info, permission=own or None))
    await lab.store.open_call(boss.lease, call.id, Open(kind="task", since=0), (fact,))
    await lab.store.actions.move_to_background(fact.info.id)
    await lab.store.actions.move_to_background(fact.info.id)
    deny = Rule(permission="question", pattern="*", action="deny")
    assert (await lab.store.session(fact.info.id)).permission == (*own, deny)
