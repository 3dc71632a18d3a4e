"""The comparison sees every difference that a client could see, and no other."""

from typing import Any

import pytest

from tests.peer.compare import Known, because, compared, differences, plain, unexplained


def told(real: Any, ours: Any) -> list[str]:
    return [f"{each.where} {each.kind}" for each in differences(real, ours, "at")]


@pytest.mark.parametrize(
    ("real", "ours", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, ["at.a missing"]),
        ({}, {"a": None}, ["at.a added"]),
        ({"a": 1}, {"a": "1"}, ["at.a type"]),
        ({"a": True}, {"a": 1}, ["at.a type"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": None}, {"a": 0}, ["at.a type"]),
        ([1, 2], [1], ["at length"]),
        ([1, 2], [1, 3], ["at[1] value"]),
        ([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], []),
        ([{"name": "a"}], [{"name": "a"}, {"name": "b"}], ["at.b added"]),
        ([{"type": "a", "x": 1}], [{"type": "b"}, {"type": "a"}], ["at length", "at[a].x missing"]),
    ],
)
def test_each_difference_is_reported_once_with_its_place(real: Any, ours: Any, expected: list[str]) -> None:
    assert told(real, ours) == expected


def test_answers_with_different_statuses_are_not_compared_further() -> None:
    real, ours = {"x": {"status": 500, "body": {"a": 1}}}, {"x": {"status": 404, "body": {"b": 1}}, "y": {}}
    assert [f"{each.where} {each.kind}" for each in compared(real, ours)] == ["x.status value", "y added"]


def test_values_that_change_from_run_to_run_are_masked() -> None:
    seen = {
        "id": "ses_1e5ab3fe9001t4EGVfFFbV9Ob2",
        "time": {"created": 1_794_854_713_835},
        "title": "New session - 2026-11-16T18:40:57.123Z",
        "directory": "/tmp/one/project",
        "cost": 12,
    }
    assert plain(seen, {"/tmp/one/project": "<project>"}) == {
        "id": "<ses>",
        "time": {"created": "<time>"},
        "title": "New session - <when>",
        "directory": "<project>",
        "cost": 12,
    }


def test_a_difference_needs_a_reason_and_a_reason_a_difference() -> None:
    found = list(compared({"v1 a": {"body": {"x": 1}}}, {"v1 a": {"body": {}}}))
    assert unexplained(found, ()) == ["v1 a.body.x missing: 1"]
    assert unexplained(found, because("meant", "* a.body.x missing")) == []
    assert unexplained([], because("meant", "* a.body.x missing")) == [
        "no longer differs: * a.body.x missing"
    ]
    assert unexplained([], (Known("* a.body.x missing", "by machine", sometimes=True),)) == []
