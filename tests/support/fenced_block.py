"""Finds the fenced blocks of the pages, says which rule holds for each, and runs those that are programs.

The rules:

* A block with `excerpt` in its info string is not run.
* A block below a line `<!-- test: tests/… -->` is run or compared by that module, which names the page.
* `python` is a whole program: it runs offline in an empty directory and ends with exit code 0. A `text`
  block after it, under the same heading, is what the program prints.
* `sh` runs with `bash -e` in an empty directory, where `asyncagents run` reaches a scripted model.
* `json` and `jsonc` are a configuration file that loads without a warning.
* Every other block must be an excerpt or have a test.
"""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.config.load import load_config
from asyncagents.config.trust import project_root, trust_project
from tests.support.path import ROOT

CONFIG = ("json", "jsonc")
RUNNABLE = ("python", "sh", *CONFIG)
SECONDS = 60.0
KEY = "sk-of-the-pages"

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^`]*)$")
TEST = re.compile(r"^\s*<!--\s*test:\s*(?P<paths>[^>]*?)\s*-->\s*$")
HEADING = re.compile(r"^#{1,6} ")
VARIABLE = re.compile(r"\{env:([^}]+)\}")
FILE = re.compile(r"\{file:([^}]+)\}")


class Block(Struct, frozen=True, kw_only=True):
    """One fenced block of a page."""

    page: str
    """The path of the page, from the root of the repository."""
    line: int
    """The line of the opening fence, from 1 on."""
    info: tuple[str, ...]
    """The words of the info string, the language first."""
    text: str
    tests: tuple[str, ...]
    """The modules that the comment above the fence names."""
    section: int
    """How many headings stand before it: two blocks under one heading have the same number."""

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def is_excerpt(self) -> bool:
        return "excerpt" in self.info[1:]

    @property
    def is_run(self) -> bool:
        return self.language in RUNNABLE and not self.is_excerpt and not self.tests

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Outcome(Struct, frozen=True):
    """How a block ended, and what it printed."""

    code: int
    out: str
    err: str


def find_pages(root: Path = ROOT) -> list[str]:
    """Return the paths of the pages below the root of the repository."""
    found = [root / "README.md", root / "CONTRIBUTING.md"]
    found += [*sorted((root / "docs").rglob("*.md")), *sorted((root / "examples").rglob("*.md"))]
    return [page.relative_to(root).as_posix() for page in found]


def read_blocks(page: str, root: Path = ROOT) -> list[Block]:
    return list(parse_blocks(page, (root / page).read_text(encoding="utf-8")))


def parse_blocks(page: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a text. Raises `ValueError` for a fence that is never closed."""
    lines = text.splitlines()
    number = section = 0
    while number < len(lines):
        section += HEADING.match(lines[number]) is not None
        if (opening := FENCE.match(lines[number])) is None:
            number += 1
            continue
        end = _find_end(lines, number, opening["fence"])
        if end is None:
            raise ValueError(f"{page}:{number + 1}: this block has no closing fence")
        above = TEST.match(lines[number - 1]) if number else None
        yield Block(
            page=page,
            line=number + 1,
            info=tuple(opening["info"].split()),
            text=textwrap.dedent("".join(f"{line}\n" for line in lines[number + 1 : end])),
            tests=tuple(re.split(r"[\s,]+", above["paths"])) if above else (),
            section=section,
        )
        number = end + 1


def _find_end(lines: list[str], start: int, fence: str) -> int | None:
    closing = re.compile(rf" *{fence}`* *$")
    return next((at for at in range(start + 1, len(lines)) if closing.match(lines[at])), None)


def printed_text(blocks: list[Block], program: Block) -> Block | None:
    """Return the block that shows what a Python program prints: the next one, under the same heading."""
    after = blocks[blocks.index(program) + 1 :]
    if program.language != "python" or not program.is_run or not after:
        return None
    shown = after[0]
    belongs = shown.language == "text" and shown.section == program.section
    return shown if belongs and not shown.is_excerpt and not shown.tests else None


def find_problems(blocks: list[Block], root: Path = ROOT) -> list[str]:
    """Say which blocks of a page have no rule, or a rule that does not hold."""
    shown = [printed_text(blocks, block) for block in blocks]
    problems = []
    for block in blocks:
        if block.tests:
            problems += [problem for path in block.tests for problem in _check_test(block, path, root)]
        elif not block.is_excerpt and not block.is_run and block not in shown:
            language = block.language or "a block without a language"
            problems.append(f"{block}: {language} is neither run nor an excerpt, and no test is named")
    return problems


def _check_test(block: Block, path: str, root: Path) -> Iterator[str]:
    module = root / path
    if not path.startswith("tests/") or module.suffix != ".py" or not module.is_file():
        yield f"{block}: there is no test module {path}"
    elif Path(block.page).name not in module.read_text(encoding="utf-8"):
        yield f"{block}: {path} does not mention {Path(block.page).name}"


class Bench:
    """An empty directory with a home beside it, whose configuration names the scripted model."""

    def __init__(self, root: Path, provider_url: str) -> None:
        self.home, self.directory = root / "home", root / "project"
        config = self.home / ".config" / "asyncagents" / "asyncagents.json"
        config.parent.mkdir(parents=True)
        self.directory.mkdir()
        options = {"baseURL": f"{provider_url}/v1", "apiKey": KEY}
        local = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {}}}
        config.write_text(json.dumps({"model": "local/m", "provider": {"local": local}}), encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """Return the environment of a block, without keys and settings of the person who runs the tests."""
        names = ("PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**kept, "PATH": programs, "HOME": str(self.home), "ASYNCAGENTS_TRUST": "1"}

    def run(self, block: Block) -> Outcome:
        if block.language == "sh":
            return self._execute("bash", "-e", "-c", block.text)
        program = self.home / "program.py"
        program.write_text(block.text, encoding="utf-8")
        return self._execute(sys.executable, "-W", "error", str(program))

    def _execute(self, *command: str) -> Outcome:
        """Run a command to its end, and end with it whatever it left behind in its process group.

        It prints into files: a process that is left behind would keep a pipe open.
        """
        out, err = self.home / "out", self.home / "err"
        with out.open("wb") as its_out, err.open("wb") as its_err:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=its_out,
                stderr=its_err,
                start_new_session=True,
            )
            with suppress(subprocess.TimeoutExpired):  # it is killed, and its exit code says so
                process.wait(SECONDS)
            _end_group(process.pid)
        return Outcome(process.wait(), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def check_config(block: Block, root: Path) -> tuple[str, ...]:
    """Load a block as the configuration of a project and return the warnings.

    Variables and files that the block reads are there. Raises `ConfigError` for an invalid setting.
    """
    home, project = root / "home", root / "project"
    home.mkdir(parents=True)
    project.mkdir()
    variables = dict.fromkeys(VARIABLE.findall(block.text), "value")
    environment = Environment(variables=variables, home=home, platform="linux", cwd=project)
    trust_project(environment, project_root(environment, project))
    for path in FILE.findall(block.text):
        file = environment.folder(path, base=project)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("value", encoding="utf-8")
    (project / "asyncagents.jsonc").write_text(block.text, encoding="utf-8")
    return load_config(environment, directory=project).warnings
