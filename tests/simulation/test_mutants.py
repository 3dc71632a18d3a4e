"""The simulation is only worth something if it finds bugs: each of these must die within 200 seeds."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.simulation.mutant import Mutant, wrong_names
from tests.simulation.mutants import MUTANTS
from tests.support.process.fork_server import Order, forged

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "asyncagents"


def beside(path: Path, file: Path) -> None:
    """A place for another version of a file; all else of the package as it is, also what is compiled."""
    for here in (*reversed(file.parents[:-1]), file):
        (path / here).parent.mkdir(exist_ok=True)
        for each in (PACKAGE / here).parent.iterdir():
            if each != PACKAGE / here:
                (path / here).with_name(each.name).symlink_to(each)


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
async def test_the_simulation_finds_it(mutant: Mutant, tmp_path: Path) -> None:
    beside(tmp_path / "asyncagents", Path(mutant.file))
    mutated = tmp_path / "asyncagents" / mutant.file
    mutated.write_text(mutant.apply((PACKAGE / mutant.file).read_text()))
    assert not (wrong := await asyncio.to_thread(wrong_names, mutated)), wrong
    hunt = Order(
        module="tests.simulation.hunt",
        words=("--first", str(mutant.first), "--seeds", "200"),
        cwd=str(ROOT),
        env=dict(os.environ),
        first=str(tmp_path),
        loaded="libraries",
    )
    code, out, err = await forged(hunt)
    said = out.decode() + err.decode()
    assert code == 1, f"{mutant.name} survived: {said}"
    assert said.startswith(("violation", "Livelock", "Deadlock")), said
