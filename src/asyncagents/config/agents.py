"""Finds agents that are written as markdown files: the head says what they are, the rest is their prompt."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from asyncagents.config.check import check
from asyncagents.config.config import AgentConfig
from asyncagents.config.env import Environment
from asyncagents.config.front_matter import BAD_HEAD, Data, Matter, parse
from asyncagents.config.legacy import modernise
from asyncagents.config.place import config_folder, folders_up
from asyncagents.config.shape import AgentEntry
from asyncagents.config.text import read_text
from asyncagents.config.tree import Leaf, grow, plain
from asyncagents.config.trust import project_root
from asyncagents.config.untrusted import TRUST_VARIABLE, Untrusted
from asyncagents.domain.message import ModelRef
from asyncagents.errors import ConfigError

MOST_FILES = 500
MAX_CHARACTERS = 256 * 1024
_MOST_LEVELS = 5
_NAME = re.compile(r"\w[\w.@/+-]{0,99}")
_KNOWN = {*AgentEntry.__struct_encode_fields__, "name"}
# Of Claude Code's tools, those that are called otherwise here.
_TOOL_OF_CLAUDE = {
    "ls": "list",
    "notebookedit": "edit",
    "write": "edit",
    "multiedit": "edit",
    "agent": "task",
}

Alias: TypeAlias = Callable[[str], ModelRef | None]
"""Finds the model that a short name such as `sonnet` stands for."""
Kind: TypeAlias = Literal["agent", "skill", "command"]


class Folder(Struct, frozen=True, kw_only=True):
    """One that may hold definitions."""

    path: Path
    scope: Literal["project", "user"]
    claude: bool = False
    """Written for Claude Code, whose words differ."""


class Broken(Struct, frozen=True):
    """A file that cannot be used; the others can."""

    path: Path
    reason: str


class AgentFile(Struct, frozen=True, kw_only=True):
    name: str
    config: AgentConfig
    origin: Path
    color: str | None = None


class Found(Struct, frozen=True, kw_only=True):
    """What is odd about the files that were looked at."""

    broken: tuple[Broken, ...] = ()
    warnings: tuple[str, ...] = ()
    distrust: tuple[str, ...] = ()
    """Those of the warnings that say what counts for nothing for want of trust."""

    @property
    def told(self) -> tuple[str, ...]:
        """What a person should hear of."""
        return (*(f"{each.path} {each.reason}" for each in self.broken), *self.warnings)


class FoundAgents(Found, frozen=True, kw_only=True):
    agents: dict[str, AgentFile] = field(default_factory=dict)
    untrusted: Untrusted = Untrusted()
    """Files of a project that is not trusted, by the name that the agent would have; none was read."""


def no_alias(name: str) -> ModelRef | None:
    """Know no short names of models."""
    return None


def find_agents(
    environment: Environment, directory: Path, *, trusted: bool, alias: Alias = no_alias
) -> FoundAgents:
    """Find the nearest of each name. Those of a project that is not trusted are not even read."""
    warnings: list[str] = []
    agents: dict[str, AgentFile] = {}
    broken: list[Broken] = []
    searched, left_out = trusted_folders(definition_folders(environment, directory, "agent"), trusted=trusted)
    for folder in searched:
        for path in markdown_files(folder.path, warnings):
            try:
                agent, odd = _read(path, folder, alias)
            except ConfigError as error:
                broken.append(Broken(path, str(error)))
                continue
            if agents.setdefault(agent.name, agent) is agent:
                warnings += odd
    files = [(folder, path) for folder in left_out for path in markdown_files(folder.path, [])]
    root = project_root(environment, directory)
    distrust = distrust_warning([path for _, path in files], "agent", root)
    return FoundAgents(
        agents=agents,
        broken=tuple(broken),
        warnings=(*warnings, *distrust),
        distrust=tuple(distrust),
        untrusted=Untrusted(str(root), {("agent", file_name(*each)): str(each[1]) for each in files[::-1]}),
    )


def file_name(folder: Folder, path: Path) -> str:
    """Name a definition by its path below its folder, without the suffix."""
    return path.relative_to(folder.path).with_suffix("").as_posix()


def definition_folders(environment: Environment, directory: Path, kind: Kind) -> list[Folder]:
    """Every folder for agents or skills, the strongest first: the project's from inside out, the user's."""
    user = list(_user_folders(environment, kind))
    own = {folder.path for folder in user}
    project = [
        Folder(path=folder / dotted / name, scope="project", claude=dotted == ".claude")
        for folder in reversed(folders_up(environment.folder(str(directory))))
        for dotted, name in _names(kind)
    ]
    return [*(folder for folder in project if folder.path not in own), *user]


def trusted_folders(folders: list[Folder], *, trusted: bool) -> tuple[list[Folder], list[Folder]]:
    """Those that count, and those that take the user's trust first."""
    searched = [folder for folder in folders if trusted or folder.scope == "user"]
    others = [folder for folder in folders if folder not in searched]
    return searched, [folder for folder in others if not _leads_away(folder.path)]


def _leads_away(path: Path) -> bool:
    """Whether it is a link out of where it lies: a stranger's could have us walk the whole disk."""
    real, around = os.path.realpath(path), os.path.realpath(path.parents[1])
    return os.path.commonpath([real, around]) != around


def distrust_warning(paths: list[Path], kind: Kind | Literal["plugin", "tool"], root: Path) -> list[str]:
    """One for all, or none."""
    if not paths:
        return []
    count = f"1 {kind} file" if len(paths) == 1 else f"{len(paths)} {kind} files"
    return [
        f"{root}: this project is not trusted, so {count} in it count for nothing; if you know who wrote "
        f"them, run `asyncagents trust {shlex.quote(str(root))}` or set {TRUST_VARIABLE}=1"
    ]


