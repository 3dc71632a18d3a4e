"""OpenCode's own terminal UI, from npm, in a real terminal: the same hands at its own server and at ours."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.peer.tui_scenes import SCENES
from tests.peer.tui_stage import Play, ours, the_real_one

pytestmark = [pytest.mark.spec("X-01"), pytest.mark.timeout(180)]

Scene = Callable[[Play], Awaitable[None]]


async def acted(play: Play, scenes: Sequence[Scene]) -> None:
    for scene in scenes:
        import time; t=time.time()
        try:
            await scene(play)
            print(f"{time.time()-t:.2f} {scene.__name__}")
        except Exception as failure:
            failure.add_note(f"in the scene {scene.__name__}")
            raise


async def test_the_scenes_are_right_where_opencode_serves_itself(tmp_path: Path) -> None:
    async with the_real_one(tmp_path.resolve()) as play:
        await acted(play, SCENES)


async def test_the_terminal_ui_drives_our_server(tmp_path: Path) -> None:
    async with ours(tmp_path.resolve()) as (play, _):
        await acted(play, SCENES)
