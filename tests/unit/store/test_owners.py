"""Who lives: the kernel tells, by a lock that dies with its process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncagents.app.backend import make_data_directory, open_sqlite_backend
from asyncagents.domain.id import OwnerId
from asyncagents.errors import StoreError
from asyncagents.store.sqlite.owners import FlockOwners

_LIVE = """
import subprocess, sys
from pathlib import Path
from asyncagents.store.sqlite.owners import FlockOwners
owners = FlockOwners(Path(sys.argv[1]), sys.argv[2])
child = None
if len(sys.argv) > 3:
    sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(sleeper, stdin=subprocess.PIPE, close_fds=False)
print(child.pid if child else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def _process(directory: Path, name: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that is an owner, and the pid of its child if it was told to have one."""
    with subprocess.Popen(
        [sys.executable, "-c", _LIVE, str(directory), name, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_an_owner_is_alive_until_it_closes(tmp_path: Path) -> None:
    one = FlockOwners(tmp_path / "owners", "one")
    other = FlockOwners(tmp_path / "owners", "other")
    try:
        assert one.me == "one"
        for owners in (one, other):
            assert owners.alive(OwnerId("one"))
            assert owners.alive(OwnerId("other"))
            assert not owners.alive(OwnerId("nobody"))
        one.close()
        assert not other.alive(OwnerId("one"))
        assert other.alive(OwnerId("other"))
    finally:
        other.close()
    assert list((tmp_path / "owners").iterdir()) == []


@pytest.mark.spec("X-11")
def test_another_process_is_alive_until_it_is_killed(tmp_path: Path) -> None:
    me = FlockOwners(tmp_path, "me")
    try:
        with _process(tmp_path, "them") as (process, _):
            assert me.alive(OwnerId("them"))
            assert me.alive(OwnerId("them"))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert not me.alive(OwnerId("them"))
            assert not me.alive(OwnerId("them"))
    finally:
        me.close()


@pytest.mark.spec("X-11")
def test_the_death_of_an_owner_that_was_found_alive_is_found_once(tmp_path: Path) -> None:
    me = FlockOwners(tmp_path, "me")
    try:
        with _process(tmp_path, "them") as (process, _), _process(tmp_path, "unknown") as (unknown, _):
            assert me.alive(me.me)
            assert me.alive(OwnerId("them"))
            assert not me.find_deaths()
            for each in (process, unknown):
                each.kill()
                each.wait()
            assert me.find_deaths()
            assert not me.find_deaths()
    finally:
        me.close()


@pytest.mark.spec("X-11")
def test_an_owner_with_a_living_child_process_is_dead_once_killed(tmp_path: Path) -> None:
    me = FlockOwners(tmp_path, "me")
    try:
        with _process(tmp_path, "them", "with a child") as (process, child):
            assert me.alive(OwnerId("them"))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert not me.alive(OwnerId("them"))
            os.kill(child, signal.SIGKILL)
    finally:
        me.close()


def test_the_name_of_an_owner_is_never_used_again(tmp_path: Path) -> None:
    with _process(tmp_path, "taken"), pytest.raises(OSError, match="taken"):
        FlockOwners(tmp_path, "taken")
    with pytest.raises(OSError, match="taken"):
        FlockOwners(tmp_path, "taken")


def test_closing_twice_does_no_harm(tmp_path: Path) -> None:
    owners = FlockOwners(tmp_path, "me")
    owners.close()
    with (tmp_path / "other").open("w") as other:
        owners.close()
        other.write("still open")
    assert not owners.alive(OwnerId("me"))


def test_the_lock_file_of_a_dead_owner_is_deleted_when_it_is_looked_at(tmp_path: Path) -> None:
    me = FlockOwners(tmp_path, "me")
    for n in range(5):
        (tmp_path / f"dead{n}.lock").touch()
        assert not me.alive(OwnerId(f"dead{n}"))
    assert [path.name for path in tmp_path.iterdir()] == ["me.lock"]
    me.close()


def test_a_new_owner_deletes_lock_files_of_dead_owners_alone(tmp_path: Path) -> None:
    living = FlockOwners(tmp_path, "living")
    (tmp_path / "dead.lock").touch()
    newcomer = FlockOwners(tmp_path, "newcomer")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["living.lock", "newcomer.lock"]
    assert newcomer.alive(living.me)
    assert living.alive(newcomer.me)
    newcomer.close()
    living.close()


async def test_a_data_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = r"^the data directory .*/file/data cannot be written: Not a directory$"
    with pytest.raises(StoreError, match=words):
        make_data_directory(tmp_path / "file" / "data")
    with pytest.raises(StoreError, match=words):
        async with open_sqlite_backend(tmp_path / "file" / "data"):
            pass
