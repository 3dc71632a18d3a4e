"""Conversations as clients handle them: lists and pages of them, what is changed, taken out and copied."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Settled
from asyncagents.domain.conversation.copy import UNDER_WAY, copy_conversation
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import CompactionPart, Part, TextPart, ToolCompleted, ToolPart
from asyncagents.domain.conversation.session import (
    NewSession,
    Revert,
    Rule,
    Session,
    SessionChanges,
    SessionModel,
    SessionQuery,
)
from asyncagents.domain.event import MessageRemoved, PartRemoved, PartUpdated, SessionUpdated
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.errors import Conflict, InvalidInput, NotFound, SessionBusy
from asyncagents.store.row import require_session, save_session
from asyncagents.store.tx import Tx
from tests.support.store.lab import POOL, Lab
from tests.support.store.step import answer_first_prompt as before_summary
from tests.support.store.step import build_summary_end as summarised
from tests.support.store.step import start_summary as start_summary
from tests.support.store.task import open_parent


async def spoken(lab: Lab, *prompts: str) -> SessionId:
    """A session that rests, with each of these prompts answered."""
    session_id = await lab.session()
    for prompt in prompts or ("hello",):
        await lab.prompt(session_id, prompt)
        claim = await lab.claim(session_id)
        await lab.end(claim, await lab.step(claim), text=f"On {prompt}.")
        assert await lab.store.rest(claim, 10**6, "done")
    return session_id


async def ids(lab: Lab, session_id: SessionId) -> list[MessageId]:
    return [entry.info.id for entry in await lab.store.messages(session_id)]


async def forked(lab: Lab, session_id: SessionId, before: MessageId | None = None) -> Session:
    source = await lab.store.conversation.copy_source(session_id, before=before)
    info = lab.info()
    copy = copy_conversation(source.messages, to=info.id, ids=lab.ids, now=lab.clock.now())
    return await lab.store.conversation.copy_session(NewSession(info=info, pool=POOL), copy)


# Lists


@pytest.mark.spec("X-01")
async def test_sessions_are_listed_by_when_they_were_last_used(lab: Lab) -> None:
    made = []
    for title in ("Bees", "Über Äpfel", "bee lines"):
        info = replace(lab.info(), title=title)
        made.append((await lab.store.create_session(NewSession(info=info, pool=POOL))).id)
        lab.clock.advance(10)
    await lab.prompt(made[0], "again")

    async def listed(**query: Any) -> list[SessionId]:
        return [each.id for each in await lab.store.conversation.list_sessions(SessionQuery(**query))]

    assert await listed() == [made[0], made[2], made[1]]
    assert await listed(limit=1) == [made[0]]
    assert await listed(search="BEE") == [made[0], made[2]]
    assert await listed(search="äPF") == [made[1]]
    assert await listed(search="%") == []
    assert await listed(start=lab.clock.now()) == [made[0]]
    assert await listed(before=lab.clock.now()) == [made[2], made[1]]


@pytest.mark.spec("X-01")
async def test_sessions_are_listed_by_directory_or_by_all_below_it(lab: Lab) -> None:
    made = {}
    for directory in ("/a", "/a/b", "/ab", "/a/b/c", "/a-b"):
        info = replace(lab.info(), directory=directory)
        made[directory] = (await lab.store.create_session(NewSession(info=info, pool=POOL))).id
    child = await lab.session(parent=made["/a"])

    async def listed(**query: Any) -> set[SessionId]:
        return {each.id for each in await lab.store.conversation.list_sessions(SessionQuery(**query))}

    assert await listed(directory="/a") == {made["/a"]}
    assert await listed(below="/a") == {made["/a"], made["/a/b"], made["/a/b/c"]}
    assert await listed(below="/a/b") == {made["/a/b"], made["/a/b/c"]}
    assert await listed(below="") == {*made.values(), child}
    assert child not in await listed(roots=True)


@pytest.mark.spec("X-01")
async def test_a_list_leaves_out_archived_sessions_on_request(lab: Lab) -> None:
    kept, away = await lab.session(), await lab.session()
    await lab.store.conversation.update_session(away, SessionChanges(archived=5))

    there = await lab.store.conversation.list_sessions(SessionQuery(archived=False))
    every = await lab.store.conversation.list_sessions(SessionQuery())
    back = await lab.store.conversation.update_session(away, SessionChanges(archived=None))

    assert [each.id for each in there] == [kept]
    assert {each.id for each in every} == {kept, away}
    assert back.time.archived is None
    assert len(await lab.store.conversation.list_sessions(SessionQuery(archived=False))) == 2


# Pages


@pytest.mark.spec("X-01")
async def test_pages_are_the_messages_as_they_are_stored(lab: Lab) -> None:
    session_id = await spoken(lab, "one", "two", "three")
    whole = await lab.store.conversation.page(session_id)
    messages = await lab.store.messages(session_id)
    pages: list[Any] = []
    before = None
    while True:
        page = await lab.store.conversation.page(session_id, before=before, limit=4)
        pages = msgspec.json.decode(page.body) + pages
        if page.first is None:
            break
        before = page.first

    assert msgspec.json.decode(whole.body, type=list[dict[str, Any]]) == pages
    assert msgspec.json.decode(msgspec.json.encode(messages)) == pages
    assert whole.first is None
    assert len(pages) == 6


@pytest.mark.spec("X-01")
async def test_a_page_ends_where_there_is_nothing_older(lab: Lab) -> None:
    session_id = await spoken(lab, "one")
    first, second = await ids(lab, session_id)

    assert (await lab.store.conversation.page(session_id, limit=2)).first is None
    newest = await lab.store.conversation.page(session_id, limit=1)
    assert newest.first == second
    assert newest.created == (await lab.store.message(second)).info.time.created
    assert (await lab.store.conversation.page(session_id, before=first, limit=5)).body == b"[]"
    with pytest.raises(NotFound):
        await lab.store.conversation.page(SessionId("ses_none"))


@pytest.mark.spec("X-01")
async def test_a_message_is_found_in_its_own_session_only(lab: Lab) -> None:
    session_id, other = await spoken(lab), await lab.session()
    first, _ = await ids(lab, session_id)

    raw = await lab.store.conversation.message(session_id, first)

    assert raw == msgspec.json.encode(await lab.store.message(first))
    with pytest.raises(NotFound, match="message"):
        await lab.store.conversation.message(other, first)


# Changes


@pytest.mark.spec("X-01")
async def test_a_session_update_is_published_and_keeps_other_fields(lab: Lab) -> None:
    session_id = await lab.session()
    deny = Rule(permission="bash", pattern="*", action="deny")
    ask = Rule(permission="bash", pattern="*", action="ask")
    before = await lab.store.session(session_id)
    lab.clock.advance(5)
    titled = await lab.store.conversation.update_session(session_id, SessionChanges(title="Bees"))
    await lab.store.conversation.update_session(session_id, SessionChanges(permission=(deny,)))
    after = await lab.store.conversation.update_session(
        session_id, SessionChanges(permission=(ask,), metadata={"a": 1})
    )

    assert titled.title == "Bees"
    assert titled.time == before.time
    once_more = await lab.store.conversation.update_session(session_id, SessionChanges(permission=(deny,)))
    assert after.permission == (deny, ask)
    assert once_more.permission == (ask, deny)
    assert after.title == "Bees"
    assert after.metadata == {"a": 1}
    assert after.time.updated > before.time.updated
    assert await lab.store.session(session_id) == once_more
    assert lab.events[-1] == SessionUpdated(session_id=session_id, info=once_more)


@pytest.mark.spec("X-01")
async def test_an_empty_session_update_publishes_nothing(lab: Lab) -> None:
    session_id = await lab.session()
    seen, cursor = len(lab.events), await lab.store.cursor()
    await lab.store.conversation.update_session(session_id, SessionChanges())
    assert len(lab.events) == seen
    assert await lab.store.cursor() == cursor


# Messages and parts that are taken out or changed


@pytest.mark.spec("X-01")
async def test_a_message_is_removed_with_its_parts_and_the_removal_is_published(lab: Lab) -> None:
    session_id = await spoken(lab, "one", "two")
    _, answer, *_ = await ids(lab, session_id)
    cursor = await lab.store.cursor()

    await lab.store.conversation.remove_message(session_id, answer)

    gone = MessageRemoved(session_id=session_id, message_id=answer)
    assert answer not in await ids(lab, session_id)
    assert [entry.text for entry in await lab.store.history(session_id)] == ["one", "two", "On two."]
    assert lab.events[-1] == gone
    assert gone in (await lab.store.feed(cursor)).events
    with pytest.raises(NotFound, match="message"):
        await lab.store.conversation.remove_message(session_id, answer)


@pytest.mark.spec("X-01")
async def test_the_next_step_does_not_read_a_removed_message(lab: Lab) -> None:
    session_id = await spoken(lab, "one", "two")
    first, *_ = await ids(lab, session_id)
    await lab.store.conversation.remove_message(session_id, first)
    await lab.prompt(session_id, "three")
    claim = await lab.claim(session_id)
    step = await lab.step(claim)

    assert [entry.text for entry in step.started.tail] == ["On one.", "two", "On two.", "three"]


@pytest.mark.spec("X-01")
async def test_a_part_can_be_removed_or_changed(lab: Lab) -> None:
    session_id = await spoken(lab)
    asked, answer = await lab.store.messages(session_id)
    (said,) = (part for part in asked.parts if isinstance(part, TextPart))
    cursor = await lab.store.cursor()

    changed = await lab.store.conversation.update_part(replace(said, text="other"))
    for part in answer.parts:
        assert part.id is not None
        await lab.store.conversation.remove_part(session_id, answer.info.id, part.id)

    entries = await lab.store.messages(session_id)
    assert [entry.parts for entry in entries] == [(changed,), ()]
    events = (await lab.store.feed(cursor)).events
    assert [event.part_id for event in events if isinstance(event, PartRemoved)] == sorted(
        part.id for part in answer.parts if part.id is not None
    )
    assert any(isinstance(event, PartUpdated) and event.part == changed for event in events)


@pytest.mark.spec("X-01")
async def test_messages_of_a_running_session_cannot_be_changed(lab: Lab) -> None:
    session_id, message_id, _ = await lab.claim_prompted()
    entry = await lab.store.message(message_id)
    (said,) = (part for part in entry.parts if isinstance(part, TextPart))

    with pytest.raises(SessionBusy):
        await lab.store.conversation.remove_message(session_id, message_id)
    with pytest.raises(SessionBusy):
        await lab.store.conversation.remove_part(session_id, message_id, said.id)
    with pytest.raises(SessionBusy):
        await lab.store.conversation.update_part(replace(said, text="other"))
    assert await lab.store.message(message_id) == entry


@pytest.mark.spec("X-01")
async def test_messages_of_a_parked_session_cannot_be_removed(lab: Lab) -> None:
    session_id, message_id, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.move(claim, call, lab.open_state())
    assert await lab.store.park(claim, 10**6)

    with pytest.raises(SessionBusy):
        await lab.store.conversation.remove_message(session_id, message_id)


@pytest.mark.spec("X-01")
async def test_a_part_is_changed_only_to_a_part_of_its_kind(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, Completed("found"))
    await lab.end(claim, await lab.step(claim))
    assert await lab.store.rest(claim, 10**6, "done")
    (part,) = [p for p in (await lab.store.message(step.id)).parts if isinstance(p, ToolPart)]
    assert isinstance(part.state, ToolCompleted)

    shorter = replace(part, state=replace(part.state, output="[cut]"))
    assert await lab.store.conversation.update_part(shorter) == shorter
    wrong: list[Part] = [
        replace(part, tool="other"),
        replace(part, call_id="other"),
        TextPart(id=part.id, session_id=session_id, message_id=step.id, text="hm"),
    ]
    for each in wrong:
        with pytest.raises(InvalidInput):
            await lab.store.conversation.update_part(each)
    with pytest.raises(NotFound, match="part"):
        await lab.store.conversation.update_part(replace(part, id=PartId("prt_none")))
    with pytest.raises(NotFound, match="message"):
        await lab.store.conversation.update_part(replace(part, message_id=MessageId("msg_none")))


@pytest.mark.spec("X-01")
async def test_removing_a_message_cancels_the_tasks_that_it_launched(lab: Lab) -> None:
    launcher = await open_parent(lab)
    (call,) = launcher.calls
    child = await launcher.launch(call)
    assert await launcher.rest()

    await lab.store.conversation.remove_message(launcher.id, launcher.step.id)

    task = (await lab.store.task(child)).task
    assert task.status == "cancelled"
    assert task.ended_by == "user"
    assert (await lab.store.control(launcher.id)).state == "idle"


@pytest.mark.spec("X-01")
async def test_the_model_reads_all_messages_again_after_a_summary_is_removed(lab: Lab) -> None:
    claim, _ = await before_summary(lab)
    session_id = claim.session_id
    step = await _summed(lab, claim)
    asked = step.started.message.parent_id
    assert (await lab.store.control(session_id)).summary

    await lab.store.conversation.remove_message(session_id, asked)

    control = await lab.store.control(session_id)
    assert control.summary == 0
    assert control.tail == 0
    history = await lab.store.model_history(session_id, whole=True)
    assert history.head == ()
    assert [entry.text for entry in history.entries][:2] == ["hello", "hi"]


async def _summed(lab: Lab, lease: Any) -> Any:
    """The second prompt is answered by a summary, and the session rests."""
    wish = CompactionPart(
        id=lab.ids.part(), session_id=lease.session_id, message_id=MessageId(""), auto=False
    )
    fact = lab.input(lease.session_id, "sum up", source="compaction")
    await lab.store.admit(replace(fact, parts=(replace(wish, message_id=fact.message.id),)))
    step = await start_summary(lab, lease)
    await lab.store.finish_summary(lease, summarised(lab, step))
    last = await lab.step(lease)
    await lab.end(lease, last)
    assert await lab.store.rest(lease, 10**6, "done")
    return step


# Copies


@pytest.mark.spec("X-01")
async def test_a_fork_copies_the_messages_before_a_message_under_new_ids(lab: Lab) -> None:
    session_id = await spoken(lab, "one", "two")
    source = await lab.store.messages(session_id)
    copy = await forked(lab, session_id, source[2].info.id)

    entries = await lab.store.messages(copy.id)
    assert [entry.text for entry in entries] == ["one", "On one."]
    asked, answer = entries
    assert isinstance(answer.info, AssistantMessage)
    assert answer.info.parent_id == asked.info.id
    assert {each.id for entry in entries for each in (entry.info, *entry.parts)}.isdisjoint(
        each.id for entry in source for each in (entry.info, *entry.parts)
    )
    assert {each.session_id for entry in entries for each in (entry.info, *entry.parts)} == {copy.id}
    assert copy.agent == "build"
    assert copy.model == SessionModel(id="parrot", provider_id="scripted")
    assert [entry.text for entry in await lab.store.history(copy.id)] == ["one", "On one."]
    assert await lab.store.messages(session_id) == source


@pytest.mark.spec("X-01")
async def test_a_fork_takes_further_prompts(lab: Lab) -> None:
    copy = await forked(lab, await spoken(lab, "one"))
    await lab.prompt(copy.id, "more")
    claim = await lab.claim(copy.id)
    step = await lab.step(claim, since=0)
    assert [entry.text for entry in step.started.tail] == ["one", "On one.", "more"]
    await lab.end(claim, step)
    assert await lab.store.rest(claim, 10**6, "done")


@pytest.mark.spec("X-01")
async def test_an_empty_session_has_an_empty_fork_and_an_unknown_point_is_refused(lab: Lab) -> None:
    empty = await lab.session()
    copy = await forked(lab, empty)
    assert await lab.store.messages(copy.id) == ()
    with pytest.raises(NotFound, match="message"):
        await lab.store.conversation.copy_source(empty, before=MessageId("msg_none"))
    other = await spoken(lab)
    with pytest.raises(NotFound, match="message"):
        await lab.store.conversation.copy_source(empty, before=(await ids(lab, other))[0])


@pytest.mark.spec("X-01")
async def test_a_running_call_is_closed_in_the_fork_and_goes_on_in_the_original(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.start(claim, call)
    await lab.prompt(session_id, "unread")

    copy = await forked(lab, session_id)
    await lab.store.finish_call(claim, call.id, Completed("found"))

    asked, made, unread = await lab.store.messages(copy.id)
    (part,) = [part for part in made.parts if isinstance(part, ToolPart)]
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output == UNDER_WAY
    assert [entry.text for entry in await lab.store.history(copy.id)] == [asked.text, "hi", unread.text]
    assert await lab.store.calls(copy.id) == ()
    assert isinstance((await lab.store.call(call.id)).state, Settled)
    assert (await lab.store.control(copy.id)).state == "idle"


@pytest.mark.spec("X-01")
async def test_a_message_being_streamed_is_closed_in_the_fork(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.write(claim, lab.text(step, "half a"))
    copy = await forked(lab, session_id)

    _, half = await lab.store.messages(copy.id)
    assert isinstance(half.info, AssistantMessage)
    assert half.text == "half a"
    assert half.info.finish == "stop"
    assert half.info.time.completed is not None
    assert all(part.time and part.time.end for part in half.parts if isinstance(part, TextPart))


@pytest.mark.spec("X-01")
async def test_a_fork_keeps_the_summary_of_its_source(lab: Lab) -> None:
    claim, _ = await before_summary(lab)
    await _summed(lab, claim)
    session_id = claim.session_id
    before = await lab.store.model_history(session_id, whole=True)

    copy = await forked(lab, session_id)
    after = await lab.store.model_history(copy.id, whole=True)
    first = (await ids(lab, session_id))[1]
    earlier = await forked(lab, session_id, first)

    def texts(entries: tuple[MessageWithParts, ...]) -> list[str]:
        return [entry.text for entry in entries]

    assert texts(after.head) == texts(before.head)
    assert texts(after.entries) == texts(before.entries)
    assert (await lab.store.model_history(earlier.id, whole=True)).head == ()


@pytest.mark.spec("X-01")
async def test_a_repeated_key_returns_the_existing_fork(lab: Lab) -> None:
    session_id = await spoken(lab)
    source = await lab.store.conversation.copy_source(session_id)
    made = []
    for _ in range(2):
        info = lab.info()
        new = NewSession(info=info, pool=POOL, key="fork:k")
        what = copy_conversation(source.messages, to=info.id, ids=lab.ids, now=lab.clock.now())
        made.append(await lab.store.conversation.copy_session(new, what))
    assert made[0] == made[1]


# Ids that clients choose


@pytest.mark.spec("X-01")
async def test_a_message_id_chosen_by_a_client_must_be_unused_and_the_newest(lab: Lab) -> None:
    early = lab.ids.message()
    session_id, other = await spoken(lab), await lab.session()

    def named(message_id: MessageId, key: str, at: SessionId) -> Any:
        fact = lab.input(at, key=key)
        parts = tuple(replace(part, message_id=message_id) for part in fact.parts)
        return replace(fact, message=replace(fact.message, id=message_id), parts=parts, named=True)

    with pytest.raises(InvalidInput, match="older"):
        await lab.store.admit(named(early, "k1", session_id))
    late = lab.ids.message()
    assert (await lab.store.admit(named(late, "k2", session_id))).new
    assert not (await lab.store.admit(named(late, "k2", session_id))).new
    for at in (session_id, other):
        with pytest.raises(Conflict, match="taken"):
            await lab.store.admit(named(late, "k3", at))
    assert (await lab.store.admit(named(early, "k4", other))).new


async def use_tools(lab: Lab, session_id: SessionId, tools: dict[str, bool] | None) -> Session:
    """The session, after a prompt with this map."""
    fact = lab.input(session_id)
    await lab.store.admit(replace(fact, message=replace(fact.message, tools=tools)))
    return await lab.store.session(session_id)


@pytest.mark.spec("Z-04")
async def test_the_tools_map_of_a_prompt_is_stored_apart_from_the_session_rules(lab: Lab) -> None:
    session_id = await lab.session()
    rule = Rule(permission="webfetch", pattern="*", action="deny")
    await lab.store.conversation.update_session(session_id, SessionChanges(permission=(rule,)))
    tools = {"write": True, "bash": False}
    first = await use_tools(lab, session_id, tools)
    same = await use_tools(lab, session_id, None)
    empty = await use_tools(lab, session_id, {})
    later = await use_tools(lab, session_id, {"read": True})

    assert [each.permission for each in (first, same, empty, later)] == [(rule,)] * 4
    assert [each.tools for each in (first, same, empty, later)] == [tools, tools, tools, {"read": True}]
    assert list(first.tools or ()) == ["write", "bash"]  # in the order written: the last that matches wins
    told = [event.info.tools for event in lab.events if isinstance(event, SessionUpdated)]
    assert told[-1] == {"read": True}


@pytest.mark.spec("Z-04", "D-04")
async def test_the_tools_map_of_a_prompt_does_not_change_the_rules_of_a_child(lab: Lab) -> None:
    denied = tuple(Rule(permission=each, pattern="*", action="deny") for each in ("todowrite", "task"))
    boss = await open_parent(lab)
    fact = boss.spawn(boss.calls[0])
    fact = replace(fact, info=replace(fact.info, permission=denied))
    await lab.store.finish_call(boss.lease, boss.calls[0].id, Completed("launched"), (fact,))
    child = await use_tools(lab, fact.info.id, {"todowrite": True, "task": True})

    assert child.permission == denied
    assert child.tools == {"todowrite": True, "task": True}


@pytest.mark.spec("X-01")
async def test_a_system_text_of_a_prompt_applies_to_its_turn_only(lab: Lab) -> None:
    session_id = await lab.session()
    fact = lab.input(session_id)
    await lab.store.admit(replace(fact, message=replace(fact.message, system="Be brief.")))
    claim = await lab.claim(session_id)
    first = await lab.step(claim)
    call = lab.call(first)
    await lab.end(claim, first, call)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, Completed("x"))
    second = await lab.step(claim)
    await lab.end(claim, second)
    assert await lab.store.rest(claim, 10**6, "done")
    await lab.prompt(session_id, "again")
    third = await lab.step(await lab.claim(session_id))

    assert [step.started.system for step in (first, second, third)] == ["Be brief.", "Be brief.", ""]


@pytest.mark.spec("X-01")
async def test_the_key_of_a_removed_prompt_stays_known(lab: Lab) -> None:
    session_id = await spoken(lab)
    fact = lab.input(session_id, "more", key="k", wakes=False)
    admitted = await lab.store.admit(fact)
    await lab.store.conversation.remove_message(session_id, admitted.message_id)
    again = await lab.store.admit(lab.input(session_id, "more", key="k"))
    assert again.message_id == admitted.message_id
    assert again.new is False
    assert (await lab.store.control(session_id)).state == "idle"


@pytest.mark.spec("X-01")
async def test_no_message_is_removed_while_messages_are_marked_undone(lab: Lab) -> None:
    session_id = await spoken(lab, "one", "two")
    first, _, third, _ = await ids(lab, session_id)
    row = replace(await lab.store.session(session_id), revert=Revert(message_id=third))

    async def mark(tx: Tx) -> None:
        known = await require_session(tx, session_id)
        await save_session(tx, known, known.control, row)

    await lab.database.write(mark)
    with pytest.raises(Conflict, match="undone"):
        await lab.store.conversation.remove_message(session_id, first)
    copy = await forked(lab, session_id)
    assert [entry.text for entry in await lab.store.messages(copy.id)] == ["one", "On one."]
