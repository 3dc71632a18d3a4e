"""What a call of an external agent needs a permission for, by what its updates and its request show."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.agent.permission import UNCLEAR
from asyncagents.engine.tool import Ask
from asyncagents.remote.acp.calls import CallLog, call_asks
from asyncagents.remote.acp.wire import ToolCallFields, Update


def asks_for(*updates: dict[str, Any], **request: Any) -> tuple[Ask, ...]:
    """Return the asks of a request for a call that these updates showed before."""
    log = CallLog()
    for each in updates:
        log.merge(Update(session_update="tool_call", tool_call_id="c1", **each))
    call = log.merge(ToolCallFields("c1", **request))
    return call_asks(call, agent="ext", directory="/work/app", worktree="/work", home=Path("/home/someone"))


def permissions(asks: tuple[Ask, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(ask.permission, ask.patterns) for ask in asks]


def places(*paths: str) -> list[dict[str, str]]:
    return [{"path": path} for path in paths]


@pytest.mark.spec("X-03")
def test_a_request_of_another_kind_is_judged_as_the_call_that_it_belongs_to() -> None:
    asks = asks_for({"kind": "read"}, kind="other", locations=places("/etc/hostname", "/etc"))
    assert permissions(asks) == [("external_directory", ("/etc/*",)), ("read", ("/etc/hostname",))]


@pytest.mark.spec("X-03")
def test_a_call_of_another_kind_needs_a_permission_for_places_outside_the_project() -> None:
    asks = asks_for(kind="other", locations=places("/etc/hostname", "/work/a.txt"))
    assert permissions(asks) == [("external_directory", ("/etc/*",)), ("external_agent", ("ext",))]
    assert asks[0].narrow


@pytest.mark.spec("X-03")
def test_a_call_of_another_kind_inside_the_project_needs_no_other_permission() -> None:
    assert permissions(asks_for(kind="other", locations=places("/work/a.txt"))) == [
        ("external_agent", ("ext",))
    ]


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("key", ["workdir", "cwd", "directory"])
def test_a_command_is_judged_in_the_folder_that_only_an_earlier_update_showed(key: str) -> None:
    shown = {"kind": "execute", "raw_input": {"command": "cat a", key: "/etc"}}
    asks = asks_for(shown, kind="execute", raw_input={"command": "cat a"})
    assert ("external_directory", ("/etc/*",)) in permissions(asks)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("kind", ["edit", "delete", "move", "read"])
def test_a_call_that_names_no_file_asks_as_an_unclear_one(kind: str) -> None:
    """Rules for single files cannot judge it."""
    (ask,) = asks_for(kind=kind, raw_input={"content": "x"})
    assert (ask.patterns, ask.also) == (("*",), (UNCLEAR,))


@pytest.mark.spec("X-03")
def test_a_search_without_a_path_is_one_of_the_whole_project() -> None:
    (ask,) = asks_for(kind="search", raw_input={"pattern": "x"})
    assert (ask.permission, ask.patterns, ask.also) == ("read", ("*",), ())


@pytest.mark.spec("X-03")
@pytest.mark.parametrize(
    "given", [{"target_file": "a.txt"}, {"paths": ["a.txt"]}, {"file_path": "/work/app/a.txt"}]
)
def test_the_file_of_a_call_is_found_in_its_arguments(given: dict[str, Any]) -> None:
    (ask,) = asks_for(kind="edit", raw_input=given)
    assert (ask.patterns, ask.also) == (("app/a.txt",), ())
