"""Find agents in markdown files: the front matter is the configuration, the body is the prompt."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from asyncagents.config.config import AgentConfig
from asyncagents.config.env import Environment
from asyncagents.config.file.check import check_data
from asyncagents.config.file.legacy import modernise
from asyncagents.config.file.shape import AgentEntry
from asyncagents.config.markdown.front_matter import BAD_HEAD, Data, FrontMatter, parse_front_matter
from asyncagents.config.paths import config_folder, worktree_folders
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import ConfigLeaf, build_tree, plain_values
from asyncagents.config.trust import project_root
from asyncagents.config.untrusted_settings import TRUST_VARIABLE, UntrustedSettings
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ConfigError

MOST_FILES = 500
MAX_CHARACTERS = 256 * 1024
_MOST_LEVELS = 5
_NAME = re.compile(r"\w[\w.@/+-]{0,99}")
_KNOWN = {*AgentEntry.__struct_encode_fields__, "name"}
# Claude Code's tools that have another name here.
_TOOL_OF_CLAUDE = {
    "ls": "list",
    "notebookedit": "edit",
    "write": "edit",
    "multiedit": "edit",
    "agent": "task",
}

AliasLookup: TypeAlias = Callable[[str], ModelRef | None]
"""Resolves a short model name such as `sonnet`; None if it is unknown."""
DefinitionKind: TypeAlias = Literal["agent", "skill", "command"]


class DefinitionFolder(Struct, frozen=True, kw_only=True):
    """A folder that may hold definitions."""

    path: Path
    scope: Literal["project", "user"]
    claude: bool = False
    """Whether its files are for Claude Code, which has other keys and tool names."""


class BrokenFile(Struct, frozen=True):
    """A definition file that is invalid and left out."""

    path: Path
    reason: str


class AgentFile(Struct, frozen=True, kw_only=True):
    name: str
    config: AgentConfig
    origin: Path
    color: str | None = None


class FoundDefinitions(Struct, frozen=True, kw_only=True):
    """The result of a search for definitions: invalid files and warnings."""

    broken: tuple[BrokenFile, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """All invalid files and warnings, as texts for people."""
        return (*(f"{each.path} {each.reason}" for each in self.broken), *self.warnings)


class FoundAgents(FoundDefinitions, frozen=True, kw_only=True):
    agents: dict[str, AgentFile] = field(default_factory=dict)
    distrust: tuple[str, ...] = ()
    """Those of the warnings that are about files that are ignored because the project is not trusted."""
    untrusted: UntrustedSettings = UntrustedSettings()
    """Agent files of an untrusted project by agent name; the files are not read."""


def no_alias(name: str) -> ModelRef | None:
    """Resolve no short names."""
    return None


def find_agents(
    environment: Environment, directory: Path, *, trusted: bool, alias: AliasLookup = no_alias
) -> FoundAgents:
    """Find agents; of several with one name, the nearest. Files of an untrusted project are not read."""
    warnings: list[str] = []
    agents: dict[str, AgentFile] = {}
    broken: list[BrokenFile] = []
    searched, left_out = trusted_folders(definition_folders(environment, directory, "agent"), trusted=trusted)
    for folder in searched:
        for path in markdown_files(folder.path, warnings):
            try:
                agent, odd = _read_agent(path, folder, alias)
            except ConfigError as error:
                broken.append(BrokenFile(path, str(error)))
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
        untrusted=UntrustedSettings(
            str(root), {("agent", definition_name(*each)): str(each[1]) for each in files[::-1]}
        ),
    )


def definition_name(folder: DefinitionFolder, path: Path) -> str:
    """Name a definition by its path below its folder, without the suffix."""
    return path.relative_to(folder.path).with_suffix("").as_posix()


def definition_folders(
    environment: Environment, directory: Path, kind: DefinitionKind
) -> list[DefinitionFolder]:
    """List the folders for a kind, the strongest first: the project's from inside out, then the user's."""
    user = list(_user_folders(environment, kind))
    own = {folder.path for folder in user}
    project = [
        DefinitionFolder(path=folder / dotted / name, scope="project", claude=dotted == ".claude")
        for folder in reversed(worktree_folders(environment.folder(str(directory))))
        for dotted, name in _folder_names(kind)
    ]
    return [*(folder for folder in project if folder.path not in own), *user]


def trusted_folders(
    folders: list[DefinitionFolder], *, trusted: bool
) -> tuple[list[DefinitionFolder], list[DefinitionFolder]]:
    """Split folders into those to search and those left out because the project is not trusted."""
    searched = [folder for folder in folders if trusted or folder.scope == "user"]
    others = [folder for folder in folders if folder not in searched]
    return searched, [folder for folder in others if not _links_outside(folder.path)]


def _links_outside(path: Path) -> bool:
    """Return whether the folder links out of its project: an untrusted one could link to the whole disk."""
    real, around = os.path.realpath(path), os.path.realpath(path.parents[1])
    return os.path.commonpath([real, around]) != around


def distrust_warning(
    paths: list[Path], kind: DefinitionKind | Literal["plugin", "tool"], root: Path
) -> list[str]:
    """Return one warning for all ignored files, or none."""
    if not paths:
        return []
    count = f"1 {kind} file" if len(paths) == 1 else f"{len(paths)} {kind} files"
    return [
        f"{root}: this project is not trusted, so asyncagents ignores {count} in it; if you know who wrote "
        f"them, run `asyncagents trust {shlex.quote(str(root))}` or set {TRUST_VARIABLE}=1"
    ]


def markdown_files(folder: Path, warnings: list[str], *, only: str | None = None) -> list[Path]:
    """List the markdown files below a folder, sorted, or those named `only`; links to folders are skipped."""
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


def _folder_names(kind: DefinitionKind) -> list[tuple[str, str]]:
    return [
        (".asyncagents", f"{kind}s"),
        (".agents", f"{kind}s"),
        (".opencode", kind),
        (".opencode", f"{kind}s"),
        (".claude", f"{kind}s"),
    ]


def _user_folders(environment: Environment, kind: DefinitionKind) -> Iterator[DefinitionFolder]:
    ours, opencode = config_folder(environment, "asyncagents"), config_folder(environment, "opencode")
    for path in (ours / f"{kind}s", opencode / kind, opencode / f"{kind}s"):
        yield DefinitionFolder(path=path, scope="user")
    for dotted, name in _folder_names(kind):
        yield DefinitionFolder(
            path=environment.home / dotted / name, scope="user", claude=dotted == ".claude"
        )


def definition_text(path: Path) -> str:
    text = read_text(path)
    if text is None:
        raise ConfigError("is gone: a link that leads nowhere, or a file that was just removed")
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"is longer than {MAX_CHARACTERS:,} characters: shorten it")
    return text


def read_matter(path: Path) -> FrontMatter:
    """Read a file that must have front matter."""
    matter = parse_front_matter(definition_text(path))
    if matter is None:
        raise ConfigError("has no head: begin it with --- and a description, or move it elsewhere")
    return matter


def _read_agent(path: Path, folder: DefinitionFolder, alias: AliasLookup) -> tuple[AgentFile, list[str]]:
    matter = read_matter(path)
    name = matter.data.get("name", definition_name(folder, path))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError("has a name that cannot be typed: use letters, digits, - and _")
    data = {key: value for key, value in matter.data.items() if key != "name"}
    warnings: list[str] = []
    if folder.claude:
        data, warnings = _convert_claude_agent(data, alias)
    warnings += [
        f"the key {key} is unknown and is handed to the model as an option: remove it or correct its name"
        for key in data
        if key not in _KNOWN
    ]
    color = data.get("color")
    agent = AgentFile(
        name=name,
        config=_build_config(name, data, matter.body),
        origin=path,
        color=color if isinstance(color, str) else None,
    )
    return agent, [f"{path}: {warning}" for warning in warnings]


def _build_config(name: str, data: Data, body: str) -> AgentConfig:
    """Check and modernise the front matter as an entry under `agent` of a configuration file."""
    checked, _ = check_data(
        {"agent": {name: data}}, BAD_HEAD, family="asyncagents", secret=lambda path: path[-1] not in _KNOWN
    )
    tree = modernise(build_tree(checked, lambda _, value: ConfigLeaf(value, BAD_HEAD)), BAD_HEAD)
    raw: dict[str, Any] = plain_values(tree["agent"])[name]
    raw["model"] = parse_model(raw.get("model"))
    if body:
        raw["prompt"] = body
    return msgspec.convert(raw, AgentConfig)


def parse_model(text: str | None) -> ModelRef | None:
    if not text:
        return None
    provider_id, _, model_id = text.partition("/")
    if not (provider_id and model_id):
        raise ConfigError(f"names the model {text!r}: write it as provider/model")
    return ModelRef(provider_id=provider_id, model_id=model_id)


def resolve_alias(data: Data, alias: AliasLookup) -> tuple[Data, list[str]]:
    """Replace the short name of a model by its full name; drop an unknown one, with a warning.

    `inherit` means the session's own model, as does no model.
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


