"""Find skills: folders with a `SKILL.md`, whose front matter says when to use it."""

import re
from pathlib import Path

from msgspec import Struct, field

from asyncagents.config.env import Environment
from asyncagents.config.markdown.agents import (
    BrokenFile,
    FoundDefinitions,
    definition_folders,
    distrust_warning,
    markdown_files,
    read_matter,
    trusted_folders,
)
from asyncagents.config.trust import project_root
from asyncagents.errors import ConfigError, ToolError

FILE = "SKILL.md"
MAX_DESCRIPTION = 1024
_NAME = re.compile(r"\w[\w.-]{0,63}")


class Skill(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    path: Path
    """Its `SKILL.md`; the files that it refers to lie beside it."""


class FoundSkills(FoundDefinitions, frozen=True, kw_only=True):
    skills: dict[str, Skill] = field(default_factory=dict)


def find_skills(environment: Environment, directory: Path, *, trusted: bool) -> FoundSkills:
    """Find skills; of several with one name, the nearest. Files of an untrusted project are not read."""
    warnings: list[str] = []
    skills: dict[str, Skill] = {}
    broken: list[BrokenFile] = []
    searched, left_out = trusted_folders(definition_folders(environment, directory, "skill"), trusted=trusted)
    for folder in searched:
        for path in markdown_files(folder.path, warnings, only=FILE):
            try:
                skill = _read_skill_head(path)
            except ConfigError as error:
                broken.append(BrokenFile(path, str(error)))
                continue
            skills.setdefault(skill.name, skill)
    strange = [path for folder in left_out for path in markdown_files(folder.path, [], only=FILE)]
    warnings += distrust_warning(strange, "skill", project_root(environment, directory))
    return FoundSkills(skills=skills, broken=tuple(broken), warnings=tuple(warnings))


def read_skill(skill: Skill) -> str:
    """Read the body of a skill; raises `ToolError` if the file is gone or invalid by now."""
    try:
        return read_matter(skill.path).body
    except ConfigError as error:
        raise ToolError(f"the skill {skill.name} cannot be read: {error}") from error


def _read_skill_head(path: Path) -> Skill:
    data = read_matter(path).data
    name, description = data.get("name", path.parent.name), data.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("has a name that cannot be typed: use letters, digits and -")
    if not isinstance(description, str) or not description.strip():
        raise ConfigError("has no description: write in its head when to use it")
    return Skill(name=name, description=" ".join(description.split())[:MAX_DESCRIPTION], path=path)
