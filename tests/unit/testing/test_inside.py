from pathlib import Path

import pytest

from asyncagents import ScriptedModel, open_runtime
from asyncagents.testing.inside import inside


async def test_inside_shows_the_bus_the_store_and_the_inputs_of_a_runtime(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as runtime:
        view = inside(runtime)
        with view.bus.subscribe():
            session = await runtime.create_session(directory=tmp_path)
        stored = await view.store.session(session.id)
        prompt = view.inputs
        with pytest.raises(AttributeError):
            view.store = view.store  # type: ignore[misc]
    assert stored == session
    assert prompt is inside(runtime).inputs
    assert not view.dispatcher.serves
