"""What the tests did that a count of dots does not show; and what all of them have in common."""

import gc
import os
import signal
from collections.abc import Iterator
from itertools import groupby

import pytest
from hypothesis import settings

from tests.support.order import deal, is_played
from tests.support.postgres.server import Server, shared_server

# The same examples on every machine: what more and new ones would find is found by `make soak`. No deadline:
# how long one takes says how busy the machine is.
settings.register_profile("same", derandomize=True, database=None, max_examples=25, deadline=None)
settings.register_profile("few", derandomize=True, database=None, max_examples=10, deadline=None)
settings.register_profile("drawn", print_blob=True, max_examples=200, deadline=None)
settings.load_profile(os.environ.get("ASYNCAGENTS_EXAMPLES", "same"))


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs that tests start: a shell makes its background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to `make soak`; begin with long modules, in each process."""
    soak = os.environ.get("ASYNCAGENTS_SOAK", "")
    left_out = [each for each in items if "soak" in each.keywords and not is_played(each.nodeid, soak)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    left = set(left_out)
    played = [each for each in items if each not in left]
    modules = [
        (path, list(tests)) for path, tests in groupby(played, lambda each: each.nodeid.split("::")[0])
    ]
    items[:] = deal(modules, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Thousands of tests and all they import stay until the end: no collection need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for each test process: what others have under way would hold the readers of a feed back."""
    with shared_server(tmp_path_factory.getbasetemp()) as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", ()):
            counts[name] = counts.get(name, 0) + int(value)
    for name, value in sorted(counts.items()):
        terminalreporter.write_line(f"{name}: {value}")
