"""A child that cannot be read frees its place in the queue of its tree, and the tree can be deleted."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import SessionDeleted, SessionError
from asyncagents.domain.id import SessionId
from asyncagents.errors import Damaged, NotFound
from tests.support.store.lab import ALICE, BOB, POOL, Lab
from tests.support.store.row import rewrite_call, rewrite_session
from tests.support.store.task import open_middle, open_notices, open_parent

Damage: TypeAlias = Callable[[Lab, SessionId], Awaitable[None]]
WHY = "unreadable session"


async def _spoil(lab: Lab, session_id: SessionId) -> None:
    await rewrite_session(lab, session_id, b'{"id": 7', 1)


@pytest.mark.spec("D-10")
async def test_an_unreadable_child_in_the_queue_is_passed_over(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    bad, good = [await boss.launch(call, crowd=1) for call in boss.calls]
    await _spoil(lab, bad)
    with pytest.raises(Damaged):
        await lab.store.claim(bad, ALICE, dead=None)
    assert await lab.store.claim(good, ALICE, dead=None) is None
    before = len(lab.commits)
    assert await lab.store.set_aside(bad, ALICE, WHY)
    assert good in lab.commits[before].woken
    await lab.claim(good)
    assert [each.session_id for each in await lab.store.active_sessions(POOL)] == [boss.id, good]


@pytest.mark.spec("D-10")
async def test_an_unreadable_child_at_work_gives_its_place_to_the_next(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    bad, good = [await boss.launch(call, crowd=1) for call in boss.calls]
    await lab.claim(bad)
    await _spoil(lab, bad)
    assert not await lab.store.set_aside(bad, BOB, WHY)
    assert await lab.store.set_aside(bad, ALICE, WHY)
    await lab.claim(good)


@pytest.mark.spec("D-10", "T-15")
@pytest.mark.parametrize("background", [True, False])
async def test_the_task_of_an_unreadable_child_ends_with_an_error(lab: Lab, background: bool) -> None:
    boss = await open_parent(lab)
    bad = await boss.launch(boss.calls[0], crowd=1, background=background)
    await _spoil(lab, bad)
    assert await lab.store.set_aside(bad, ALICE, WHY)
    seen = await lab.store.task(bad)
    assert seen.task.status == "error"
    assert (seen.task.error and seen.task.error.message) == f"The session of this task cannot be read: {WHY}"
    state = "due" if background else "consumed"
    assert await open_notices(lab, boss.id) == ([(bad, 0, state)] if background else [])
    assert await lab.store.statuses() == {boss.id: await lab.store.status(boss.id)}
    assert [e.session_id for e in lab.events if isinstance(e, SessionError)] == [bad]


@pytest.mark.spec("D-10")
async def test_an_unreadable_root_is_not_set_aside(lab: Lab) -> None:
    """It holds no place, and goes on when it is mended."""
    root = await lab.session()
    await lab.prompt(root)
    await _spoil(lab, root)
    assert not await lab.store.set_aside(root, ALICE, WHY)
    assert [each.session_id for each in await lab.store.active_sessions(POOL)] == [root]


@pytest.mark.spec("D-10")
async def test_a_repaired_child_works_again_when_it_is_woken(lab: Lab) -> None:
    boss = await open_parent(lab)
    bad = await boss.launch(boss.calls[0], crowd=1)
    call = boss.calls[0]
    child = await open_middle(lab, bad)
    (own,) = child.calls
    await rewrite_call(lab, own, b"{", 1)
    assert await lab.store.set_aside(bad, ALICE, "unreadable call")
    assert await lab.store.status(bad) == Idle()
    await rewrite_call(lab, own, await _body(lab, call.id), 1)
    await lab.prompt(bad, "go on")
    await lab.claim(bad)


async def _body(lab: Lab, call_id: str) -> bytes:
    row = await lab.database.read(lambda tx: tx.one("call", call_id))
    assert row is not None
    return bytes(row[0])


@pytest.mark.spec("D-06")
@pytest.mark.parametrize("which", ["root", "child", "grandchild", "all"])
async def test_a_tree_with_unreadable_sessions_can_be_deleted(lab: Lab, which: str) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], crowd=1)
    below = await open_middle(lab, child)
    grandchild = await below.launch(below.calls[0], crowd=1)
    tree = {"root": boss.id, "child": child, "grandchild": grandchild}
    cursor = await lab.store.cursor()
    for name, session_id in tree.items():
        if which in (name, "all"):
            await _spoil(lab, session_id)
    assert set(await lab.store.delete_session(boss.id)) == set(tree.values())
    for session_id in tree.values():
        with pytest.raises(NotFound):
            await lab.store.session(session_id)
    gone = {e.session_id: e.info for e in lab.events if isinstance(e, SessionDeleted)}
    assert {each: (info.id, info.parent_id) for each, info in gone.items()} == {
        boss.id: (boss.id, None),
        child: (child, boss.id),
        grandchild: (grandchild, child),
    }
    feed = await lab.store.feed(cursor)
    assert {e.session_id for e in feed.events if isinstance(e, SessionDeleted)} == set(tree.values())


@pytest.mark.spec("D-06", "D-10")
async def test_deleting_an_unreadable_child_at_work_wakes_the_next_in_the_queue(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    bad, good = [await boss.launch(call, crowd=1) for call in boss.calls]
    await lab.claim(bad)
    await _spoil(lab, bad)
    before = len(lab.commits)
    assert await lab.store.delete_session(bad) == (bad,)
    assert good in lab.commits[before].woken
    await lab.claim(good)
