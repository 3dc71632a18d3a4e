"""Send due webhooks: woken by commits and by the clock, a few at a time, each by one process."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable

from asyncagents.domain.call.webhook import Again, Dead, Delivered, Verdict, origin_of
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock, Rng
from asyncagents.engine.call.incoming_webhook import Keys
from asyncagents.engine.observer import UNWATCHED, Watch
from asyncagents.engine.webhook.delivery import Answer, Forbidden, Post, Unreachable, judged, sealed
from asyncagents.errors import AsyncAgentsError, StoreError
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.store.verb.delivery import Parcel

AT_ONCE = 8
AT_ONE_HOST = 2
DEADLINE_SECONDS = 15.0
LEASE_MS = 60_000
"""A claim on a delivery, much longer than a try takes: after it, its process counts as dead."""
SWEEP_MS = 30_000
RETRY_MS = 1_000
GRACE_SECONDS = 3.0
TRIES = 30
"""Max tries whose outcome is unknown; a receiver that answers with errors is given up much sooner."""

_log = logging.getLogger(__name__)


class Courier:
    """Claims a delivery's row before it is sent and concludes it after: it is sent at least once."""

    def __init__(  # noqa: PLR0913  all that sending needs
        self,
        store: Store,
        post: Post,
        serving: Callable[[], Awaitable[SessionId | None]],
        *,
        clock: Clock,
        rng: Rng,
        group: asyncio.TaskGroup,
        watch: Watch = UNWATCHED,
    ) -> None:
        """`serving` waits until this process serves and returns the tree that it serves, or (None) all."""
        self._store = store.deliveries
        self._keys = Keys(store.pending, rng)
        self._post = post
        self._serving = serving
        self._clock = clock
        self._rng = rng
        self._group = group
        self._watch = watch
        self._posting: dict[str, tuple[Parcel, asyncio.Task[None]]] = {}
        self._wanted = asyncio.Event()
        self._next_look = -math.inf
        """When to look for due deliveries again; -inf until this process serves."""

    def committed(self, commit: Commit) -> None:
        if commit.posts and min(commit.posts) < self._next_look:
            self._wanted.set()

    async def work_forever(self) -> None:
        """Send due deliveries: at the start, when one is due, when a try ends, and every half minute."""
        root_id = await self._serving()
        while True:
            self._wanted.clear()
            self._next_look = math.inf  # a delivery that is committed while we look starts another look
            try:
                pause = await self._round(root_id)
            except StoreError:
                _log.exception("action=find_due_webhooks the store failed; retrying")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the courier
                _log.exception("action=find_due_webhooks failed; retrying")
                self._watch.report_fault("courier", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _round(self, root_id: SessionId | None) -> int:
        """Start the due deliveries that fit; return how long to wait for the next look, in ms."""
        while (places := AT_ONCE - len(self._posting)) > 0:
            busy = Counter(parcel.host for parcel, _ in self._posting.values())
            wanted = await self._store.due(root_id, busy, most=places, each=AT_ONE_HOST)
            if not wanted:
                break
            taken = await self._store.claim(wanted, LEASE_MS)
            for parcel in taken:
                task = self._group.create_task(self._deliver(parcel))
                self._posting[parcel.id] = parcel, task
            if not taken:  # other processes claimed them
                break
        due = await self._store.next_due(root_id)
        return SWEEP_MS if due is None else max(1, min(SWEEP_MS, due - self._clock.now()))

    async def _deliver(self, parcel: Parcel) -> None:
        try:
            answer = await self._answer(parcel)
            verdict = judged(answer, parcel.attempt, now=self._clock.now(), rng=self._rng)
            await self._store.conclude(parcel, verdict)
            _note(parcel, verdict)
        except Exception as error:  # noqa: BLE001  the edge of a delivery; others go on
            _log.exception("webhook=%s action=conclude failed; it is sent again", parcel.id)
            self._watch.report_fault("courier", error)
        finally:
            self._posting.pop(parcel.id, None)
            self._wanted.set()

    async def _answer(self, parcel: Parcel) -> Answer:
        if parcel.attempt > TRIES:
            return Forbidden(
                f"the sending process died in each of {TRIES} tries, or could not store the outcome"
            )
        secrets = (parcel.secret,) if parcel.secret else await self._keys.told(parcel.call_id, parcel.since)
        letter = sealed(parcel, secrets, self._clock.now())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._post(letter)
        except TimeoutError:
            return Unreachable(f"the receiver did not answer within {DEADLINE_SECONDS:.0f} s")
        except AsyncAgentsError:
            raise
        except Exception as error:  # noqa: BLE001  the edge of a try; the message may hold the address
            _log.warning("webhook=%s action=send failed: %s", parcel.id, type(error).__name__)
            return Unreachable(f"sending failed: {type(error).__name__}")

    async def stop(self) -> None:
        """Wait a moment for tries under way, then cancel them and release their claims."""
        running = dict(self._posting)
        tasks = [task for _, task in running.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        for parcel, task in running.values():
            if task in late:
                await self._give_back(parcel)

    async def _give_back(self, parcel: Parcel) -> None:
        try:
            await self._store.give_back(parcel)
        except AsyncAgentsError:
            _log.exception("webhook=%s action=release failed; it is due when its claim ends", parcel.id)


def _note(parcel: Parcel, verdict: Verdict) -> None:
    match verdict:
        case Delivered():
            _log.info("webhook=%s action=deliver delivered to %s", parcel.id, origin_of(parcel.url))
        case Again(_, why):
            _log.info("webhook=%s action=deliver to %s: %s; retrying", parcel.id, origin_of(parcel.url), why)
        case Dead(why):
            _log.warning(
                "webhook=%s action=deliver to %s given up: %s", parcel.id, origin_of(parcel.url), why
            )
