"""A recording holds every state that rows of its version can be in."""

import asyncio
from typing import Any, get_args

import pytest

from asyncagents.domain.call.call import Effect, OpenKind
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.call.webhook import DELIVERY_STATES
from asyncagents.domain.conversation.todo import TodoStatus
from asyncagents.domain.task.task import EndedBy, TaskStatus
from tests.recorded.__main__ import inventory_of
from tests.recorded.coverage import demands, lacking
from tests.recorded.fixture import VERSIONS, Recording
from tests.recorded.record import played

KNOWN: dict[str, Any] = {
    "open call": OpenKind,
    "call effect": Effect,
    "pending call": PendingStatus,
    "task status": TaskStatus,
    "task ended by": EndedBy,
    "todo": TodoStatus,
}


def test_there_is_a_recording_of_the_first_version() -> None:
    assert "0.1" in VERSIONS


@pytest.mark.spec("X-11")
def test_a_recording_holds_every_state(recording: Recording) -> None:
    assert lacking(recording.inventory, recording.version) == {}


def test_a_recording_that_lacks_a_state_is_noticed(recording: Recording) -> None:
    short = dict(recording.inventory)
    short["sessions"] = {
        session_id: session
        for session_id, session in short["sessions"].items()
        if session_id != recording.session("full")
    }
    assert lacking(short, recording.version) == {"a summary is wanted, or being written": ["wanted"]}


@pytest.mark.parametrize("of", KNOWN)
def test_every_state_that_the_program_knows_is_demanded(of: str) -> None:
    """A state that is added is to be recorded from then on."""
    assert set(get_args(KNOWN[of])) == demands()[of]


def test_every_state_of_a_delivery_is_demanded() -> None:
    assert {each.partition(",")[0] for each in demands()["delivery"]} == set(DELIVERY_STATES)


@pytest.mark.spec("X-11")
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_this_version_can_be_recorded_as_well() -> None:
    with played() as done:
        inventory = asyncio.run(inventory_of(done))
    assert lacking(inventory) == {}
