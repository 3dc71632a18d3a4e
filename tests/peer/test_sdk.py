"""The published SDK drives OpenCode's server and ours in the same way, and is answered alike."""

import json
from pathlib import Path

import pytest

from tests.peer.compare import compared, unexplained
from tests.peer.differences import KNOWN
from tests.peer.drive import LOCK, PATIENCE, Told, both, ours
from tests.peer.left_out import LEFT_OUT
from tests.peer.shape import FILE, digest_shapes
from tests.support.process.npm import SECONDS, install_lock

pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


def assert_all_was_called(told: Told) -> None:
    assert not told.broken
    for version, methods in told.methods.items():
        assert set(methods) - set(told.called[version]) == set(LEFT_OUT[version])


@pytest.mark.spec("X-01")
async def test_the_published_sdk_gets_answers_of_the_recorded_shapes(tmp_path: Path) -> None:
    told = await ours(await install_lock(LOCK), tmp_path)
    assert_all_was_called(told)
    found, recorded = digest_shapes(told.answers), json.loads(FILE.read_text())
    changed = [name for name in recorded | found if found.get(name) != recorded.get(name)]
    assert not changed, (
        f"other shapes than in {FILE.name}: {changed}; see whether OpenCode answers so, too "
        "(`python -m tests.peer compare`), then write them down (`python -m tests.peer record`)"
    )


@pytest.mark.soak
@pytest.mark.spec("X-01")
async def test_the_published_sdk_is_answered_as_by_opencodes_own_server(tmp_path: Path) -> None:
    theirs, mine = await both(await install_lock(LOCK), tmp_path)
    assert not theirs.broken
    assert_all_was_called(mine)
    strange = unexplained(compared(theirs.answers, mine.answers), KNOWN)
    assert not strange, "\n".join(strange)
