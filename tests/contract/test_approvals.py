"""What was answered with always is listed, and taken back one by one."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.agent.approval import time_in_id
from asyncagents.domain.call.call import Always
from asyncagents.domain.id import SessionId
from asyncagents.errors import NotFound
from tests.support.store.lab import PROJECT, Lab, ask_id


async def approve(lab: Lab, *texts: str) -> SessionId:
    """A session whose asks, each for one exact text, are answered with always."""
    session_id, claim, calls = await lab.start_calls(*(None for _ in texts))
    for call, text in zip(calls, texts, strict=True):
        asked = await lab.move(claim, call, lab.exact_ask(session_id, text))
        await lab.store.answer(ask_id(asked), Always())
        lab.clock.advance(1_000)
    return session_id


@pytest.mark.spec("Z-06")
async def test_approvals_are_listed_the_newest_first_with_their_directory(lab: Lab) -> None:
    session_id = await approve(lab, "ls $(a)", "ls $(b)")
    newest, oldest = listed = await lab.store.approval_store.list(PROJECT, limit=10)
    session = await lab.store.session(session_id)
    assert [(each.permission, each.pattern, each.exact) for each in listed] == [
        ("bash", "ls $(b)", True),
        ("bash", "ls $(a)", True),
    ]
    assert {(each.project_id, each.directory) for each in listed} == {(PROJECT, session.directory)}
    assert newest.time.created > oldest.time.created
    assert time_in_id(newest.id) == newest.time.created
    assert await lab.store.approval_store.list(None, limit=10) == listed
    assert await lab.store.approval_store.list(None, limit=1) == (newest,)
    assert await lab.store.approval_store.list("another", limit=10) == ()


@pytest.mark.spec("Z-06")
async def test_one_approval_is_withdrawn_and_the_others_stay(lab: Lab) -> None:
    await approve(lab, "ls $(a)", "ls $(b)")
    newest, oldest = await lab.store.approval_store.list(PROJECT, limit=10)
    await lab.store.approval_store.withdraw(newest.id)
    assert await lab.store.approval_store.list(PROJECT, limit=10) == (oldest,)
    assert [rule.pattern for rule in await lab.store.approvals(PROJECT)] == ["ls $(a)"]
    for gone in (newest.id, oldest.id[:-1], "", "apr_", "apr_zz", f"apr_{'0' * 40}", "ses_1"):
        with pytest.raises(NotFound):
            await lab.store.approval_store.withdraw(gone)
    assert await lab.store.approval_store.list(PROJECT, limit=10) == (oldest,)


@pytest.mark.spec("Z-06")
async def test_patterns_of_one_answer_are_withdrawn_one_by_one(lab: Lab) -> None:
    """They were approved in the same millisecond."""
    session_id, claim, (call,) = await lab.start_calls(None)
    opened = lab.ask(session_id)
    assert opened.ask is not None
    opened = replace(opened, ask=replace(opened.ask, always=("make *", "ls *")))
    await lab.store.answer(ask_id(await lab.move(claim, call, opened)), Always())
    listed = await lab.store.approval_store.list(PROJECT, limit=10)
    assert [(each.pattern, each.exact) for each in listed] == [("ls *", False), ("make *", False)]
    await lab.store.approval_store.withdraw(listed[0].id)
    assert await lab.store.approval_store.list(PROJECT, limit=10) == listed[1:]


@pytest.mark.spec("Z-06")
async def test_an_approval_outlives_the_sessions_of_its_project(lab: Lab) -> None:
    session_id = await approve(lab, "ls $(a)")
    (known,) = await lab.store.approval_store.list(PROJECT, limit=10)
    await lab.store.delete_session(session_id)
    (left,) = await lab.store.approval_store.list(None, limit=10)
    assert left == replace(known, directory=None)


@pytest.mark.spec("Z-06")
async def test_always_does_not_grant_an_ask_with_another_pattern(lab: Lab) -> None:
    session_id, claim, call, (other,) = await lab.open_ask(None)
    wider = lab.ask(session_id)
    assert wider.ask is not None
    wider = replace(wider, ask=replace(wider.ask, patterns=("make x",), always=("make x",)))
    other = await lab.move(claim, other, wider)
    await lab.store.answer(ask_id(call), Always())
    assert [each.call.id for each in await lab.store.asks()] == [other.id]
