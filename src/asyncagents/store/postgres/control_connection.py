"""A process's control connection to the database: heartbeats, LISTEN and NOTIFY, beside the pool."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import asyncpg

from asyncagents.domain.clock import Rng
from asyncagents.errors import SchemaMismatch, StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST
from asyncagents.store.postgres.notify import NEW_WORK, NotifySchedule, decode_pools
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, OnConnect, connect_with_retry
from asyncagents.store.postgres.workers import BEATS, Workers

NEWS_CHANNEL, LIVE_CHANNEL = "asyncagents_news", "asyncagents_live"
MAX_PAYLOAD_BYTES = 7_900
"""Max bytes of one notification."""
MAX_LIVE = 512
"""Max payloads that wait; more are dropped, and their content comes with the rows."""

_log = logging.getLogger(__name__)


class ControlConnection:
    """Notifications are hints only: a process that misses one reads the rows."""

    def __init__(self, dsn: str, rng: Rng, workers: Workers, *, patience: float, check: OnConnect) -> None:
        self._check = check
        self._dsn = dsn
        self._rng = rng
        self.workers = workers
        self._patience = patience
        self._wake = asyncio.Event()
        self._schedule = NotifySchedule(rng)
        self._live: deque[str] = deque()
        self._cut_off_timer: asyncio.TimerHandle | None = None
        self.cut_off = self._broken = False
        self.ready = asyncio.Event()
        """Set after the first heartbeat."""
        self.on_news: Callable[[], None] = lambda: None
        self.on_jobs: Callable[[frozenset[str]], None] = lambda pools: None
        """Called when this or another process has put work into the queue of these pools."""
        self.on_live: Callable[[str], None] = lambda payload: None
        self.on_cut: Callable[[bool], None] = lambda cut: None
        """True: no heartbeat for half the time after which a process counts as dead. False: it is back."""

    async def wait_until_ready(self) -> None:
        """Wait for the first heartbeat. Raises `StoreError` if there is none in time."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                await self.ready.wait()
        except TimeoutError as error:
            raise StoreError("the database is out of reach: it did not answer in time") from error

    def announce_commit(self, pools: frozenset[str]) -> None:
        """Announce a commit to other processes soon, unless another announcement covers it."""
        self._schedule.add_commit(asyncio.get_running_loop().time(), pools)
        self._wake.set()
        if pools:
            self.on_jobs(pools)

    @property
    def has_remote_listeners(self) -> bool:
        return self.workers.listeners > 0

    def send_live(self, payload: str) -> None:
        """Send a payload of at most `MAX_PAYLOAD_BYTES` to the processes that listen."""
        if len(self._live) < MAX_LIVE:
            self._live.append(payload)
            self._wake.set()

    async def run(self) -> None:
        """Keep the connection open until cancelled. Raises `SchemaMismatch` if `check` does."""
        while True:
            connection: Connection | None = None
            try:
                until = asyncio.get_running_loop().time() + self._patience
                connection = await connect_with_retry(self._dsn, self._rng, until=until)
                await self._serve(connection)
            except SchemaMismatch:
                raise
            except (StoreError, *CONNECTION_LOST, asyncpg.PostgresError) as error:
                self._broken = True
                _log.warning("database action=reconnect: the control connection broke: %s", error)
                await asyncio.sleep(0.05)
            finally:
                if connection is not None:
                    connection.terminate()

    async def _serve(self, connection: Connection) -> None:
        own = connection.get_server_pid()

        def on_notification(_: object, pid: int, channel: str, payload: str) -> None:
            if pid != own:
                self._receive_news(payload) if channel == NEWS_CHANNEL else self.on_live(payload)

        await connection.add_listener(NEWS_CHANNEL, on_notification)
        await connection.add_listener(LIVE_CHANNEL, on_notification)
        self.on_news()  # for notifications that were missed before
        self.on_jobs(decode_pools(NEW_WORK))
        loop, timeout = asyncio.get_running_loop(), self._patience / 2
        next_beat = 0.0
        while True:
            if self.workers.beat_requested.is_set() or loop.time() >= next_beat:
                asked = loop.time()
                await self.workers.beat(connection, timeout=timeout)
                await self._check(connection)
                self._record_heartbeat(asked)
                next_beat = loop.time() + self._patience / BEATS
            await self._send_pending(connection, timeout)
            await self._pause(connection, next_beat)

    async def _pause(self, connection: Connection, next_beat: float) -> None:
        """Wait for the next heartbeat, announcement or payload."""
        if connection.is_closed():
            raise ConnectionResetError("the connection was closed")
        due = next_beat if self._schedule.at is None else min(next_beat, self._schedule.at)
        self._wake.clear()
        if self._live or self.workers.beat_requested.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due - asyncio.get_running_loop().time())):
                await self._wake.wait()

    async def _send_pending(self, connection: Connection, timeout: float) -> None:
        while self._live:
            payloads = [self._live.popleft() for _ in range(min(16, len(self._live)))]
            await connection.execute(
                "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload",
                LIVE_CHANNEL,
                payloads,
                timeout=timeout,
            )
        now = asyncio.get_running_loop().time()
        if self._schedule.at is not None and now >= self._schedule.at:
            await self._send_news(connection, self._schedule.take_payload(now), timeout)

    async def _send_news(self, connection: Connection, payload: str, timeout: float) -> None:
        try:
            await connection.execute("SELECT pg_notify($1, $2)", NEWS_CHANNEL, payload, timeout=timeout)
        except BaseException:
            self._schedule.add_commit(
                asyncio.get_running_loop().time(), decode_pools(payload)
            )  # announced later
            raise

    def _receive_news(self, payload: str) -> None:
        pools = decode_pools(payload)
        self._schedule.receive(asyncio.get_running_loop().time(), pools)
        self.on_news()
        if pools:
            self.on_jobs(pools)

    def _record_heartbeat(self, asked: float) -> None:
        """Restart the timer, from when the heartbeat was sent: its answer may have been delayed."""
        if self._cut_off_timer is not None:
            self._cut_off_timer.cancel()
        self._cut_off_timer = asyncio.get_running_loop().call_at(
            asked + self._patience / 2, self._report_cut_off
        )
        self.ready.set()
        if self._broken:
            self._broken = False
            _log.warning("database action=reconnected: it is reachable again")
        if self.cut_off:
            self.cut_off = False
            self.on_cut(False)

    def _report_cut_off(self) -> None:
        _log.error("database action=cut_off: no heartbeat for too long; all work here stops for now")
        self.cut_off = True
        self.on_cut(True)

    async def end(self) -> None:
        """Sign off, so that other processes need not wait until this one counts as dead."""
        if self._cut_off_timer is not None:
            self._cut_off_timer.cancel()
        try:
            until = asyncio.get_running_loop().time() + 1
            connection = await connect_with_retry(self._dsn, self._rng, until=until)
            try:
                await self.workers.leave(connection, timeout=1)
                await connection.execute("SELECT pg_notify($1, $2)", NEWS_CHANNEL, NEW_WORK, timeout=1)
            finally:
                connection.terminate()
        except (StoreError, *CONNECTION_LOST, asyncpg.PostgresError) as error:
            _log.warning("database action=sign_off: this process could not sign off: %s", error)


@asynccontextmanager
async def open_control_connection(
    dsn: str, rng: Rng, workers: Workers, *, patience: float, check: OnConnect
) -> AsyncIterator[ControlConnection]:
    """Open the control connection. `check` raises if the database is not the one this process opened."""
    line = ControlConnection(dsn, rng, workers, patience=patience, check=check)
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(line.run())
            try:
                yield line
            except BaseException as error:  # noqa: BLE001  leaves the group first, so that it is not wrapped
                failure = error
            keeping.cancel()
            await line.end()
    except BaseExceptionGroup as over:  # the connection failed for good and cancelled the block
        raise over.exceptions[0] from failure
    if failure is not None:
        raise failure
