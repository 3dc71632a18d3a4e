"""`skill`: its text, its folder and its files, for a name that is known."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.markdown.skills import Skill
from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.skill import SkillArgs, skill

CONTEXT = ToolContext(
    session_id=SessionId("ses_1"),
    message_id=MessageId("msg_1"),
    call_id=CallId("tool_1"),
    agent="build",
    directory="/",
)


def _skill(folder: Path, name: str = "deploy") -> Skill:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\nFirst run scripts/go.sh.\n")
    return Skill(name=name, description=f"How to {name}.", path=path)


async def _run(tool: Tool[SkillArgs], name: str, context: ToolContext = CONTEXT) -> Completed:
    args = msgspec.convert({"name": name}, tool.args)
    assert tool.plan is not None
    (ask,) = await tool.plan(args, context)
    assert ask.permission == "skill"
    assert ask.patterns == (name,)
    assert ask.always == (name,)
    encode_body(ask)
    done = await tool.run(args, context)
    assert isinstance(done, Completed)
    return done


@pytest.mark.spec("A-05")
async def test_the_result_shows_the_text_the_folder_and_the_files_of_a_skill(tmp_path: Path) -> None:
    known = _skill(tmp_path)
    for name in ("scripts/go.sh", "REFERENCE.md"):
        (known.path.parent / name).parent.mkdir(exist_ok=True)
        (known.path.parent / name).touch()
    (known.path.parent / "elsewhere").symlink_to("/etc")
    done = await _run(skill([known]), "deploy")
    assert done.title == "deploy"
    assert done.output.splitlines() == [
        "# Skill deploy",
        "",
        "First run scripts/go.sh.",
        "",
        f"Paths in it are relative to {known.path.parent}.",
        "Beside it lie these files, which you can read:",
        "- REFERENCE.md",
        "- scripts/go.sh",
    ]


def test_the_model_reads_which_skills_there_are(tmp_path: Path) -> None:
    told = skill([_skill(tmp_path, "deploy"), _skill(tmp_path, "clean")]).spec().description
    assert told.splitlines()[-2:] == ["- clean: How to clean.", "- deploy: How to deploy."]


async def test_an_unknown_name_is_answered_with_those_there_are(tmp_path: Path) -> None:
    tool = skill([_skill(tmp_path, "deploy"), _skill(tmp_path, "clean")])
    with pytest.raises(ToolError, match=r"no skill 'depoly'; the skills are: clean, deploy\."):
        await _run(tool, "depoly")
    with pytest.raises(ToolError, match=r"the skills are: none\."):
        await _run(skill([]), "deploy")


@pytest.mark.parametrize("now", [None, "no head", b"---\ndescription: \xff\n---\n"])
async def test_a_skill_that_has_gone_or_broke_since_is_an_error_to_act_on(
    tmp_path: Path, now: str | bytes | None
) -> None:
    known = _skill(tmp_path)
    if now is None:
        known.path.unlink()
    else:
        known.path.write_bytes(now.encode() if isinstance(now, str) else now)
    with pytest.raises(ToolError, match="the skill deploy cannot be read"):
        await _run(skill([known]), "deploy")


async def test_of_many_files_the_first_are_named(tmp_path: Path) -> None:
    known = _skill(tmp_path)
    for number in range(150):
        (known.path.parent / f"f{number:03}").touch()
    done = await _run(skill([known]), "deploy")
    assert "- f099" in done.output
    assert "- f100" not in done.output
    assert done.output.endswith("(More than 100 files; the others are not named here.)")


@given(st.text() | st.just("\ud800"))
def test_any_unknown_skill_name_is_a_tool_error(name: str) -> None:
    with pytest.raises(ToolError) as told:
        asyncio.run(_run(skill([]), name))
    str(told.value).encode()
