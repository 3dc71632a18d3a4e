"""The order of tests: none is lost, and each process begins with long ones."""

from collections import Counter

import pytest

from tests.support.order import deal, is_played

HASHES = ["00000000aa", "00000001aa", "00000002aa", "00000003aa"]
NODES = [f"tests/e2e/test_a.py::test_{number}" for number in range(100)]


def test_each_soak_test_is_played_by_one_of_four_successive_hashes() -> None:
    played = Counter(node for commit in HASHES for node in NODES if is_played(node, commit))
    assert played == Counter(NODES)


@pytest.mark.parametrize("commit", HASHES)
def test_a_hash_plays_about_a_quarter(commit: str) -> None:
    assert 10 <= sum(is_played(node, commit) for node in NODES) <= 40


def test_without_a_hash_no_soak_test_is_played_and_with_all_each_is() -> None:
    assert not any(is_played(node, "") for node in NODES)
    assert all(is_played(node, "all") for node in NODES)


def test_soak_tests_of_foreign_programs_are_played_only_with_all() -> None:
    node = "tests/peer/test_a.py::test_0"
    assert not any(is_played(node, commit) for commit in HASHES)
    assert is_played(node, "all")


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
def test_dealing_keeps_every_test_once(processes: int) -> None:
    modules = [(f"tests/{folder}/test_{n}.py", [(folder, n, k) for k in range(n + 1)])
               for folder in ("unit", "e2e", "other", "flows") for n in range(9)]  # fmt: skip
    dealt = deal(modules, processes)
    assert Counter(dealt) == Counter(test for _, tests in modules for test in tests)


def test_each_process_begins_with_a_module_of_the_slowest_folder() -> None:
    modules = [(f"tests/{folder}/test_{n}.py", [(folder, n)] * 2)
               for folder in ("unit", "peer") for n in range(4)]  # fmt: skip
    dealt = deal(modules, 4)
    assert [dealt[number * 4] for number in range(4)] == [("peer", n) for n in range(4)]
