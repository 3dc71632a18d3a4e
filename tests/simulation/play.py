"""One seed, played in virtual time and checked: which world it is, the seed says."""

import logging
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from asyncagents.testing.simloop import SimLoop
from tests.simulation.cast import MOST_STEPS
from tests.simulation.checker import check, check_steps
from tests.simulation.external_checker import check_externals
from tests.simulation.externals import EXTERNALS, ExternalWorld
from tests.simulation.park_checker import check_parks, forget_old
from tests.simulation.park_world import ParkWorld
from tests.simulation.parks import PARKS
from tests.simulation.scenario import Scenario
from tests.simulation.shells import SHELLS, ShellWorld, check_shells
from tests.simulation.stage import Violation
from tests.simulation.talks import TALKS, TalkWorld, check_talks
from tests.simulation.tree_checker import check_trees
from tests.simulation.trees import TREE_STEPS
from tests.simulation.undos import UNDOS, UndoWorld, check_undos

MAX_STEPS = 20_000
LONG_MAX_STEPS = 80_000


class Summary(Struct, frozen=True):
    seed: int
    crashes: int
    digest: str
    counts: dict[str, int]


def play(seed: int, *, keep_trace: bool = False) -> Summary:
    """Run one seed and check every promise; raises `Violation`, with the seed."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="sim", dir=_memory()))
    scenario = _world(seed)(seed, directory / "sim.db")
    plain = not isinstance(scenario, ParkWorld) and scenario.grove is None
    loop = SimLoop(seed, keep_trace=keep_trace, max_steps=MAX_STEPS if plain else LONG_MAX_STEPS)
    try:
        loop.set_exception_handler(scenario.stage.broke)
        _run(loop, scenario)
        scenario.stage.check_unbroken()
        _check(scenario)
        scenario.stage.counts["steps"] = loop.steps
        return Summary(seed, scenario.machine.crashes, loop.trace_digest(), scenario.stage.counts)
    finally:
        logging.disable(before)
        if scenario.stage.rows is not None:
            scenario.stage.rows.close()
        shutil.rmtree(directory)


def _run(loop: SimLoop, scenario: Scenario) -> None:
    """What broke first says more than what came of it."""
    try:
        loop.run(scenario.play)
    except Exception as error:
        if scenario.stage.broken:
            raise Violation(scenario.stage.broken[0]) from error
        raise


def _world(seed: int) -> type[Scenario]:
    worlds = (
        (EXTERNALS, ExternalWorld),
        (TALKS, TalkWorld),
        (UNDOS, UndoWorld),
        (SHELLS, ShellWorld),
        (PARKS, ParkWorld),
    )
    return next((world for first, world in worlds if seed >= first), Scenario)


def _check(scenario: Scenario) -> None:
    path = scenario.machine.path
    if isinstance(scenario, UndoWorld):
        check_undos(scenario, path)
        return
    if isinstance(scenario, ParkWorld):
        forget_old(scenario.book, path)
    check(scenario.stage, path)
    if isinstance(scenario, ParkWorld):
        check_trees(scenario.stage, path, scenario.park.limits)
        check_parks(scenario.book, path)
        return
    if isinstance(scenario, ShellWorld):
        check_shells(scenario, path)
    if isinstance(scenario, TalkWorld):
        check_talks(scenario, path)
    if isinstance(scenario, ExternalWorld):
        check_externals(scenario, path)
    check_steps(path, TREE_STEPS if scenario.grove else MOST_STEPS)
    if scenario.grove is not None:
        check_trees(scenario.stage, path, scenario.grove.limits)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
