"""Build the `Config` from the merged tree, and check what only the merged values show."""

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from asyncagents.config.config import (
    NUDGES,
    AgentConfig,
    AsyncToolsConfig,
    CommandConfig,
    Config,
    McpConfig,
    ModelConfig,
    ModelDeadlines,
    ProviderConfig,
    SandboxConfig,
)
from asyncagents.config.file.builtin_providers import builtin_providers, suggest_model
from asyncagents.config.file.check import suggestion
from asyncagents.config.secret import Secret
from asyncagents.config.tree import (
    DEFAULT,
    Branch,
    ConfigLeaf,
    KeyPath,
    dotted_path,
    origin_of,
    plain_values,
    subtree_at,
)
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ConfigError

# Unknown providers are allowed; only a name very similar to a known one gets a hint.
_TYPO = 0.8
_VARIABLE = re.compile(r"[A-Za-z0-9_*?.()-]+")


def build_config(tree: Branch, *, data_dir: Path, variables: tuple[str, ...]) -> tuple[Config, list[str]]:
    """Return the configuration and the warnings; raises `ConfigError` for an invalid value."""
    reader = _Builder(tree)
    return reader.build(data_dir, variables), reader.warnings


def is_valid_key(text: str) -> bool:
    """Return whether a header can carry the key."""
    return all("!" <= character <= "~" for character in text)


