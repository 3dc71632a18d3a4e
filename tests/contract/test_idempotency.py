"""The same key with the same content is a repeat; with other content it is a conflict."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.session import NewSession
from asyncagents.domain.fact import NewShell
from asyncagents.domain.id import SessionId
from asyncagents.errors import KeyReused, NotFound
from tests.support.store.lab import POOL, Lab


async def test_input_under_the_same_key_is_the_same_only_with_the_same_content(lab: Lab) -> None:
    session_id = await lab.session()
    first = await lab.store.admit(replace(lab.input(session_id, "one", key="k"), hash="h1"))
    before = await lab.read_everything()
    again = await lab.store.admit(replace(lab.input(session_id, "one", key="k"), hash="h1"))
    assert again.message_id == first.message_id
    assert again.new is False
    with pytest.raises(KeyReused, match="'k' was used for another request"):
        await lab.store.admit(replace(lab.input(session_id, "two", key="k"), hash="h2"))
    assert await lab.read_everything() == before

    other = await lab.session()
    assert (await lab.store.admit(replace(lab.input(other, "two", key="k"), hash="h2"))).new


async def test_input_stored_without_a_hash_is_not_compared(lab: Lab) -> None:
    session_id = await lab.session()
    first = await lab.store.admit(lab.input(session_id, "one", key="k"))
    again = await lab.store.admit(replace(lab.input(session_id, "two", key="k"), hash="h2"))
    assert again.message_id == first.message_id
    assert again.new is False


async def test_a_shell_command_under_the_same_key_is_compared_too(lab: Lab) -> None:
    session_id = await lab.session()

    def new(hash: str) -> NewShell:
        return NewShell(
            replace(lab.input(session_id, "-", key="k"), hash=hash, source="system"), "ls", lab.ids.message()
        )

    first = await lab.store.actions.admit_shell(new("h1"))
    assert (await lab.store.actions.admit_shell(new("h1"))).message_id == first.message_id
    with pytest.raises(KeyReused):
        await lab.store.actions.admit_shell(new("h2"))


async def test_a_session_under_the_same_key_is_the_same_only_with_the_same_content(lab: Lab) -> None:
    async def create(hash: str | None, key: str = "k") -> SessionId:
        new = NewSession(info=lab.info(), pool=POOL, key=key, hash=hash)
        return (await lab.store.create_session(new)).id

    first = await create("h1")
    assert await create("h1") == await create(None) == first
    with pytest.raises(KeyReused):
        await create("h2")

    old = await create(None, "old")
    assert await create("h2", "old") == old, "there is nothing to compare with"

    await lab.store.delete_session(first)
    assert await create("h2") != first


@pytest.mark.spec("C-10")
async def test_an_abort_under_the_same_key_ends_nothing_that_came_after_the_first(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    await lab.store.cancel(session_id, key="k")
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "aborted")
    await lab.prompt(session_id, "next")
    claim = await lab.claim(session_id)
    before = await lab.read_everything()

    assert await lab.store.cancel(session_id, key="k") == (session_id,)
    assert await lab.read_everything() == before
    assert not (await lab.store.snapshot(claim)).is_cancelled

    await lab.store.cancel(session_id, key="k2")
    assert (await lab.store.snapshot(claim)).is_cancelled


async def test_an_abort_of_another_scope_under_the_same_key_is_a_conflict(lab: Lab) -> None:
    session_id, _, _ = await lab.claim_prompted()
    await lab.store.cancel(session_id, scope="turn", key="k")
    with pytest.raises(KeyReused):
        await lab.store.cancel(session_id, key="k")
    with pytest.raises(NotFound):
        await lab.store.cancel(SessionId("ses_none"), key="k")


async def test_keys_are_deleted_with_their_session(lab: Lab) -> None:
    session_id, _, _ = await lab.claim_prompted()
    await lab.store.cancel(session_id, key="k")
    await lab.store.delete_session(session_id)
    left = await lab.database.read(lambda tx: tx.one("idempotency", session_id, "abort", "k"))
    assert left is None
