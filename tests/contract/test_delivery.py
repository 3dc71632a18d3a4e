"""What is owed to others: with the settling of a call, posted by one at a time, ended once."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import AsyncState, Completed, Failed, Open, Running
from asyncagents.domain.call.webhook import (
    SESSION_DELETED,
    Delivery,
    DeliveryDead,
    DeliveryDone,
    DeliveryRetry,
)
from asyncagents.domain.fact import KeepSecret
from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict, NotFound
from asyncagents.store.due_delivery import DueDelivery
from asyncagents.store.sqlite.database import SqliteDatabase
from asyncagents.store.tx import Row, Tx
from tests.support.store.lab import Lab, completed_result
from tests.support.store.row import plan

URL = "https://hooks.test/told?token=1"
MINUTE = 60_000


def telling(lab: Lab, url: str = URL) -> Open:
    return replace(lab.open_state(), later=AsyncState(webhook_url=url))


async def owed(lab: Lab, *urls: str) -> tuple[SessionId, list[Delivery]]:
    """Calls that were settled one after the other, and what is owed for each."""
    session_id, _, calls = await lab.start_calls(*(telling(lab, url) for url in urls or (URL,)))
    for n, call in enumerate(calls):
        lab.clock.advance(1)
        await lab.store.settle(call.id, completed_result(f"no. {n}"))
    listed = await lab.store.deliveries.list("owed", after="", limit=1_000)
    mine = [each for each in listed if each.session_id == session_id]
    return session_id, mine


async def take(lab: Lab, root_id: SessionId | None = None, *, most: int = 8) -> tuple[DueDelivery, ...]:
    wanted = await lab.store.deliveries.due(root_id, {}, most=most, each=100)
    return await lab.store.deliveries.claim(wanted, MINUTE)


async def take_one(lab: Lab) -> DueDelivery:
    (delivery,) = await take(lab)
    return delivery


async def states(lab: Lab) -> list[str]:
    return [each.state for each in await lab.store.deliveries.list(None, after="", limit=1_000)]


@pytest.mark.spec("P-12")
async def test_a_settled_call_owes_the_delivery_of_its_result_at_once(lab: Lab) -> None:
    session_id, _, (call, silent) = await lab.start_calls(telling(lab), lab.open_state())
    lab.commits.clear()
    await lab.store.settle(call.id, Completed("v2 is live", "Deployed", {"version": 2}))
    await lab.store.settle(silent.id, completed_result())

    (known_delivery,) = await lab.store.deliveries.list(None, after="", limit=10)
    assert known_delivery.pending_id == call.id
    assert known_delivery.session_id == session_id
    assert known_delivery.url == URL
    assert known_delivery.state == "owed"
    assert known_delivery.attempts == 0
    assert known_delivery.error is None
    assert known_delivery.time.created == known_delivery.time.next == lab.clock.now()
    assert [each for commit in lab.commits for each in commit.posts] == [lab.clock.now()]
    delivery = await take_one(lab)
    assert delivery.id == known_delivery.id
    assert delivery.url == URL
    assert delivery.host == "hooks.test"
    assert delivery.attempt == 1
    assert msgspec.json.decode(delivery.body) == {
        "pendingID": call.id,
        "result": {"title": "Deployed", "output": "v2 is live", "metadata": {"version": 2}},
    }


@pytest.mark.spec("P-12")
async def test_failed_and_expired_calls_owe_a_delivery_too(lab: Lab) -> None:
    expiring = replace(telling(lab), due=lab.clock.now() + 5)
    _, _, (failed, _) = await lab.start_calls(telling(lab), expiring)
    await lab.store.settle(failed.id, Failed("no route"))
    lab.clock.advance(5)
    assert await lab.store.expire() == 1
    told = [msgspec.json.decode(delivery.body) for delivery in await take(lab)]
    assert [each["error"] for each in told] == ["no route", "Tool execution timed out"]


async def test_a_repeated_result_owes_no_second_delivery(lab: Lab) -> None:
    _, (known_delivery,) = await owed(lab)
    await lab.store.settle(known_delivery.pending_id, completed_result("no. 0"))
    assert await states(lab) == ["owed"]


@pytest.mark.spec("P-12")
async def test_a_result_is_owed_even_if_it_came_before_the_webhook_address(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.move(claim, call, Running(claim.fence, later=AsyncState()))
    await lab.store.settle(call.id, completed_result("early"))
    assert await states(lab) == []
    secret = KeepSecret(session_id, call.id, "out", "whsec_b3du")
    await lab.store.open_call(claim, call.id, telling(lab), (secret,))
    delivery = await take_one(lab)
    assert msgspec.json.decode(delivery.body)["result"]["output"] == "early"
    assert delivery.secret == Secret("whsec_b3du")


async def test_a_claimed_delivery_is_not_claimed_again_until_the_claim_ends(lab: Lab) -> None:
    await owed(lab)
    first = await take_one(lab)
    assert await take(lab) == ()
    assert await lab.store.deliveries.next_due(None) == lab.clock.now() + MINUTE
    assert (await lab.store.due_times()).delivery == lab.clock.now() + MINUTE
    lab.clock.advance(MINUTE)
    assert (await lab.store.due_times()).delivery == lab.clock.now()
    again = await take_one(lab)
    assert again.id == first.id
    assert again.body == first.body
    assert first.attempt == 1
    assert again.attempt == 2


async def test_one_of_many_concurrent_claims_gets_the_deliveries(lab: Lab) -> None:
    await owed(lab, *[URL] * 5)
    wanted = await lab.store.deliveries.due(None, {}, most=5, each=5)
    taken = await asyncio.gather(*(lab.store.deliveries.claim(wanted, MINUTE) for _ in range(6)))
    assert [len(each) for each in taken] == [5, 0, 0, 0, 0, 0]


async def test_the_outcome_of_a_delivery_attempt_is_stored(lab: Lab) -> None:
    await owed(lab, *[URL] * 3)
    lab.commits.clear()
    ok, later, dead = await take(lab)
    at = lab.clock.now() + 5_000
    await lab.store.deliveries.end_attempt(ok, DeliveryDone())
    await lab.store.deliveries.end_attempt(later, DeliveryRetry(at, "it answered 500"))
    await lab.store.deliveries.end_attempt(dead, DeliveryDead("it answered 410"))

    one, two, three = [await lab.store.deliveries.get(each.id) for each in (ok, later, dead)]
    assert one.state == "delivered"
    assert one.error is None
    assert one.time.ended == lab.clock.now()
    assert one.time.next is None
    assert two.state == "owed"
    assert two.error == "it answered 500"
    assert two.time.ended is None
    assert two.time.next == at
    assert three.state == "dead"
    assert three.error == "it answered 410"
    assert three.time.ended == lab.clock.now()
    assert at in [each for commit in lab.commits for each in commit.posts]
    assert await take(lab) == ()
    lab.clock.advance(5_000)
    assert (await take_one(lab)).attempt == 2


async def test_an_expired_claim_of_a_delivery_changes_nothing(lab: Lab) -> None:
    await owed(lab)
    slow = await take_one(lab)
    lab.clock.advance(MINUTE)
    quick = await take_one(lab)
    await lab.store.deliveries.end_attempt(slow, DeliveryDead("too late"))
    await lab.store.deliveries.give_back(slow)
    assert await states(lab) == ["owed"]
    await lab.store.deliveries.end_attempt(quick, DeliveryDone())
    await lab.store.deliveries.end_attempt(quick, DeliveryDead("twice"))
    assert await states(lab) == ["delivered"]


async def test_a_delivery_that_is_given_back_is_due_at_once_and_not_counted(lab: Lab) -> None:
    await owed(lab)
    await lab.store.deliveries.give_back(await take_one(lab))
    assert (await take_one(lab)).attempt == 1


@pytest.mark.spec("P-12")
async def test_a_dead_delivery_is_redelivered_from_the_first_attempt_on(lab: Lab) -> None:
    await owed(lab)
    await lab.store.deliveries.end_attempt(delivery := await take_one(lab), DeliveryDead("webhooks are off"))
    lab.clock.advance(10)
    again = await lab.store.deliveries.redeliver(delivery.id)
    assert again.state == "owed"
    assert again.attempts == 0
    assert again.time.next == lab.clock.now()
    assert again.time.ended is None
    assert (await take_one(lab)).attempt == 1


async def test_only_a_dead_delivery_can_be_redelivered(lab: Lab) -> None:
    _, (known_delivery,) = await owed(lab)
    with pytest.raises(Conflict, match="is still being tried"):
        await lab.store.deliveries.redeliver(known_delivery.id)
    await lab.store.deliveries.end_attempt(await take_one(lab), DeliveryDone())
    with pytest.raises(Conflict, match="was delivered"):
        await lab.store.deliveries.redeliver(known_delivery.id)
    with pytest.raises(NotFound, match="no delivery"):
        await lab.store.deliveries.redeliver("dlv_none")


async def test_one_host_does_not_take_all_places_for_deliveries(lab: Lab) -> None:
    await owed(lab, *[URL] * 150, "https://other.test/", "https://third.test/")
    due = lab.store.deliveries.due
    found = await due(None, {}, most=8, each=2)
    hosts = [(await lab.store.deliveries.get(each)).url for each in found]
    assert hosts == [URL, URL, "https://other.test/", "https://third.test/"]
    busy = await due(None, {"hooks.test": 2, "other.test": 1}, most=8, each=2)
    assert [(await lab.store.deliveries.get(each)).url for each in busy] == hosts[2:]
    assert len(await due(None, {}, most=1, each=2)) == 1


async def test_deliveries_can_be_claimed_for_one_tree_only(lab: Lab) -> None:
    mine, (first,) = await owed(lab)
    _, (other,) = await owed(lab)
    assert [delivery.id for delivery in await take(lab, mine)] == [first.id]
    assert await lab.store.deliveries.next_due(mine) is not None
    assert [delivery.id for delivery in await take(lab)] == [other.id]


@pytest.mark.spec("P-12")
async def test_an_owed_delivery_outlives_its_session(lab: Lab) -> None:
    session_id, (known_delivery,) = await owed(lab)
    await lab.store.delete_session(session_id)
    assert (await take_one(lab)).id == known_delivery.id


async def test_open_calls_of_a_deleted_session_owe_a_failure(lab: Lab) -> None:
    session_id, _, (call, _) = await lab.start_calls(telling(lab), lab.open_state())
    secret = KeepSecret(session_id, call.id, "out", "whsec_b3du")

    async def keep(tx: Tx) -> None:
        await tx.rev()
        await tx.run("put_call_secret", call.id, secret.direction, session_id, secret.secret)

    await lab.database.write(keep)
    await lab.store.delete_session(session_id)
    delivery = await take_one(lab)
    assert msgspec.json.decode(delivery.body) == {"pendingID": call.id, "error": SESSION_DELETED}
    assert delivery.secret == Secret("whsec_b3du")


async def test_lists_are_cut_into_pages_by_id(lab: Lab) -> None:
    _, known = await owed(lab, *[URL] * 5)
    await lab.store.deliveries.end_attempt((await take(lab, most=1))[0], DeliveryDead("no"))
    pages = []
    after = ""
    while page := await lab.store.deliveries.list(None, after=after, limit=2):
        pages.append([each.id for each in page])
        after = page[-1].id
    ids = [known[n].id for n in range(5)]
    assert pages == [ids[:2], ids[2:4], ids[4:]]
    dead = await lab.store.deliveries.list("dead", after="", limit=10)
    assert [each.id for each in dead] == ids[:1]
    assert await lab.store.deliveries.list("dead", after=ids[0], limit=10) == ()


@pytest.mark.spec("P-15")
async def test_deliveries_that_ended_long_ago_are_forgotten_and_owed_ones_stay(lab: Lab) -> None:
    await owed(lab, *[URL] * 4)
    first, second, _ = await take(lab, most=3)
    await lab.store.deliveries.end_attempt(first, DeliveryDone())
    lab.clock.advance(1_000)
    await lab.store.deliveries.end_attempt(second, DeliveryDead("no"))
    assert await lab.store.deliveries.forget(lab.clock.now() - 1) == 1
    assert await lab.store.deliveries.forget(lab.clock.now(), limit=1) == 1
    assert await lab.store.deliveries.forget(lab.clock.now() + 10**9) == 0
    assert await states(lab) == ["owed", "owed"]


async def test_the_delivery_of_a_forgotten_call_is_still_owed(lab: Lab) -> None:
    _, (known_delivery,) = await owed(lab)
    assert await lab.store.pending.forget_settled(lab.clock.now()) == 1
    assert (await take_one(lab)).call_id == known_delivery.pending_id


@pytest.mark.parametrize(
    "url", ["", "x", "http://[", "http://x:y/", "http://[::1]:80/", "https://X.Test./a", "\0", "é" * 5_000]
)
async def test_a_delivery_with_an_odd_address_blocks_no_other(lab: Lab, url: str) -> None:
    await owed(lab, url, URL)
    kept = url.replace("\0", "\ufffd")
    assert [delivery.url for delivery in await take(lab)] == ([kept, URL] if url else [URL])


async def test_secrets_show_in_no_list(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    secret = KeepSecret(session_id, call.id, "out", "whsec_hidden")
    await lab.store.open_call(claim, call.id, telling(lab), (secret,))
    await lab.store.settle(call.id, completed_result())
    listed = await lab.store.deliveries.list(None, after="", limit=10)
    assert b"hidden" not in msgspec.json.encode(listed)
    assert "hidden" not in repr(await take_one(lab))


@pytest.mark.spec("P-09")
@pytest.mark.parametrize(
    ("statement", "params", "index"),
    [
        ("due_deliveries", (1, 2), "delivery_host"),
        ("due_of_tree", (1, 2, "ses_1"), "delivery_tree"),
        ("next_delivery", (1,), "delivery_owed"),
        ("next_of_tree", (1, "ses_1"), "delivery_tree"),
        ("deliveries_in_state", ("dead", "", 10), "delivery_state"),
        ("forgettable_deliveries", (1, 10), "delivery_ended"),
        ("changed_deliveries", (1, 2), "delivery_rev"),
    ],
)
async def test_lookups_use_their_index(lab: Lab, statement: str, params: Row, index: str) -> None:
    told = await lab.database.read(lambda tx: plan(tx, statement, params))
    chosen = (
        index if isinstance(lab.database, SqliteDatabase) else "delivery"
    )  # Postgres goes by what is in it
    assert any(f"INDEX {chosen}" in each for each in told), told
    assert not any(each.startswith("SCAN delivery") for each in told), told
