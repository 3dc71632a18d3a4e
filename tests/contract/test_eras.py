"""Ids of several eras: what is sorted, paged, bounded and cut by them goes by time, in any form."""

from itertools import pairwise
from random import Random

import msgspec
import pytest

from asyncagents.domain.conversation.copy import copy_conversation
from asyncagents.domain.conversation.session import NewSession, Revert
from asyncagents.domain.event import MessageRemoved
from asyncagents.domain.id import MessageId, SessionId, sort_id
from asyncagents.errors import InvalidInput
from tests.support.store.era import (
    BEGAN,
    IN_2029,
    IN_2031,
    IN_2040,
    WRAP,
    bare_id,
    build_named_input,
    write_talk,
)
from tests.support.store.lab import ALICE, POOL, PROJECT, Lab
from tests.support.store.row import plan

HOUR = 3_600_000
ACROSS = [WRAP - HOUR, WRAP - 1_000, WRAP + 1_000, WRAP + HOUR, IN_2029]
AGES = [ACROSS, [IN_2031, IN_2031 + HOUR], [IN_2040, IN_2040 + HOUR], [IN_2029, IN_2031, IN_2040]]
LATER = 3_229_000_000_000
"""In April 2072, a month before z is over."""


async def order(lab: Lab, session_id: SessionId) -> list[MessageId]:
    return [entry.info.id for entry in await lab.store.messages(session_id)]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("times", AGES)
async def test_prompts_with_ids_of_a_client_keep_their_ids_and_their_order(
    lab: Lab, times: list[int]
) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *times)
    assert await order(lab, session_id) == said
    history = await lab.store.model_history(session_id, whole=True)
    assert [entry.info.id for entry in history.entries] == said
    for message_id in said:
        assert (await lab.store.message(message_id)).info.id == message_id


@pytest.mark.spec("Z-08")
async def test_our_ids_and_those_of_a_client_do_not_sort_as_plain_texts(lab: Lab) -> None:
    """Else the tests here would show nothing."""
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *ACROSS)
    assert sorted(said) != said
    assert [each[4] == "g" for each in said[5::2]] == [True, True, True]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("times", AGES)
async def test_pages_go_from_the_newest_to_the_oldest_across_eras(lab: Lab, times: list[int]) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *times)
    found: list[str] = []
    before: str | None = None
    while True:
        page = await lab.store.conversation.page(session_id, before=before, limit=3)
        entries = msgspec.json.decode(page.body)
        assert all(each["parts"] for each in entries)
        found = [*(each["info"]["id"] for each in entries), *found]
        if page.first is None:
            break
        before = page.first
    assert found == said
    for number, message_id in enumerate(said):
        older = await lab.store.messages(session_id, before=message_id, limit=100)
        assert [each.info.id for each in older] == said[:number]


@pytest.mark.spec("Z-08")
async def test_a_page_cursor_works_after_its_message_was_removed(lab: Lab) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, IN_2031, IN_2031 + HOUR, IN_2031 + 2 * HOUR)
    page = await lab.store.conversation.page(session_id, before=None, limit=2)
    await lab.store.conversation.remove_message(session_id, said[4])
    rest = await lab.store.conversation.page(session_id, before=page.first, limit=10)
    assert [each["info"]["id"] for each in msgspec.json.decode(rest.body)] == said[:4]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("now", [WRAP + 2_000, IN_2029, IN_2031, IN_2040])
async def test_an_id_without_an_era_must_be_newer_than_the_last_message(lab: Lab, now: int) -> None:
    session_id = await lab.session()
    await write_talk(lab, session_id, now)
    with pytest.raises(InvalidInput, match="older than the last message"):
        await lab.store.admit(build_named_input(lab, session_id, bare_id(now - 1_000)))
    assert (await lab.store.admit(build_named_input(lab, session_id, bare_id(now + 1_000)))).new
    again = await lab.store.admit(build_named_input(lab, session_id, bare_id(now + 1_000)))
    assert again.message_id == bare_id(now + 1_000)
    assert again.new is False