class _Builder:
    def __init__(self, tree: Branch) -> None:
        self._tree = tree
        self._raw: dict[str, Any] = plain_values(tree)
        self.warnings: list[str] = []

    def build(self, data_dir: Path, variables: tuple[str, ...]) -> Config:
        """Convert the keys whose types agree as they are, and the others by a function of their own."""
        raw = self._raw
        plugins = raw.get("plugin", [])
        converted = {
            "data_dir": data_dir,
            "model": self._model(("model",)),
            "small_model": self._model(("small_model",)),
            "default_agent": raw.get("default_agent") or None,
            "provider": {name: self._provider(name, entry) for name, entry in raw["provider"].items()},
            "agent": {name: self._agent(name, entry) for name, entry in raw.get("agent", {}).items()},
            "sandbox": _sandbox(raw.get("sandbox", False)),
            "command": {name: self._command(name, entry) for name, entry in raw.get("command", {}).items()},
            "plugin": [plugin[0] if isinstance(plugin, list) else plugin for plugin in plugins],
            "plugin_options": {plugin[0]: plugin[1] for plugin in plugins if isinstance(plugin, list)},
            "mcp": self._mcp_servers(),
            "async_tools": self._async_tools(raw.get("async_tools", {})),
            "todo_enforcer": _nudges(raw.get("todo_enforcer", True)),
            "variables": variables,
        }
        self._check_variable_names()
        return msgspec.convert(raw | converted, Config)

    def _check_variable_names(self) -> None:
        for name in self._raw.get("pass_environment", ()):
            if not _VARIABLE.fullmatch(name):
                got = json.dumps(name[:80])
                hint = "which names no variable: write names, or patterns with * and ?"
                self._refuse(("pass_environment",), f"has {got}, {hint}")

    def _async_tools(self, raw: dict[str, Any]) -> AsyncToolsConfig:
        self._check_url(("async_tools", "url"), raw.get("url"))
        secrets = tuple(Secret(each.strip()) for each in raw.get("secrets", ()) if each.strip())
        url = raw.get("url", "").rstrip("/") or None
        return msgspec.convert(raw | {"secrets": secrets, "url": url}, AsyncToolsConfig)

    def _provider(self, id: str, raw: dict[str, Any]) -> ProviderConfig:
        options = dict(raw.get("options", {}))
        base_url, key = options.pop("baseURL", None), options.pop("apiKey", "")
        deadlines = _deadlines(options)
        self._check_url(("provider", id, "options", "baseURL"), base_url)
        self._hint_provider(id, raw, base_url)
        converted = {
            "base_url": base_url or None,
            "api_key": self._api_key(("provider", id, "options", "apiKey"), key),
            "key_required": self._key_required(id, raw),
            "headers": options.pop("headers", {}),
            "deadlines": deadlines,
            "options": options,
            "models": {name: _model(model) for name, model in raw.get("models", {}).items()},
        }
        return msgspec.convert(raw | converted, ProviderConfig)

    def _api_key(self, path: KeyPath, text: str) -> Secret | None:
        """Strip whitespace around a key, such as a line end; refuse characters that a header cannot carry."""
        key = text.strip()
        if not is_valid_key(key):
            self._refuse(path, "holds an invalid character: copy the key again")
        return Secret(key) if key else None

    def _key_required(self, id: str, raw: dict[str, Any]) -> bool:
        """Return whether requests need a key; a server behind a configured URL may need none."""
        known = builtin_providers().get(id)
        own_url = origin_of(self._tree, ("provider", id, "options", "baseURL")) != DEFAULT
        return bool(raw.get("env")) and (known is None or not (known.local or own_url))

    def _hint_provider(self, id: str, raw: dict[str, Any], url: str | None) -> None:
        meant = suggestion(id, builtin_providers(), cutoff=_TYPO)
        if meant and not url and "npm" not in raw and id not in builtin_providers():
            self._warn(("provider", id), f"has no options.baseURL: did you mean {json.dumps(meant)}?")

    def _agent(self, name: str, raw: dict[str, Any]) -> AgentConfig:
        model = self._model(("agent", name, "model"))
        try:
            return msgspec.convert(raw | {"model": model}, AgentConfig)
        except ConfigError as error:
            self._refuse(("agent", name), str(error))

    def _command(self, name: str, raw: dict[str, Any]) -> CommandConfig:
        if "template" not in raw:
            self._refuse(("command", name), "has no template: write the prompt it stands for")
        return msgspec.convert(raw | {"model": self._model(("command", name, "model"))}, CommandConfig)

    def _mcp_servers(self) -> dict[str, McpConfig]:
        servers = {name: self._mcp(name, raw) for name, raw in self._raw.get("mcp", {}).items()}
        return {name: server for name, server in servers.items() if server is not None}

    def _mcp(self, name: str, raw: dict[str, Any]) -> McpConfig | None:
        """Build a server; None for an entry that only enables or disables an undefined one."""
        path = ("mcp", name)
        needed = {"local": "command", "remote": "url"}.get(raw.get("type", ""))
        if needed is None and raw.keys() <= {"enabled"}:
            self._warn(path, "is defined nowhere: write its type")
            return None
        if needed is None:
            self._refuse(path, 'has no type: write "local" with a command or "remote" with a url')
        if not raw.get(needed):
            self._refuse(path, f"has no {needed}: a {raw['type']} server needs one")
        self._check_url((*path, "url"), raw.get("url"))
        return msgspec.convert(raw | {"timeout_seconds": _seconds(raw.get("timeout"))}, McpConfig)

    def _model(self, path: KeyPath) -> ModelRef | None:
        leaf = subtree_at(self._tree, path)
        if not isinstance(leaf, ConfigLeaf) or not leaf.value:
            return None
        provider_id, _, model_id = leaf.value.partition("/")
        if not (provider_id and model_id):
            meant = self._suggest_model(leaf.value)
            hint = (
                f": did you mean {json.dumps(meant)}?" if meant else ', as in "anthropic/claude-sonnet-4-5"'
            )
            self._refuse(path, f"must be written as provider/model{hint}")
        self._hint_model(path, provider_id)
        return ModelRef(provider_id=provider_id, model_id=model_id)

    def _suggest_model(self, text: str) -> str | None:
        """Return the full model name, if a provider is known to have the model."""
        configured = {name: raw.get("models", {}) for name, raw in self._raw["provider"].items()}
        return suggest_model(text, configured)

    def _hint_model(self, path: KeyPath, provider_id: str) -> None:
        meant = suggestion(provider_id, self._raw["provider"], cutoff=_TYPO)
        if meant and provider_id not in self._raw["provider"]:
            got = json.dumps(provider_id, ensure_ascii=False)
            self._warn(path, f"names the unknown provider {got}: did you mean {json.dumps(meant)}?")

    def _check_url(self, path: KeyPath, url: str | None) -> None:
        if url and not url.startswith(("http://", "https://")):
            self._refuse(path, "must begin with http:// or https://")

    def _warn(self, path: KeyPath, what: str) -> None:
        self.warnings.append(f"{origin_of(self._tree, path)}: {dotted_path(path)} {what}")

    def _refuse(self, path: KeyPath, why: str) -> NoReturn:
        raise ConfigError(f"{origin_of(self._tree, path)}: {dotted_path(path)} {why}")


def _model(raw: dict[str, Any]) -> ModelConfig:
    options = dict(raw.get("options", {}))
    deadlines = _deadlines(options)
    return msgspec.convert(raw | {"options": options, "deadlines": deadlines}, ModelConfig)


def _deadlines(options: dict[str, Any]) -> ModelDeadlines:
    """Remove the timeouts from `options`, since they are not request fields, and return them."""
    timeout, chunk_timeout = options.pop("timeout", None), options.pop("chunkTimeout", None)
    idle = timeout if chunk_timeout is None else chunk_timeout
    return ModelDeadlines(first_seconds=_seconds(timeout), idle_seconds=_seconds(idle))


def _seconds(milliseconds: int | bool | None) -> float | None:
    """Convert to seconds; false becomes 0, which disables the timeout."""
    if milliseconds is None or milliseconds is True:
        return None
    return milliseconds / 1000


def _sandbox(written: bool | dict[str, Any]) -> SandboxConfig | None:
    """Convert true to a sandbox with defaults, and false to None."""
    if isinstance(written, bool):
        return SandboxConfig() if written else None
    return msgspec.convert(written, SandboxConfig)


def _nudges(written: bool | int) -> int:
    """Convert true to the default number, and false to 0."""
    if isinstance(written, bool):
        return NUDGES if written else 0
    return written
