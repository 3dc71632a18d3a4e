"""The simulation is only worth something if it finds bugs: each of these must die within 200 seeds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_finds_it(mutant: Mutant, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", copy_function=os.symlink)  # also what is compiled
    file = tmp_path / "src" / "asyncagents" / mutant.file
    source = file.read_text()
    assert source.count(mutant.old) == 1, (
        f"{mutant.file} has changed; bring the mutant {mutant.name} up to date"
    )
    file.unlink()
    file.write_text(source.replace(mutant.old, mutant.new))
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.hunt", "--first", str(mutant.first), "--seeds", "200"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, f"{mutant.name} survived: {done.stdout}{done.stderr}"
    assert done.stdout.startswith(("violation", "Livelock", "Deadlock")), done.stdout + done.stderr
