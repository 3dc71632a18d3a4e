"""examples/deploy, as its README tells to use it: the processes are real, and none outlives its line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "deploy"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
WAITS = "It waits for the result of deploy (tool_…), at most … s more.\n"
DONE = "deploy: v2 is live at https://shop.example\nagent: The deploy is over.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, in a home where nothing else is."""
    return Path(
        shutil.copytree(EXAMPLE, tmp_path / "deploy", ignore=shutil.ignore_patterns("data", "jobs", "__*"))
    )


def run(folder: Path, line: str) -> str:
    """As in a shell of somebody who has installed asyncagents."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
        "HOME": str(folder.parent),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    ran = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, line
    assert ran.stderr == "", line
    return re.sub(r"at most \d+ s", "at most … s", re.sub(r"tool_\w+", "tool_…", ran.stdout))


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.spec("P-01", "P-04", "P-15")
def test_the_commands_of_the_example_print_the_output_of_its_readme(folder: Path) -> None:
    said = [run(folder, line) for line in block("sh").splitlines()]
    assert len(said) == 4
    assert "".join(said) == block("text")
    assert list((folder / "jobs").iterdir()) == []
    assert run(folder, "python worker.py --webhook") == "no open job\n"


@pytest.mark.spec("P-05", "P-06")
def test_a_result_that_the_tool_refuses_leaves_the_call_waiting_for_a_signed_one(folder: Path) -> None:
    assert run(folder, 'python agent.py "Deploy v2."') == WAITS
    refused = run(folder, "python worker.py --url ftp://shop")
    assert refused.startswith("v2 was refused: deploy does not take this result: metadata.url")
    assert run(folder, "python agent.py") == WAITS
    assert run(folder, "python worker.py --webhook") == "v2 is completed\n"
    assert run(folder, "python agent.py") == run(folder, "python agent.py") == DONE


def test_a_repeated_job_of_the_example_is_harmless_and_a_conflict_keeps_it(folder: Path) -> None:
    run(folder, 'python agent.py "Deploy v2."')
    (job,) = (folder / "jobs").iterdir()
    todo = job.read_text()
    assert run(folder, "python worker.py") == "v2 is completed\n"
    job.write_text(todo)  # as if the worker had died before it crossed the job out
    assert run(folder, "python worker.py") == "v2 is completed\n"
    job.write_text(todo)
    assert "already has another result" in run(folder, "python worker.py --url https://other.example")
    assert job.exists()
    assert run(folder, "python agent.py") == DONE


def test_every_link_of_the_example_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    assert [link for link in links if not (EXAMPLE / link).exists()] == []
