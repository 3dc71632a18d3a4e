"""A test's own copy of a recording, in either store, and the program on it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from asyncagents.app.assemble import start_runtime
from asyncagents.app.backend import Backend, PolledDatabase
from asyncagents.cli.serve.migrate import upgrade_schema
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.fleet import STORE_VARIABLE
from asyncagents.domain.clock import Clock
from asyncagents.domain.id import Ids
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from asyncagents.testing.inside import inside
from tests.recorded.cast import Actor, Cast, Record, Terms
from tests.recorded.fixture import Recording
from tests.recorded.record import SCENES
from tests.recorded.rows import Tables, postgres_rows, sqlite_rows


class Shifted:
    """A clock that goes on from a moment of the past."""

    def __init__(self, start_ms: int) -> None:
        self._clock = SystemClock()
        self._back = self._clock.now() - start_ms

    def now(self) -> int:
        return self._clock.now() - self._back


class At:
    """A runtime on the copy, its model, and what its tools and webhooks did."""

    def __init__(self, runtime: Runtime, model: Actor, record: Record) -> None:
        self.runtime = runtime
        self.store = inside(runtime).store
        self.model = model
        self.record = record


class Copy(Protocol):
    recording: Recording
    directory: Path

    async def migrate(self) -> None:
        """Bring it to the schema of this program, as an operator would."""
        ...

    async def rows(self) -> Tables: ...

    def open(self, clock: Clock, **more: Any) -> AbstractAsyncContextManager[PolledDatabase]: ...


class EmptyStore:
    """A new store in a directory, as old as a recording."""

    def __init__(self, recording: Recording, directory: Path) -> None:
        self.recording = recording
        self.directory = directory
        self.path = directory / "asyncagents.db"

    async def migrate(self) -> None:
        async with self.open(Shifted(self.recording.now)):
            pass

    async def rows(self) -> Tables:
        return sqlite_rows(self.path)

    @asynccontextmanager
    async def open(self, clock: Clock, **more: Any) -> AsyncIterator[PolledDatabase]:
        async with open_sqlite(self.path, clock=clock, rng=SystemRng(), **more) as database:
            yield database


class SqliteCopy(EmptyStore):
    def __init__(self, recording: Recording, directory: Path) -> None:
        super().__init__(recording, directory)
        recording.unpack(directory)


class PostgresCopy:
    def __init__(self, recording: Recording, directory: Path, dsn: str) -> None:
        self.recording = recording
        self.directory = directory
        self.dsn = dsn

    async def migrate(self) -> None:
        """As `asyncagents migrate` does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(STORE_VARIABLE, self.dsn)
            await upgrade_schema()

    async def rows(self) -> Tables:
        return await postgres_rows(self.dsn)

    @asynccontextmanager
    async def open(self, clock: Clock, **more: Any) -> AsyncIterator[PolledDatabase]:
        async with open_postgres(self.dsn, clock=clock, rng=SystemRng(), **more) as database:
            yield database


@asynccontextmanager
async def running(copy: Copy, *, after_ms: int, serve: bool = True) -> AsyncIterator[At]:
    """Open a runtime on a copy, so long after it was recorded; nothing hangs or fails any more."""
    clock, rng, record = Shifted(copy.recording.now + after_ms), SystemRng(), Record([], [])
    ids = Ids(clock, rng)
    owners = FlockOwners(copy.directory / "owners", f"{rng.below(2**64):016x}")
    cast = Cast(SCENES, Terms(hang=False), clock, record)
    try:
        async with (
            copy.open(clock, ids=ids) as database,
            start_runtime(Backend(database, owners, clock, rng, ids), cast.setup(serve=serve)) as runtime,
        ):
            yield At(runtime, cast.model, record)
    finally:
        owners.close()
