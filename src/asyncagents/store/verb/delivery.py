"""Outgoing webhooks: enqueued in the transaction that settles a call, posted by one process at a time."""

from contextlib import suppress
from typing import assert_never

from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import Call, Failed, Settled
from asyncagents.domain.call.webhook import (
    SESSION_DELETED,
    Delivery,
    DeliveryDead,
    DeliveryDone,
    DeliveryOutcome,
    DeliveryRetry,
    DeliveryState,
    DeliveryTime,
    host_of,
    webhook_body,
)
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, NotFound
from asyncagents.store.due_delivery import DueDelivery
from asyncagents.store.row import decode_call
from asyncagents.store.tx import Row, Tx


async def enqueue_webhook(tx: Tx, call: Call) -> None:
    """Enqueue the webhook of a settled call, if it has a webhook URL."""
    if call.later is None or not call.later.webhook_url:
        return
    url = call.later.webhook_url.replace("\0", "\ufffd")  # databases store a zero byte differently
    secret = await tx.one("call_secret", call.id, "out")
    lineage = await tx.one("lineage", call.session_id)
    await tx.one(
        "insert_delivery",
        f"dlv_{call.id.removeprefix('tool_')}",
        call.id,
        call.session_id,
        lineage[0] if lineage else call.session_id,
        url,
        host_of(url),
        secret[0] if secret else "",
        call.started or call.created,
        tx.now,
        tx.now,
        await tx.rev(),
        encode(webhook_body(call)),
    )
    tx.schedule_webhook(tx.now)


async def enqueue_deleted_webhooks(tx: Tx, session_id: SessionId) -> None:
    """Enqueue a failure for each unsettled call of a session that is being deleted."""
    for row in await tx.all("unsettled_calls", session_id):
        with suppress(Unreadable):
            await enqueue_webhook(tx, decode_call(row).with_state(Settled(Failed(SESSION_DELETED), tx.now)))


async def due_ids(
    tx: Tx, root_id: SessionId | None, busy: dict[str, int], *, most: int, each: int
) -> tuple[str, ...]:
    """List at most `most` due deliveries, longest owed first; at most `each` per host, counting `busy`."""
    if root_id is None:
        rows = await tx.all("due_deliveries", tx.now, each)
    else:
        rows = await tx.all("due_of_tree", tx.now, each, root_id)
    count: dict[str, int] = dict(busy)
    found: list[str] = []
    for delivery_id, host in rows:
        if len(found) < most and count.get(host, 0) < each:
            count[host] = count.get(host, 0) + 1
            found.append(delivery_id)
    return tuple(found)


async def next_due(tx: Tx, root_id: SessionId | None) -> int | None:
    """The time at which the next delivery becomes due that is not due now."""
    if root_id is None:
        row = await tx.one("next_delivery", tx.now)
    else:
        row = await tx.one("next_of_tree", tx.now, root_id)
    return row[0] if row else None


async def claim_deliveries(tx: Tx, wanted: tuple[str, ...], lease_ms: int) -> tuple[DueDelivery, ...]:
    """Claim those that no other process holds; unless ended within `lease_ms`, they are due again."""
    found = []
    for delivery_id in wanted:
        if await tx.run("claim_delivery", tx.now + lease_ms, await tx.rev(), delivery_id, tx.now):
            row = await tx.one("parcel", delivery_id)
            assert row is not None
            found.append(_due_delivery(row))
    return tuple(found)


def _due_delivery(row: Row) -> DueDelivery:
    delivery_id, call_id, url, host, secret, since, attempts, body = row
    known = Secret(secret) if secret else None
    return DueDelivery(delivery_id, CallId(call_id), url, host, known, since, attempts, bytes(body))


async def end_attempt(tx: Tx, delivery: DueDelivery, verdict: DeliveryOutcome) -> None:
    """Record how a try went; changes nothing if its lease has expired and another process holds it."""
    match verdict:
        case DeliveryDone():
            change: tuple[object, ...] = "delivered", tx.now, tx.now, ""
        case DeliveryRetry(at, why):
            change = "owed", at, None, why
            tx.schedule_webhook(at)
        case DeliveryDead(why):
            change = "dead", tx.now, tx.now, why
        case _:
            assert_never(verdict)
    await tx.run("end_attempt", *change, await tx.rev(), delivery.id, delivery.attempt)


async def release_delivery(tx: Tx, delivery: DueDelivery) -> None:
    """Return a claimed delivery; the interrupted try does not count and is made again."""
    await tx.run("give_delivery_back", tx.now, await tx.rev(), delivery.id, delivery.attempt)
    tx.schedule_webhook(tx.now)


async def redeliver(tx: Tx, delivery_id: str) -> Delivery:
    """Make a dead delivery due again, beginning with its first try. Raises `Conflict` if it is not dead."""
    known_delivery = await delivery(tx, delivery_id)
    if known_delivery.state != "dead":
        state = "is still being tried" if known_delivery.state == "owed" else "was delivered"
        raise Conflict(f"delivery {delivery_id!r} {state}; only a dead one can be tried again")
    await tx.run("owe_again", tx.now, await tx.rev(), delivery_id)
    tx.schedule_webhook(tx.now)
    return await delivery(tx, delivery_id)


async def delivery(tx: Tx, delivery_id: str) -> Delivery:
    row = await tx.one("delivery", delivery_id)
    if row is None:
        raise NotFound("delivery", delivery_id)
    return _delivery(row)


async def deliveries(tx: Tx, state: DeliveryState | None, *, after: str, limit: int) -> tuple[Delivery, ...]:
    """List deliveries in the order in which their calls were created."""
    if state is None:
        rows = await tx.all("deliveries", after, limit)
    else:
        rows = await tx.all("deliveries_in_state", state, after, limit)
    return tuple(_delivery(row) for row in rows)


def _delivery(row: Row) -> Delivery:
    delivery_id, call_id, session_id, url, state, attempts, next_at, created, ended, error = row
    return Delivery(
        id=delivery_id,
        pending_id=CallId(call_id),
        session_id=SessionId(session_id),
        url=url,
        state=state,
        attempts=attempts,
        error=error or None,
        time=DeliveryTime(created=created, next=next_at if state == "owed" else None, ended=ended),
    )


async def forget_ended(tx: Tx, before: int, limit: int = 500) -> int:
    """Delete deliveries that ended before a time; returns how many. Owed ones stay."""
    rows = await tx.all("forgettable_deliveries", before, limit)
    for (delivery_id,) in rows:
        await tx.rev()
        await tx.run("delete_delivery", delivery_id)
    return len(rows)
