"""Delegation as a hostile model would use it: what is not its own, not allowed, or too much."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config
from asyncagents.domain.message import ModelRef
from asyncagents.domain.part import ToolCompleted
from asyncagents.domain.part_input import SubtaskInput
from asyncagents.llm.scripted import ScriptedModel, say
from tests.flows.delegating import sync
from tests.flows.kit import Stage, stage
from tests.flows.test_project import repository

DEAR = "scripted/dear"


def at_home(tmp_path: Path, model: ScriptedModel, **config: Any) -> Any:
    """A coding runtime on a project of its own."""
    repository(tmp_path / "project", {})
    coding = Config(data_dir=tmp_path / "data", **config)
    return stage(tmp_path / "data", model, coding=coding, directory=tmp_path / "project")


async def models_of_children(at: Stage) -> list[str]:
    return [child.model.id for child in await at.runtime.children(at.session_id) if child.model]


@pytest.mark.spec("D-03")
async def test_a_model_does_not_choose_the_model_of_its_task(tmp_path: Path) -> None:
    """It is not in the schema; some models send it all the same, as others' tools have it."""
    given = ({"model": DEAR}, {"model": "opus"})
    scenes = {"go": [[sync("A", "child a", **each) for each in given], [say("ok")]]}
    model = ScriptedModel(scenes, otherwise=[say("done")])
    async with at_home(tmp_path, model) as at:
        await at.prompt("go")
        states, chosen = await at.states(), await models_of_children(at)
        own = (await at.runtime.session(at.session_id)).model
    assert [type(state) for state in states] == [ToolCompleted, ToolCompleted]
    assert own is not None and chosen == [own.id, own.id]


@pytest.mark.spec("D-11")
async def test_a_person_chooses_the_model_of_a_subtask(tmp_path: Path) -> None:
    dear = ModelRef(provider_id="scripted", model_id="dear")
    part = SubtaskInput(prompt="child a", description="A", agent="general", model=dear)
    async with at_home(tmp_path, ScriptedModel({}, otherwise=[say("done")])) as at:
        await at.runtime.prompt(at.session_id, "", parts=[part])
        chosen = await models_of_children(at)
    assert chosen == ["dear"]
