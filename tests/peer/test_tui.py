"""OpenCode's own terminal UI, from npm, in a real terminal: the same hands at its own server and at ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.peer.tui_own_scenes import OWN_SCENES
from tests.peer.tui_scenes import SCENES
from tests.peer.tui_stage import ours, the_real_one

# Not a limit for how fast they are: on a machine with nothing else to do each takes some 35 s.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def root() -> Iterator[Path]:
    """With a short name: a long one is broken across lines, with whatever stands beside it."""
    with TemporaryDirectory(prefix="tui-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@contextmanager
def named(scene: str) -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        failure.add_note(f"in the scene {scene}")
        raise


@pytest.mark.soak
@pytest.mark.spec("X-01")
async def test_the_scenes_pass_against_opencodes_own_server(root: Path) -> None:
    async with the_real_one(root) as play:
        for scene in SCENES:
            with named(scene.__name__):
                await scene(play)


@pytest.mark.spec("X-01")
async def test_the_terminal_ui_drives_our_server(root: Path) -> None:
    async with ours(root) as (play, server):
        for scene in SCENES:
            with named(scene.__name__):
                await scene(play)
        for own in OWN_SCENES:
            with named(own.__name__):
                await own(play, server)