def _convert_claude_agent(data: Data, alias: AliasLookup) -> tuple[Data, list[str]]:
    """Convert the keys of a Claude Code agent: a list of allowed tools, short model names."""
    rest, warnings = resolve_alias(dict(data), alias)
    allowed, denied = rest.pop("tools", None), rest.pop("disallowedTools", None)
    permission: Data = {}
    if allowed is not None and not isinstance(allowed, dict):
        permission = {"*": "deny", **dict.fromkeys(_tool_names(allowed, warnings), "allow")}
    elif allowed is not None:
        rest["tools"] = allowed
    permission |= dict.fromkeys(_tool_names(denied, []), "deny")
    if permission:
        own = rest.get("permission")
        rest["permission"] = permission | (own if isinstance(own, dict) else {})
    rest.setdefault("mode", "subagent")
    return rest, warnings


def _tool_names(listed: Any, warnings: list[str]) -> Iterable[str]:
    names = listed.split(",") if isinstance(listed, str) else listed if isinstance(listed, list) else []
    for name in (str(each).strip() for each in names):
        if "(" in name:
            warnings.append(f"the tool {name!r} is left out: write a rule for it under permission")
        elif name:
            # The name of an MCP server's tool stays as it is.
            yield name if "__" in name else _TOOL_OF_CLAUDE.get(name.lower(), name.lower())
