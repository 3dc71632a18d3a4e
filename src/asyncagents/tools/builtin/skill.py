"""`skill`: load the text of a skill, with the paths of its files."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.config.markdown.skills import Skill, read_skill
from asyncagents.domain.call.call import Completed
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import described
from asyncagents.tools.file.thread_pool import Threads

MOST_FILES = 100
_SHOWN = 200


class UseSkill(Struct, frozen=True):
    name: Annotated[str, Meta(description="The name of the skill.")]


def skill(skills: Sequence[Skill], threads: Threads | None = None) -> Tool[UseSkill]:
    reading = threads or Threads()
    known = {each.name: each for each in sorted(skills, key=lambda each: each.name)}

    async def plan(args: UseSkill, context: ToolContext) -> tuple[Ask, ...]:
        found = _found(known, args.name)
        metadata = {"name": found.name, "folder": whole(str(found.path.parent))}
        return (Ask("skill", (found.name,), always=(found.name,), metadata=metadata, exact=True),)

    async def run(args: UseSkill, context: ToolContext) -> Completed:
        return await reading.run(_told, _found(known, args.name))

    return Tool("skill", UseSkill, run, plan=plan, effect="none", description=_described(known))


def _described(known: dict[str, Skill]) -> str:
    lines = [f"- {each.name}: {each.description}" for each in known.values()]
    return "\n".join([described("skill"), "", "The skills:", *(lines or ["(none)"])])


def _found(known: dict[str, Skill], name: str) -> Skill:
    found = known.get(name)
    if found is None:
        names = ", ".join(known) or "none"
        raise ToolError(whole(f"There is no skill {name[:_SHOWN]!r}; the skills are: {names}."))
    return found


def _told(skill: Skill) -> Completed:
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
    metadata = {"name": skill.name, "folder": whole(str(folder))}
    return Completed(whole("\n".join(lines)), title=skill.name, metadata=metadata)


def _files(folder: str, own: str) -> Iterator[str]:
    """Yield the files of a skill but its own file, sorted, folder by folder; links are not entered."""
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(here, name), folder)
            if path != own:
                yield path
