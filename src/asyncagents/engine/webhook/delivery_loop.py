"""Send due webhooks: woken by commits and by the clock, a few at a time, each by one process."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable

from asyncagents.domain.call.webhook import (
    DeliveryDead,
    DeliveryDone,
    DeliveryOutcome,
    DeliveryRetry,
    origin_of,
)
from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.id import SessionId
from asyncagents.engine.call.incoming_webhook import CallSecrets
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.webhook.delivery import (
    DeliveryForbidden,
    DeliveryResponse,
    SendWebhook,
    Unreachable,
    judge_response,
    sign_delivery,
)
from asyncagents.errors import AsyncAgentsError, StoreError
from asyncagents.store.due_delivery import DueDelivery
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

MAX_CONCURRENT = 8
MAX_PER_HOST = 2
DEADLINE_SECONDS = 15.0
CLAIM_MS = 60_000
"""A claim on a delivery, much longer than a try takes: after it, its process counts as dead."""
SWEEP_MS = 30_000
RETRY_MS = 1_000
GRACE_SECONDS = 3.0
MAX_TRIES = 30
"""Max tries whose outcome is unknown; a receiver that answers with errors is given up much sooner."""

_log = logging.getLogger(__name__)


class DeliveryLoop:
    """Claims a delivery's row before it is sent and concludes it after: it is sent at least once."""

    def __init__(  # noqa: PLR0913  all that sending needs
        self,
        store: Store,
        send: SendWebhook,
        serving: Callable[[], Awaitable[SessionId | None]],
        *,
        clock: Clock,
        rng: Rng,
        group: asyncio.TaskGroup,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        """`serving` waits until this process serves and returns the tree that it serves, or (None) all."""
        self._store = store.deliveries
        self._keys = CallSecrets(store.pending, rng)
        self._send = send
        self._wait_until_serving = serving
        self._clock = clock
        self._rng = rng
        self._group = group
        self._observer = observer
        self._sending: dict[str, tuple[DueDelivery, asyncio.Task[None]]] = {}
        self._look_wanted = asyncio.Event()
        self._next_look = -math.inf
        """When to look for due deliveries again; -inf until this process serves."""

    def on_commit(self, commit: Commit) -> None:
        if commit.posts and min(commit.posts) < self._next_look:
            self._look_wanted.set()

    async def deliver_forever(self) -> None:
        """Send due deliveries: at the start, when one is due, when a try ends, and every half minute."""
        root_id = await self._wait_until_serving()
        while True:
            self._look_wanted.clear()
            self._next_look = math.inf  # a delivery that is committed while we look starts another look
            try:
                pause = await self._deliver_due(root_id)
            except StoreError:
                _log.exception("action=find_due_webhooks the store failed; retrying")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the delivery loop
                _log.exception("action=find_due_webhooks failed; retrying")
                self._observer.report_fault("courier", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._look_wanted.wait()
            except TimeoutError:
                pass

    async def _deliver_due(self, root_id: SessionId | None) -> int:
        """Start the due deliveries that fit; return how long to wait for the next look, in ms."""
        while (places := MAX_CONCURRENT - len(self._sending)) > 0:
            busy = Counter(delivery.host for delivery, _ in self._sending.values())
            wanted = await self._store.due(root_id, busy, most=places, each=MAX_PER_HOST)
            if not wanted:
                break
            taken = await self._store.claim(wanted, CLAIM_MS)
            for delivery in taken:
                task = self._group.create_task(self._deliver(delivery))
                self._sending[delivery.id] = delivery, task
            if not taken:  # other processes claimed them
                break
        due = await self._store.next_due(root_id)
        return SWEEP_MS if due is None else max(1, min(SWEEP_MS, due - self._clock.now()))

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            answer = await self._try_delivery(delivery)
            verdict = judge_response(answer, delivery.attempt, now=self._clock.now(), rng=self._rng)
            await self._store.end_attempt(delivery, verdict)
            _log_verdict(delivery, verdict)
        except Exception as error:  # noqa: BLE001  the edge of a delivery; others go on
            _log.exception("webhook=%s action=conclude failed; it is sent again", delivery.id)
            self._observer.report_fault("courier", error)
        finally:
            self._sending.pop(delivery.id, None)
            self._look_wanted.set()

    async def _try_delivery(self, delivery: DueDelivery) -> DeliveryResponse:
        if delivery.attempt > MAX_TRIES:
            return DeliveryForbidden(
                f"the sending process died in each of {MAX_TRIES} tries, or could not store the outcome"
            )
        secrets = (
            (delivery.secret,)
            if delivery.secret
            else await self._keys.signing_secrets(delivery.call_id, delivery.since)
        )
        request = sign_delivery(delivery, secrets, self._clock.now())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._send(request)
        except TimeoutError:
            return Unreachable(f"the receiver did not answer within {DEADLINE_SECONDS:.0f} s")
        except AsyncAgentsError:
            raise
        except Exception as error:  # noqa: BLE001  the edge of a try; the message may hold the address
            _log.warning("webhook=%s action=send failed: %s", delivery.id, type(error).__name__)
            return Unreachable(f"sending failed: {type(error).__name__}")

    async def stop(self) -> None:
        """Wait a moment for tries under way, then cancel them and release their claims."""
        running = dict(self._sending)
        tasks = [task for _, task in running.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        for delivery, task in running.values():
            if task in late:
                await self._give_back(delivery)

    async def _give_back(self, delivery: DueDelivery) -> None:
        try:
            await self._store.give_back(delivery)
        except AsyncAgentsError:
            _log.exception("webhook=%s action=release failed; it is due when its claim ends", delivery.id)


def _log_verdict(delivery: DueDelivery, verdict: DeliveryOutcome) -> None:
    match verdict:
        case DeliveryDone():
            _log.info("webhook=%s action=deliver delivered to %s", delivery.id, origin_of(delivery.url))
        case DeliveryRetry(_, why):
            _log.info(
                "webhook=%s action=deliver to %s: %s; retrying", delivery.id, origin_of(delivery.url), why
            )
        case DeliveryDead(why):
            _log.warning(
                "webhook=%s action=deliver to %s given up: %s", delivery.id, origin_of(delivery.url), why
            )
