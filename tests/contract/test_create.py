"""Sessions come and go."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.session import NewSession, SessionChanges
from asyncagents.domain.event import SessionCreated, SessionDeleted
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import ClaimLost, NotFound
from tests.support.store.lab import POOL, PROJECT, Lab


@pytest.mark.spec("S-01")
async def test_a_session_is_kept_as_it_was_given(lab: Lab) -> None:
    info = lab.info(metadata={"colour": "red"})
    assert await lab.store.create_session(NewSession(info=info, pool=POOL)) == info
    assert await lab.store.session(info.id) == info
    assert lab.events == [SessionCreated(session_id=info.id, info=info)]


@pytest.mark.spec("S-14")
async def test_the_same_key_gives_the_first_session_again(lab: Lab) -> None:
    first, second = lab.info(), lab.info()
    await lab.store.create_session(NewSession(info=first, pool=POOL, key="k"))
    before = await lab.store.cursor()
    assert await lab.store.create_session(NewSession(info=second, pool=POOL, key="k")) == first
    assert await lab.store.sessions(PROJECT) == (first,)
    assert await lab.store.cursor() == before
    assert len(lab.events) == 1


@pytest.mark.spec("S-14")
async def test_the_same_id_gives_the_first_session_again(lab: Lab) -> None:
    info = lab.info()
    await lab.store.create_session(NewSession(info=info, pool=POOL))
    again = replace(info, title="another title")
    assert await lab.store.create_session(NewSession(info=again, pool=POOL, key="late key")) == info
    assert await lab.store.session(info.id) == info


@pytest.mark.spec("S-01")
async def test_a_child_has_the_root_and_pool_of_its_parent_and_is_one_deeper(lab: Lab) -> None:
    root = await lab.session()
    child = await lab.session(parent=root)
    grandchild = lab.info(parent=child)
    await lab.store.create_session(NewSession(info=grandchild, pool="elsewhere"))
    control = await lab.store.control(grandchild.id)
    assert control.parent_id == child
    assert control.root_id == root
    assert control.depth == 2
    assert control.pool == POOL
    assert (await lab.store.control(root)).root_id == root
    assert [info.id for info in await lab.store.children(root)] == [child]
    assert (await lab.store.session(grandchild.id)).parent_id == child


async def test_a_child_of_an_unknown_parent_is_refused(lab: Lab) -> None:
    info = lab.info(parent=SessionId("ses_nobody"))
    with pytest.raises(NotFound, match="ses_nobody"):
        await lab.store.create_session(NewSession(info=info, pool=POOL))
    assert await lab.store.sessions(PROJECT) == ()


@pytest.mark.spec("S-01")
async def test_sessions_of_a_project_are_listed_newest_first(lab: Lab) -> None:
    made = []
    for _ in range(5):
        made.append(await lab.session())
        lab.clock.advance(7)
    await lab.session(project="other")
    newest_first = list(reversed(made))
    assert [info.id for info in await lab.store.sessions(PROJECT)] == newest_first
    page = await lab.store.sessions(PROJECT, limit=2)
    assert [info.id for info in page] == newest_first[:2]
    rest = await lab.store.sessions(PROJECT, after=page[-1].id)
    assert [info.id for info in rest] == newest_first[2:]


async def test_a_title_is_changed_and_published(lab: Lab) -> None:
    session_id = await lab.session()
    lab.clock.advance(5)
    info = await lab.store.conversation.update_session(session_id, SessionChanges(title="Dragons"))
    assert (info.title, info.time.updated) == ("Dragons", lab.clock.now() - 5)  # nobody used it
    assert await lab.store.session(session_id) == info
    with pytest.raises(NotFound):
        await lab.store.conversation.update_session(SessionId("ses_nobody"), SessionChanges(title="x"))


async def test_deleting_a_session_removes_its_subtree_and_publishes_it(lab: Lab) -> None:
    root, other = await lab.session(), await lab.session()
    child = await lab.session(parent=root)
    grandchild = await lab.session(parent=child)
    kept = await lab.prompt(other)
    message_id = await lab.prompt(grandchild)
    cursor = await lab.store.cursor()
    lab.commits.clear()

    assert set(await lab.store.delete_session(root)) == {root, child, grandchild}

    assert [info.id for info in await lab.store.sessions(PROJECT)] == [other]
    with pytest.raises(NotFound):
        await lab.store.message(message_id)
    assert (await lab.store.message(kept)).info.id == kept
    gone = {event.session_id for event in lab.events if isinstance(event, SessionDeleted)}
    assert gone == {root, child, grandchild}
    stopped = {session_id for commit in lab.commits for session_id in commit.interrupted}
    assert stopped == {root, child, grandchild}
    feed = await lab.store.feed(cursor)
    told = {event.session_id for event in feed.events if isinstance(event, SessionDeleted)}
    assert told == gone
    with pytest.raises(NotFound):
        await lab.store.delete_session(root)


async def test_a_run_on_a_deleted_session_has_lost_its_claim(lab: Lab) -> None:
    root = await lab.session()
    child = await lab.session(parent=root)
    await lab.prompt(child)
    claim = await lab.claim(child)
    await lab.store.delete_session(root)
    with pytest.raises(ClaimLost):
        await lab.store.start_step(claim, lab.new_step())
    with pytest.raises(ClaimLost):
        await lab.store.snapshot(Claim(child, claim.fence))


async def test_a_key_is_free_again_once_its_session_is_deleted(lab: Lab) -> None:
    first, second = lab.info(), lab.info()
    await lab.store.create_session(NewSession(info=first, pool=POOL, key="k"))
    await lab.store.delete_session(first.id)
    assert await lab.store.create_session(NewSession(info=second, pool=POOL, key="k")) == second
