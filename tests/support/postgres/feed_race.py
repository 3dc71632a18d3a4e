"""Sixteen writers in five processes against readers: `python -m tests.support.postgres.feed_race`."""

import argparse
import asyncio
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from asyncagents.store.postgres.pool import Connection, connect
from tests.support.path import ROOT
from tests.support.postgres.database import a_database, open_server
from tests.support.postgres.feed_reader import Follower, Listener, Naive, Reader, There, what_is_there
from tests.support.postgres.feed_writer import READY, Orders, Wrote, laboratory, obey
from tests.support.store.lab import Lab
from tests.support.wait import wait_until

PROCESSES, WRITERS, OWN_WRITERS = 4, 3, 2
"""Four processes of three writers; and two handles of two in this one."""
SHARED = 4
LOOK_SECONDS = 0.003
CATCH_UP_SECONDS = 20


class Raced(Struct):
    """What was written, and what each reader has missed of it."""

    writers: int
    sessions: int
    messages: int
    deleted: int
    refused: int
    pieces: dict[str, int]
    missed: dict[str, list[str]]
    went_back: dict[str, list[str]]
    outdated: dict[str, list[str]]
    disordered: dict[str, list[str]]
    lost: list[str]
    """Acknowledged, and not there."""
    naive: int
    """So many messages a reader has missed that goes by the highest revision."""


async def race(dsn: str, *, writes: int, seed: int = 1) -> Raced:
    """On a fresh database; each writer writes so often."""
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        labs = [await stack.enter_async_context(laboratory(dsn, random.Random(seed + n))) for n in range(4)]
        databases = [database for database, _ in labs]
        readers: dict[str, Reader] = {
            "follows": Follower(databases[2:3], rng),
            "comes back elsewhere": Follower(databases, rng),
            "listens": Listener(databases[3]),
            "listens where others write": Listener(databases[0]),
        }
        naive = Naive(await stack.enter_async_context(connected(dsn)))
        for reader in readers.values():
            await catch_up(reader, 1)
        shared = tuple([await labs[2][1].session() for _ in range(SHARED)])
        orders = [Orders(dsn, seed + number, WRITERS, writes, shared) for number in range(PROCESSES)]
        own = replace(orders[0], seed=seed + PROCESSES, writers=OWN_WRITERS)
        async with asyncio.TaskGroup() as group:
            looking = [group.create_task(_look_on(each.look)) for each in readers.values()]
            looking.append(group.create_task(_look_on(naive.look)))
            wrote = await _written(orders, own, [lab for _, lab in labs[:2]])
            for task in looking:
                task.cancel()
        there = await what_is_there(dsn)
        for reader in readers.values():
            await catch_up(reader, there.newest)
        await naive.look()
    return _summed_up(wrote, there, readers, naive)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def catch_up(reader: Reader, newest: int) -> None:
    async def is_there() -> bool:
        if reader.upto < newest:
            await reader.look()
        return reader.upto >= newest

    await wait_until(is_there, seconds=CATCH_UP_SECONDS)


async def _look_on(look: Callable[[], Awaitable[None]]) -> None:
    while True:
        await look()
        await asyncio.sleep(LOOK_SECONDS)


async def _written(orders: list[Orders], own: Orders, labs: list[Lab]) -> list[Wrote]:
    """All begin when all are there."""
    processes = [await _start(each) for each in orders]
    try:
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == READY
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(process.communicate(b"go\n")) for process in processes]
            here = [
                group.create_task(obey(replace(own, seed=own.seed + number), lab))
                for number, lab in enumerate(labs)
            ]
        assert not any(process.returncode for process in processes)
        there = [decode(task.result()[0], type=Wrote) for task in others]
        return [*there, *(task.result() for task in here)]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _start(orders: Orders) -> Process:
    command = (sys.executable, "-m", "tests.support.postgres.feed_writer")
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    process.stdin.write(encode(orders) + b"\n")
    return process


def _summed_up(wrote: list[Wrote], there: There, readers: dict[str, Reader], naive: Naive) -> Raced:
    deleted = set().union(*(each.deleted for each in wrote))
    sessions = set().union(*(each.sessions for each in wrote))
    messages = {key: of for each in wrote for key, of in each.messages.items()}
    kept = {key for key, session_id in messages.items() if session_id not in deleted}
    lost = [
        *((sessions - deleted) - there.rows["sessions"].keys()),
        *(kept - there.rows["messages"].keys()),
        *(deleted - there.deleted),
    ]
    return Raced(
        writers=PROCESSES * WRITERS + 2 * OWN_WRITERS,
        sessions=len(sessions),
        messages=len(messages),
        deleted=len(deleted),
        refused=sum(each.refused for each in wrote),
        pieces={name: reader.pieces for name, reader in readers.items()},
        missed={name: reader.missed(there) for name, reader in readers.items()},
        went_back={name: reader.went_back for name, reader in readers.items()},
        outdated={name: reader.outdated(there) for name, reader in readers.items()},
        disordered={name: reader.disordered for name, reader in readers.items()},
        lost=lost,
        naive=len(naive.missed(there)),
    )


async def _alone(writes: int, seed: int) -> Raced:
    with open_server() as server:
        async with a_database(server) as dsn:
            return await race(dsn, writes=writes, seed=seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=500, help="of each writer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    done = asyncio.run(_alone(options.writes, options.seed))
    sys.stdout.write(f"{done}\n")
    wrong = (done.missed, done.went_back, done.outdated, done.disordered)
    return int(bool(done.lost) or any(any(each.values()) for each in wrong))


if __name__ == "__main__":
    sys.exit(main())
