"""Who posts what is owed: woken by commits and by the clock, a few at a time, each by one process."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable

from asyncagents.domain.delivery import Again, Dead, Delivered, Verdict, origin_of
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock, Rng
from asyncagents.engine.keys import Keys
from asyncagents.engine.post import Answer, Forbidden, Post, Unreachable, judged, sealed
from asyncagents.engine.watch import UNWATCHED, Watch
from asyncagents.errors import AsyncAgentsError, StoreError
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.store.verb.delivery import Parcel

AT_ONCE = 8
AT_ONE_HOST = 2
DEADLINE_SECONDS = 15.0
LEASE_MS = 60_000
"""Much longer than a post may take: who has not ended it by then is dead."""
SWEEP_MS = 30_000
RETRY_MS = 1_000
GRACE_SECONDS = 3.0
TRIES = 30
"""Of which nobody knows how they went; a receiver that fails is given up much sooner."""

_log = logging.getLogger(__name__)


class Courier:
    """A row is put off before it is posted and ended after it: so it is posted at least once."""

    def __init__(  # noqa: PLR0913  all that posting takes
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
        """`serving` returns when there is something to serve: a tree, or (None) all."""
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
        """While nobody serves, nothing is looked for."""

    def committed(self, commit: Commit) -> None:
        if commit.posts and min(commit.posts) < self._next_look:
            self._wanted.set()

    async def work_forever(self) -> None:
        """At the start, when something is owed or due, when a post ends, and at least every half minute."""
        root_id = await self._serving()
        while True:
            self._wanted.clear()
            self._next_look = math.inf  # while we look, whatever becomes owed is news
            try:
                pause = await self._round(root_id)
            except StoreError:
                _log.exception("webhooks that are owed could not be looked for; it is tried again")
                pause = RETRY_MS
            except Exception as error:  # noqa: BLE001  the edge of the courier
                _log.exception("looking for webhooks that are owed failed; it is tried again")
                self._watch.report_fault("courier", error)
                pause = RETRY_MS
            self._next_look = self._clock.now() + pause
            try:
                async with asyncio.timeout(pause / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _round(self, root_id: SessionId | None) -> int:
        """Post what can be posted; returns how long to wait, in ms. What has no place waits for one."""
        while (places := AT_ONCE - len(self._posting)) > 0:
            busy = Counter(parcel.host for parcel, _ in self._posting.values())
            wanted = await self._store.due(root_id, busy, most=places, each=AT_ONE_HOST)
            if not wanted:
                break
            taken = await self._store.claim(wanted, LEASE_MS)
            for parcel in taken:
                task = self._group.create_task(self._deliver(parcel))
                self._posting[parcel.id] = parcel, task
            if not taken:  # others are quicker
                break
        due = await self._store.next_due(root_id)
        return SWEEP_MS if due is None else max(1, min(SWEEP_MS, due - self._clock.now()))

    async def _deliver(self, parcel: Parcel) -> None:
        try:
            answer = await self._answer(parcel)
            verdict = judged(answer, parcel.attempt, now=self._clock.now(), rng=self._rng)
            await self._store.conclude(parcel, verdict)
            _note(parcel, verdict)
        except Exception as error:  # noqa: BLE001  the edge of a delivery; no other suffers from it
            _log.exception("how webhook %s went could not be written down; it is posted again", parcel.id)
            self._watch.report_fault("courier", error)
        finally:
            self._posting.pop(parcel.id, None)
            self._wanted.set()

    async def _answer(self, parcel: Parcel) -> Answer:
        if parcel.attempt > TRIES:
            return Forbidden(
                f"its process died in each of {TRIES} tries, or could not write down how it went"
            )
        secrets = (parcel.secret,) if parcel.secret else await self._keys.told(parcel.call_id, parcel.since)
        letter = sealed(parcel, secrets, self._clock.now())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._post(letter)
        except TimeoutError:
            return Unreachable(f"it did not answer within {DEADLINE_SECONDS:.0f} s")
        except AsyncAgentsError:
            raise
        except Exception as error:  # noqa: BLE001  the edge of a post; its words may hold the address
            _log.warning("posting webhook %s failed with %s", parcel.id, type(error).__name__)
            return Unreachable(f"it could not be posted: {type(error).__name__}")

    async def stop(self) -> None:
        """Let posts end that are under way, for a moment; the rest is given back."""
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
            _log.exception("webhook %s could not be given back; it is due when its lease ends", parcel.id)


def _note(parcel: Parcel, verdict: Verdict) -> None:
    match verdict:
        case Delivered():
            _log.info("webhook %s: delivered to %s", parcel.id, origin_of(parcel.url))
        case Again(_, why):
            _log.info("webhook %s to %s: %s; it is tried again", parcel.id, origin_of(parcel.url), why)
        case Dead(why):
            _log.warning("webhook %s to %s is dead: %s", parcel.id, origin_of(parcel.url), why)
