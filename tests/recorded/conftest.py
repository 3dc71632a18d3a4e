"""Every recording, in each store."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.recorded.copy import Copy, PostgresCopy, SqliteCopy
from tests.recorded.fixture import POSTGRES, VERSIONS, Recording
from tests.support.postgres.database import Server, database, template


@pytest.fixture(params=VERSIONS)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


@pytest.fixture(params=["sqlite", "postgres"])
async def copy(request: pytest.FixtureRequest, recording: Recording, tmp_path: Path) -> AsyncIterator[Copy]:
    """A copy of a recording that is the test's own; nothing of this program has touched it."""
    directory = tmp_path / "data"
    if request.param == "sqlite":
        yield SqliteCopy(recording, directory)
        return
    server: Server = request.getfixturevalue("postgres_server")
    digest = hashlib.sha256((recording.folder / POSTGRES).read_bytes()).hexdigest()[:16]
    loaded = await template(server, f"recorded_{digest}", recording.load)
    async with database(server, template=loaded) as dsn:
        yield PostgresCopy(recording, directory, dsn)
