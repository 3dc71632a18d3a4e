"""The simulation is only worth something if it finds bugs: each of these must die within 200 seeds."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.simulation.mutant import ROOT, SEEDS, Mutant, write_mutated, wrong_names
from tests.simulation.mutants import MUTANTS
from tests.support.process.fork_server import ForkOrder, run_forked


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
async def test_the_simulation_finds_each_mutant(mutant: Mutant, tmp_path: Path) -> None:
    mutated = write_mutated(mutant, tmp_path)
    assert not (wrong := await asyncio.to_thread(wrong_names, mutated)), wrong
    hunt = ForkOrder(
        module="tests.simulation.hunt",
        words=("--first", str(mutant.first), "--seeds", str(SEEDS)),
        cwd=str(ROOT),
        env=dict(os.environ),
        first=str(tmp_path),
        loaded="libraries",
    )
    code, out, err = await run_forked(hunt)
    said = out.decode() + err.decode()
    assert code == 1, f"{mutant.name} survived: {said}"
    assert said.startswith(("violation", "Livelock", "Deadlock")), said
