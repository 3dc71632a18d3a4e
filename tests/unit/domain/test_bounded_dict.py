"""A dict that does not grow beyond a number of entries."""

from asyncagents.domain.bounded_dict import BoundedDict


def test_the_entry_that_was_set_longest_ago_is_dropped() -> None:
    kept = BoundedDict[str, int](2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3
    assert kept.get("b") == 2
    kept["c"] = 4
    assert list(kept.items()) == [("a", 3), ("c", 4)]