def markdown_files(folder: Path, warnings: list[str], *, only: str | None = None) -> list[Path]:
    """Below a folder, by name, or those with the one name; links to folders are not followed."""
    found = list(islice(_walk(folder, only), MOST_FILES + 1))
    if len(found) > MOST_FILES:
        warnings.append(f"{folder} has more than {MOST_FILES} files: those after {found[-2]} are left out")
    return found[:MOST_FILES]


def _walk(folder: Path, only: str | None) -> Iterator[Path]:
    for place, inner, files in os.walk(folder):
        inner.sort()
        if len(Path(place).relative_to(folder).parts) >= _MOST_LEVELS:
            inner.clear()
        for name in sorted(files):
            if name == only or (only is None and name.endswith(".md")):
                yield Path(place) / name


def _names(kind: Kind) -> list[tuple[str, str]]:
    return [
        (".asyncagents", f"{kind}s"),
        (".agents", f"{kind}s"),
        (".opencode", kind),
        (".opencode", f"{kind}s"),
        (".claude", f"{kind}s"),
    ]


def _user_folders(environment: Environment, kind: Kind) -> Iterator[Folder]:
    ours, opencode = config_folder(environment, "asyncagents"), config_folder(environment, "opencode")
    for path in (ours / f"{kind}s", opencode / kind, opencode / f"{kind}s"):
        yield Folder(path=path, scope="user")
    for dotted, name in _names(kind):
        yield Folder(path=environment.home / dotted / name, scope="user", claude=dotted == ".claude")


def definition_text(path: Path) -> str:
    text = read_text(path)
    if text is None:
        raise ConfigError("is gone: a link that leads nowhere, or a file that was just removed")
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"is longer than {MAX_CHARACTERS:,} characters: shorten it")
    return text


def read_matter(path: Path) -> Matter:
    """The head and the body of a file that must have a head."""
    matter = parse(definition_text(path))
    if matter is None:
        raise ConfigError("has no head: begin it with --- and a description, or move it elsewhere")
    return matter


def _read(path: Path, folder: Folder, alias: Alias) -> tuple[AgentFile, list[str]]:
    matter = read_matter(path)
    name = matter.data.get("name", file_name(folder, path))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("has a name that cannot be typed: use letters, digits, - and _")
    data = {key: value for key, value in matter.data.items() if key != "name"}
    warnings: list[str] = []
    if folder.claude:
        data, warnings = _from_claude(data, alias)
    warnings += [
        f"the key {key} is unknown and is handed to the model as an option: remove it or correct its name"
        for key in data
        if key not in _KNOWN
    ]
    color = data.get("color")
    agent = AgentFile(
        name=name,
        config=_config(name, data, matter.body),
        origin=path,
        color=color if isinstance(color, str) else None,
    )
    return agent, [f"{path}: {warning}" for warning in warnings]


def _config(name: str, data: Data, body: str) -> AgentConfig:
    """Checked and modernised as the same would be under `agent` in a file of configuration."""
    checked, _ = check(
        {"agent": {name: data}}, BAD_HEAD, family="asyncagents", secret=lambda path: path[-1] not in _KNOWN
    )
    tree = modernise(grow(checked, lambda _, value: Leaf(value, BAD_HEAD)), BAD_HEAD)
    raw: dict[str, Any] = plain(tree["agent"])[name]
    raw["model"] = named_model(raw.get("model"))
    if body:
        raw["prompt"] = body
    return msgspec.convert(raw, AgentConfig)


def named_model(text: str | None) -> ModelRef | None:
    if not text:
        return None
    provider_id, _, model_id = text.partition("/")
    if not (provider_id and model_id):
        raise ConfigError(f"names the model {text!r}: write it as provider/model")
    return ModelRef(provider_id=provider_id, model_id=model_id)


def without_alias(data: Data, alias: Alias) -> tuple[Data, list[str]]:
    """Write the short name of a model out; one that is unknown is left out, with a warning.

    `inherit` is the session's own model, as no model is.
    """
    model = data.get("model")
    if not isinstance(model, str) or "/" in model:
        return data, []
    rest = {key: value for key, value in data.items() if key != "model"}
    meant = alias(model)
    if meant is not None:
        return {**rest, "model": f"{meant.provider_id}/{meant.model_id}"}, []
    unknown = f"the model {model!r} names no provider: the session's own model is used"
    return rest, [] if model == "inherit" else [unknown]


def _from_claude(data: Data, alias: Alias) -> tuple[Data, list[str]]:
    """Its tools are a list of what is allowed, and its models have short names."""
    rest, warnings = without_alias(dict(data), alias)
    allowed, denied = rest.pop("tools", None), rest.pop("disallowedTools", None)
    permission: Data = {}
    if allowed is not None and not isinstance(allowed, dict):
        permission = {"*": "deny", **dict.fromkeys(_tools(allowed, warnings), "allow")}
    elif allowed is not None:
        rest["tools"] = allowed
    permission |= dict.fromkeys(_tools(denied, []), "deny")
    if permission:
        own = rest.get("permission")
        rest["permission"] = permission | (own if isinstance(own, dict) else {})
    rest.setdefault("mode", "subagent")
    return rest, warnings


def _tools(listed: Any, warnings: list[str]) -> Iterable[str]:
    names = listed.split(",") if isinstance(listed, str) else listed if isinstance(listed, list) else []
    for name in (str(each).strip() for each in names):
        if "(" in name:
            warnings.append(f"the tool {name!r} is left out: write a rule for it under permission")
        elif name:
            # A server's tool is called as the server says.
            yield name if "__" in name else _TOOL_OF_CLAUDE.get(name.lower(), name.lower())
