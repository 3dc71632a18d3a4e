"""Undo and redo at the same moment as something else."""

from pathlib import Path

import pytest

from asyncagents.domain.session import Revert
from asyncagents.errors import SessionBusy
from tests.flows.test_revert import project, prompted


@pytest.mark.spec("X-01")
async def test_a_turn_that_came_and_went_since_the_look_is_not_undone_unseen(tmp_path: Path) -> None:
    """Its messages would go, and what it did to files would stay."""
    async with project(tmp_path) as at:
        await at.prompt("go")
        (asked,) = await prompted(at)
        seen = await at.runtime._store.reverts.look(at.session_id, asked)
        await at.prompt("more")
        with pytest.raises(SessionBusy):
            await at.runtime._store.reverts.mark(at.session_id, Revert(message_id=asked), wakes=seen.wakes)
        again = await at.runtime._store.reverts.look(at.session_id, asked)
        await at.runtime._store.reverts.mark(at.session_id, Revert(message_id=asked), wakes=again.wakes)
