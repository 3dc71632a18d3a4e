"""The PostgreSQL servers of the tests: one for all of them, and their own for those that break it."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.path import ROOT
from tests.support.postgres.cluster import ROLE, Cluster, CommandFailed
from tests.support.postgres.watch import HOLDERS, RECORD

# The address of a server where the tests may create databases; it is never stopped.
GIVEN = "ASYNCAGENTS_TEST_POSTGRES"


class Server:
    """A running PostgreSQL. `cluster` is there only if the one who has the server may restart it."""

    def __init__(self, url: str, cluster: Cluster | None = None) -> None:
        self._url = urlsplit(url)
        self._cluster = cluster

    @property
    def address(self) -> tuple[str, int]:
        return self._url.hostname or "127.0.0.1", self._url.port or 5432

    @property
    def is_shared_by_others(self) -> bool:
        """Whether it goes on after the tests."""
        return self._url.geturl() == os.environ.get(GIVEN)

    @property
    def home_database(self) -> str:
        """From where databases are created and dropped."""
        return self._url.path.lstrip("/") or "postgres"

    @property
    def binaries(self) -> Path:
        """The folder of PostgreSQL's own programs, such as pg_dump; of an own server only."""
        return Path(self._own().binaries)

    def dsn(self, database: str) -> str:
        return self._url._replace(path=f"/{database}").geturl()

    def restart(self, mode: str = "immediate") -> None:
        """Returns when the server takes connections again; blocks, so call it in a thread."""
        self._own().restart(mode)

    def stop(self, mode: str = "fast") -> None:
        """Does nothing to a server that is stopped."""
        self._own().stop(mode)

    def start(self) -> None:
        """After `stop`: the same port and data."""
        self._own().start()

    def log(self) -> str:
        return self._own().log()

    def _own(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("Other tests use this server: take one of your own, from open_server().")
        return self._cluster


@contextmanager
def open_server(*, durable: bool = False) -> Iterator[Server]:
    """A server of one's own. With `durable`, it syncs as PostgreSQL does out of the box."""
    with tempfile.TemporaryDirectory() as home, (Path(home) / HOLDERS).open("w") as holders:
        cluster = _joined(Path(home), holders.fileno(), durable=durable)
        server = Server(_url(cluster), cluster)
        try:
            yield server
        finally:
            # A server that the test killed has nothing left to stop.
            with suppress(CommandFailed):
                server.stop("immediate")


@contextmanager
def shared_server(home: Path) -> Iterator[Server]:
    """One server for all processes that name the same folder: it starts with the first and ends with all."""
    if given := os.environ.get(GIVEN):
        yield Server(given)
        return
    with (home / HOLDERS).open("a") as holders:
        with (home / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            cluster = _joined(home, holders.fileno(), durable=False)
        yield Server(_url(cluster))


def _joined(home: Path, holders: int, *, durable: bool) -> Cluster:
    """Holds the lock first: a server whose record is there afterwards is kept by it."""
    fcntl.flock(holders, fcntl.LOCK_SH)
    record = home / RECORD
    if not record.exists():
        _watch(home, durable=durable)
    return Cluster.from_json(record.read_text())


def _watch(home: Path, *, durable: bool) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.postgres.watch",
        str(home),
        "durable" if durable else "fast",
    ]
    # A pipe would stay open while the watch goes on; a session of its own is out of reach of Ctrl-C.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        output.seek(0)
        if done.returncode:
            raise RuntimeError(f"PostgreSQL did not start:\n{output.read().decode(errors='replace')}")


def _url(cluster: Cluster) -> str:
    return f"postgresql://{ROLE}@127.0.0.1:{cluster.port}/postgres"
