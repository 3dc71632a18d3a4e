"""`skill`: load the text of a skill, with the paths of its files."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.config.markdown.skills import Skill, read_skill
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.thread_pool import Threads

MOST_FILES = 100
_MOST_NAME = 200


class SkillArgs(Struct, frozen=True):
    name: Annotated[str, Meta(description="The name of the skill.")]


def skill(skills: Sequence[Skill], threads: Threads | None = None) -> Tool[SkillArgs]:
    reading = threads or Threads()
    known = {each.name: each for each in sorted(skills, key=lambda each: each.name)}

    async def plan(args: SkillArgs, context: ToolContext) -> tuple[Ask, ...]:
        found = _find_skill(known, args.name)
        metadata = {"name": found.name, "folder": replace_surrogates(str(found.path.parent))}
        return (Ask("skill", (found.name,), always=(found.name,), metadata=metadata, exact=True),)

    async def run(args: SkillArgs, context: ToolContext) -> Completed:
        return await reading.run(_build_result, _find_skill(known, args.name))

    return Tool("skill", SkillArgs, run, plan=plan, effect="none", description=_build_description(known))


def _build_description(known: dict[str, Skill]) -> str:
    lines = [f"- {each.name}: {each.description}" for each in known.values()]
    return "\n".join([load_description("skill"), "", "The skills:", *(lines or ["(none)"])])


def _find_skill(known: dict[str, Skill], name: str) -> Skill:
    found = known.get(name)
    if found is None:
        names = ", ".join(known) or "none"
        raise ToolError(
            replace_surrogates(f"There is no skill {name[:_MOST_NAME]!r}; the skills are: {names}.")
        )
    return found


def _build_result(skill: Skill) -> Completed:
    text = read_skill(skill).strip()
    folder = skill.path.parent
    names = list(islice(_files(str(folder), skill.path.name), MOST_FILES + 1))
    lines = [f"# Skill {skill.name}", "", text, "", f"Paths in it are relative to {folder}."]
    if names:
        lines += [
            "Beside it lie these files, which you can read:",
            *(f"- {each}" for each in names[:MOST_FILES]),
        ]
    if len(names) > MOST_FILES:
        lines.append(f"(More than {MOST_FILES} files; the others are not named here.)")
    metadata = {"name": skill.name, "folder": replace_surrogates(str(folder))}
    return Completed(replace_surrogates("\n".join(lines)), title=skill.name, metadata=metadata)


def _files(folder: str, own: str) -> Iterator[str]:
    """Yield the files of a skill but its own file, sorted, folder by folder; links are not entered."""
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(here, name), folder)
            if path != own:
                yield path
