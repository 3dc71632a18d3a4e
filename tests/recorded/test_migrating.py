"""A store that an older version wrote is opened by this one: nothing of it is lost or changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.clock import SystemRng
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.postgres.move_from_sqlite import move_store
from tests.recorded.copy import Copy, Shifted, SqliteCopy
from tests.recorded.fixture import Recording
from tests.recorded.inventory import missing, take_inventory
from tests.recorded.rows import differences, postgres_rows
from tests.support.postgres.database import Server, database


def _without_gone(body: bytes) -> bytes:
    """A task whose session was deleted is marked."""
    return body.removesuffix(b',"gone":true}') + b"}" if body.endswith(b',"gone":true}') else body


MEANT: dict[tuple[str, str], Callable[[Any], Any]] = {("task", "body"): _without_gone}
"""Columns, by table and name, that a migration changes on purpose; each function undoes its change."""


@pytest.mark.spec("X-11")
async def test_every_row_stays_as_it_was_recorded(copy: Copy, tmp_path: Path) -> None:
    """The rows before are read from another copy: to read a log is to write it into its file."""
    before = (
        await SqliteCopy(copy.recording, tmp_path / "before").rows() if _is_file(copy) else await copy.rows()
    )
    await copy.migrate()
    after = await copy.rows()
    for (table, column), undo in MEANT.items():
        for row in after[table]:
            row[column] = undo(row[column])

    assert before["session"]
    assert differences(before, after) == []


@pytest.mark.spec("X-11")
async def test_the_program_reads_all_that_was_recorded(copy: Copy) -> None:
    await copy.migrate()
    async with copy.open(Shifted(copy.recording.now)) as opened:
        now = await take_inventory(opened, await copy.rows())

    recorded = copy.recording.inventory
    assert missing({name: recorded[name] for name in now}, now) == []
    assert recorded.keys() - now.keys() == {"version", "schema", "recorded", "owner", "names"}


@pytest.mark.spec("X-11")
async def test_a_recorded_directory_moves_into_a_database(
    recording: Recording, tmp_path: Path, postgres_server: Server
) -> None:
    here = SqliteCopy(recording, tmp_path)
    async with database(postgres_server) as dsn:
        await move_store(here.path, dsn, rng=SystemRng(), told=lambda *_: None)
        async with open_postgres(dsn, clock=Shifted(recording.now), rng=SystemRng()) as opened:
            there = await take_inventory(opened, await postgres_rows(dsn))

    assert missing({name: recording.inventory[name] for name in there}, there) == []


def _is_file(copy: Copy) -> bool:
    return isinstance(copy, SqliteCopy)
