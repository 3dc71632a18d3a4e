"""Trees of sessions as a whole: their roots, who of them is at work, and a first prompt that comes along."""

import pytest

from asyncagents.domain.conversation.part import FilePart
from asyncagents.domain.conversation.session import NewSession
from asyncagents.domain.event import SessionCreated
from asyncagents.errors import InvalidInput
from tests.support.store.lab import POOL, PROJECT, Lab
from tests.support.store.step import fail_first_step


async def test_roots_are_listed_newest_first_of_one_project_or_of_all(lab: Lab) -> None:
    old = await lab.session()
    child = await lab.session(parent=old)
    elsewhere = await lab.session(project="other")
    new = await lab.session()

    async def ids(project: str | None, limit: int = 100) -> list[str]:
        return [session.id for session in await lab.store.roots(project, limit=limit)]

    assert await ids(PROJECT) == [new, old]
    assert await ids(None) == [new, elsewhere, old]
    assert await ids(None, limit=1) == [new]
    assert child not in await ids(None)


async def test_sessions_are_found_by_a_prefix_of_their_id(lab: Lab) -> None:
    one, two = await lab.session(), await lab.session()
    assert await lab.store.session_ids_with_prefix(one) == (one,)
    assert set(await lab.store.session_ids_with_prefix("ses_")) == {one, two}
    assert len(await lab.store.session_ids_with_prefix("ses_", limit=1)) == 1
    assert await lab.store.session_ids_with_prefix("ses_~") == ()


async def test_a_tree_is_at_work_while_any_of_it_is_ready_running_or_in_backoff(lab: Lab) -> None:
    root = await lab.session()
    child = await lab.session(parent=root)
    assert await lab.store.working_sessions(root) == ()
    await lab.prompt(child)
    assert await lab.store.working_sessions(root) == (child,)
    claim, _ = await fail_first_step(lab)
    assert await lab.store.working_sessions(claim.session_id) == (claim.session_id,)


async def test_a_session_that_only_asks_is_not_at_work(lab: Lab) -> None:
    session_id, claim, _, _ = await lab.open_ask()
    assert await lab.store.working_sessions(session_id) == (session_id,)
    assert await lab.store.park(claim, (await lab.store.control(session_id)).wake_seq)
    assert await lab.store.working_sessions(session_id) == ()


async def test_a_session_begins_with_its_first_prompt(lab: Lab) -> None:
    info = lab.info()
    session, admitted = await lab.store.begin_session(
        NewSession(info=info, pool=POOL), lab.input(info.id, "Ship it")
    )
    assert session.id == info.id
    assert admitted.new is True
    assert [entry.text for entry in await lab.store.messages(info.id)] == ["Ship it"]
    assert (await lab.store.session(info.id)).title == "Ship it"
    assert lab.woken == [info.id]


async def test_repeated_keys_begin_no_second_session(lab: Lab) -> None:
    first, second = lab.info(), lab.info()
    begun, one = await lab.store.begin_session(
        NewSession(info=first, pool=POOL, key="k"), lab.input(first.id, "Ship it", key="p")
    )
    again, two = await lab.store.begin_session(
        NewSession(info=second, pool=POOL, key="k"), lab.input(second.id, "Ship it", key="p")
    )
    assert begun.id == first.id
    assert again.id == first.id
    assert two.new is False
    assert one.message_id == two.message_id
    assert len(await lab.store.roots()) == 1


async def test_another_prompt_under_the_key_of_a_session_is_added_to_it(lab: Lab) -> None:
    first, second = lab.info(), lab.info()
    await lab.store.begin_session(NewSession(info=first, pool=POOL, key="k"), lab.input(first.id, "one"))
    await lab.store.begin_session(NewSession(info=second, pool=POOL, key="k"), lab.input(second.id, "two"))
    entries = await lab.store.messages(first.id)
    assert [entry.text for entry in entries] == ["one", "two"]
    assert {part.session_id for entry in entries for part in entry.parts} == {first.id}
    assert len([event for event in lab.events if isinstance(event, SessionCreated)]) == 1


async def test_a_prompt_that_cannot_be_kept_leaves_no_session(lab: Lab) -> None:
    info = lab.info()
    fact = lab.input(info.id)
    (text,) = fact.parts
    twice = FilePart(
        id=text.id, session_id=info.id, message_id=fact.message.id, mime="text/plain", url="data:,x"
    )
    broken = type(fact)(message=fact.message, parts=(text, twice), key=fact.key)
    with pytest.raises(InvalidInput, match="occurs twice"):
        await lab.store.begin_session(NewSession(info=info, pool=POOL), broken)
    assert await lab.store.roots() == ()
    assert lab.events == []