@pytest.mark.spec("Z-08")
async def test_the_snapshot_of_a_claim_has_the_highest_sort_id_of_the_inbox(lab: Lab) -> None:
    """Another process runs it: of what waits, it is told what sorts highest."""
    lab.clock.set(IN_2031)
    session_id = await lab.session()
    await lab.prompt(session_id, "ours")
    ahead = bare_id(IN_2031 + 5_000)
    await lab.store.admit(build_named_input(lab, session_id, ahead))
    snapshot = await lab.store.claim(session_id, ALICE, dead=None)
    assert snapshot is not None
    assert snapshot.newest == sort_id(ahead, IN_2031)


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("times", AGES)
async def test_an_undo_removes_later_messages_only_across_eras(lab: Lab, times: list[int]) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *times)
    for cut in range(len(said) - 2, -1, -2):
        look = await lab.store.reverts.plan_undo(session_id, said[cut + 1])
        assert look.point.message_id == said[cut], "the prompt that this answers"
        await lab.store.reverts.mark_undone(session_id, Revert(message_id=said[cut]))
        source = await lab.store.conversation.copy_source(session_id, before=None)
        assert [each.entry.info.id for each in source.messages] == said[:cut]
        lab.commits.clear()
        new = await write_talk(lab, session_id, lab.clock.now() + 1_000)
        gone = [event.message_id for event in lab.events if isinstance(event, MessageRemoved)]
        assert gone == said[cut:]
        assert await order(lab, session_id) == [*said[:cut], *new]
        said = [*said[:cut], *new]


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize("times", AGES)
async def test_a_fork_copies_earlier_messages_in_order_across_eras(lab: Lab, times: list[int]) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *times)
    for cut, before in ((len(said), None), *enumerate(said)):
        source = await lab.store.conversation.copy_source(session_id, before=before)
        assert [each.entry.info.id for each in source.messages] == said[:cut]
        assert all(each.entry.parts for each in source.messages)
    info = lab.info()
    whole = await lab.store.conversation.copy_source(session_id, before=None)
    copy = copy_conversation(whole.messages, to=info.id, ids=lab.ids, now=lab.clock.now())
    fork = await lab.store.conversation.copy_session(NewSession(info=info, pool=POOL), copy)
    copied = await lab.store.messages(fork.id)
    assert [each.info.time.created for each in copied] == sorted(each.info.time.created for each in copied)
    assert sorted(each.info.id for each in copied) == [each.info.id for each in copied]


@pytest.mark.spec("Z-08")
async def test_exports_go_through_all_messages_in_their_order(lab: Lab) -> None:
    session_id = await lab.session()
    said = await write_talk(lab, session_id, *ACROSS)
    found: list[MessageId] = []
    after = ""
    while more := await lab.store.transfer.messages(session_id, after=after, limit=3):
        found += [each.id for each in more]
        after = more[-1].sort_id
    assert found == said


@pytest.mark.spec("Z-08")
async def test_sessions_of_all_times_are_listed_newest_first(lab: Lab) -> None:
    random = Random(8)
    times = sorted(random.randrange(BEGAN, LATER) for _ in range(60))
    times = sorted({*times, *ACROSS, *(each << 36 for each in range(27, 47)), (28 << 36) - 1})
    made: list[SessionId] = []
    parent = await lab.session(project="other")
    children: list[SessionId] = []
    for now in times:
        lab.clock.set(now)
        made.append(await lab.session())
        children.append(await lab.session(parent=parent, project="other"))
        await lab.prompt(made[-1])
    newest_first = made[::-1]
    found: list[SessionId] = []
    while more := await lab.store.roots(PROJECT, after=found[-1] if found else "", limit=7):
        found += [each.id for each in more]
    assert found == newest_first
    assert [each.id for each in await lab.store.sessions(PROJECT, limit=1000)] == newest_first
    assert [each.id for each in await lab.store.children(parent)] == children
    active = [each.session_id for each in await lab.store.active_sessions(POOL, limit=1000)]
    assert active == made, "the oldest first"
    for each in made:
        assert await lab.store.session_ids_with_prefix(each[:-1]) == (each,)


@pytest.mark.spec("Z-08")
async def test_messages_of_all_times_are_read_in_the_order_of_their_ids(lab: Lab) -> None:
    random = Random(9)
    times = sorted(
        {random.randrange(BEGAN, LATER) for _ in range(60)} | {each << 36 for each in range(27, 47)}
    )
    session_id = await lab.session()
    said: list[MessageId] = []
    for now in times:
        lab.clock.set(now)
        said.append(await lab.prompt(session_id, wakes=False))
    assert all(a < b for a, b in pairwise(said))
    assert await order(lab, session_id) == said


@pytest.mark.spec("Z-08")
@pytest.mark.parametrize(
    ("statement", "params"),
    [
        ("messages", ("ses_x", "~", 10)),
        ("page_parts", ("ses_x", "", "~")),
        ("messages_between", ("ses_x", "", "~")),
        ("last_sort_id", ("ses_x",)),
        ("last_user_id", ("ses_x", "~")),
        ("copied_messages", ("ses_x", "~")),
        ("exported_messages", ("ses_x", "", 10)),
    ],
)
async def test_queries_in_sort_order_use_an_index(
    lab: Lab, statement: str, params: tuple[object, ...]
) -> None:
    told = await lab.database.read(lambda tx: plan(tx, statement, params))
    assert any("message_wire" in line for line in told), told
    assert not any(line.startswith("SCAN") for line in told), told
