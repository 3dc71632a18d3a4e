"""Where the modules of the suite stand, and what they may reach."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.path import ROOT

TESTS = ROOT / "tests"
PROGRAMS = ("golden", "peer", "recorded", "simulation")
"""Folders with modules of their own: each is a program that tests start."""
VIRTUAL = re.compile(
    r"(recorded|simulation|unit/testing)/.*|unit/llm/test_watch\.py|support/kills/(power_cut|(park_)?crowd)\.py"
)
"""Modules whose time is simulated: a sleep takes no time there."""
SLEEPS = {
    "contract/model/test_fault.py": 1,  # the pings of a provider, for longer than it may be silent
    "flows/test_server_attack_slow.py": 2,  # the slowness of clients
    "support/fleet/turn.py": 2,  # how long a network is away; the rate of a load
    "support/fleet/worker.py": 4,  # tools that take their time
    "support/kills/park_worker.py": 2,  # a tool that takes its time; the rounds of a courier
    "support/kills/task_worker.py": 2,  # tools that take their time
    "support/kills/worker.py": 1,  # tools that take their time
    "support/load/hostile_project.py": 1,  # the rate of a load
    "support/load/slow_client.py": 2,  # the slowness of clients; the rate of a load
    "support/mcp/server.py": 1,  # a tool that takes its time
    "support/postgres/feed_race.py": 1,  # the rounds of a reader
    "support/postgres/feed_writer.py": 1,  # transactions that take their time
    "support/wait.py": 1,  # the pause between two looks
}
"""How many real-time sleeps a module may have. Everything else waits for an event, or with `wait_until`."""
FOR_EVER = 60
"""What sleeps for so many seconds is there to be killed or cancelled."""
PRIVATE = re.compile(r"_(store|bus|dispatcher|inputs|input_builder)")


@cache
def read_modules() -> list[tuple[Path, str]]:
    return [
        (path.relative_to(TESTS), path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))
    ]


def find_nodes(pattern: str) -> Iterator[tuple[Path, ast.AST]]:
    """Find all nodes of the modules whose text has the pattern; the others need not be parsed."""
    for path, text in read_modules():
        if re.search(pattern, text):
            yield from ((path, node) for node in ast.walk(ast.parse(text)))


def test_modules_that_tests_share_stand_in_support() -> None:
    names = [path for path, _ in read_modules() if path.parts[0] not in ("support", *PROGRAMS)]
    own = re.compile(r"test_\w+|conftest|__main__|__init__")
    assert [str(path) for path in names if not own.fullmatch(path.stem)] == []


def test_no_test_module_is_imported_by_another_module() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, node in find_nodes(r"from tests\.\S*\btest_")
        if isinstance(node, ast.ImportFrom) and re.fullmatch(r"tests\..*\btest_\w+", node.module or "")
    ]
    assert found == []


def test_no_test_module_uses_private_attributes_of_a_runtime() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, node in find_nodes(rf"\.{PRIVATE.pattern}\b")
        if isinstance(node, ast.Attribute)
        and PRIVATE.fullmatch(node.attr)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]
    assert found == [], "use asyncagents.testing.inside"


def is_real_sleep(node: ast.AST) -> bool:
    """Return whether a call sleeps in real time: not zero, not for ever, not a time drawn at random."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(), attr="sleep") | ast.Name(id="sleep"), args=[argument]
        ):
            seconds = ast.unparse(argument)
            if re.fullmatch(r"[\d_.]+", seconds):
                return 0 < float(seconds) < FOR_EVER
            return not re.search(r"\b_?rng\b", seconds)
        case _:
            return False


def test_tests_wait_for_events_and_do_not_sleep() -> None:
    found = Counter(
        path.as_posix()
        for path, node in find_nodes(r"\bsleep\(")
        if not VIRTUAL.fullmatch(path.as_posix()) and is_real_sleep(node)
    )
    assert found == SLEEPS, "wait for an event, or with tests.support.wait.wait_until"


def test_loops_that_look_again_and_again_are_calls_of_the_helper() -> None:
    found = [
        f"{path}:{number}"
        for path, text in read_modules()
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(r"\s*while .*# noqa: ASYNC110", line) and not VIRTUAL.fullmatch(path.as_posix())
    ]
    assert found == [], "use tests.support.wait.wait_until"
