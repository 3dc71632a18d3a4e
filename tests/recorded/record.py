"""Record a store: play all acts on a simulated machine, and keep the files and the log of verbs."""

import asyncio
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from asyncagents.archive.export import export_to
from asyncagents.archive.import_ import import_from
from asyncagents.domain.id import SessionId
from asyncagents.testing.simloop import SimLoop
from tests.recorded.acts import asks, crashes, outside, talk, tasks
from tests.recorded.cast import Scenes
from tests.recorded.recorder import Recorder
from tests.simulation.tape import Taken

SEED = 20
FILE = "asyncagents.db"
SCENES: Scenes = {
    **talk.SCENES,
    **asks.SCENES,
    **outside.SCENES,
    **tasks.SCENES,
    **crashes.SCENES,
}


class Played(Struct, frozen=True):
    path: Path
    """The database file, when all processes had ended."""
    files: dict[str, bytes]
    """The files as the last process left them when it was killed."""
    owner: str
    """Of the last process."""
    log: list[Taken]
    sessions: dict[str, SessionId]
    now: int
    """When the recording ended, in ms since the epoch."""


@contextmanager
def played() -> Iterator[Played]:
    """Play everything; the same seed gives the same rows."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="recorded") as folder:
        try:
            exported = Path(folder) / "exported"
            _run(Recorder(Path(folder) / "elsewhere" / FILE, SCENES, seed=SEED + 1), exported, elsewhere=True)
            recorder = Recorder(Path(folder) / "here" / FILE, SCENES, seed=SEED)
            now = _run(recorder, exported)
        finally:
            logging.disable(before)
        yield Played(
            path=recorder.path,
            files=recorder.kept,
            owner=recorder.owner,
            log=recorder.log,
            sessions=recorder.sessions,
            now=now,
        )


def _run(recorder: Recorder, exported: Path, *, elsewhere: bool = False) -> int:
    loop = SimLoop(SEED, max_steps=10_000_000)
    return loop.run(lambda: _export(recorder, exported) if elsewhere else _play(recorder, exported))


async def _export(recorder: Recorder, exported: Path) -> int:
    """Export a session whose tasks are live, one of them at work, to be imported where it will be cut off."""
    async with recorder.process() as at:
        at.serve()
        await at.send("exported")
        await asyncio.sleep(10)
        await export_to(at.runtime, exported)
    return 0


async def _play(recorder: Recorder, exported: Path) -> int:
    """What takes long comes first: the rest is fresh when the recording ends."""
    for early in (asks, tasks, outside):
        await early.play_early(recorder)
    for act in (talk, asks, tasks, outside):
        await act.play(recorder)
    async with recorder.process() as at:
        done = await import_from(at.runtime, exported, directory="/srv/imported")
        assert not done.troubles, done.troubles
        at.know("imported", done.taken[0].session.id)
    await tasks.play_late(recorder)
    await outside.play_late(recorder)
    await crashes.play(recorder)
    await crashes.play_last(recorder)
    return recorder.clock(asyncio.get_running_loop())
