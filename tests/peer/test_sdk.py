"""The published SDK drives OpenCode's server and ours in the same way, and is answered alike."""

from pathlib import Path

import pytest

from tests.peer.compare import compared, unexplained
from tests.peer.differences import KNOWN
from tests.peer.drive import LOCK, PATIENCE, both
from tests.peer.left_out import LEFT_OUT
from tests.support.process.npm import SECONDS, installed_from

pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


@pytest.mark.spec("X-01")
async def test_the_published_sdk_is_answered_as_by_opencodes_own_server(tmp_path: Path) -> None:
    theirs, mine = await both(await installed_from(LOCK), tmp_path)
    assert not theirs.broken
    assert not mine.broken
    for version, methods in mine.methods.items():
        assert set(methods) - set(mine.called[version]) == set(LEFT_OUT[version])
    strange = unexplained(compared(theirs.answers, mine.answers), KNOWN)
    assert not strange, "\n".join(strange)
