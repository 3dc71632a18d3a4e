"""What a directory offers: its agents, slash commands and usable models."""

from typing import Any

from msgspec import Struct

from asyncagents.client.json_client import JsonClient


class AgentSummary(Struct, frozen=True, kw_only=True):
    """An agent of a directory, as far as people choose by it."""

    name: str
    mode: str = "all"
    description: str | None = None
    hidden: bool = False

    @property
    def speaks_to_people(self) -> bool:
        return self.mode != "subagent" and not self.hidden


class CommandSummary(Struct, frozen=True, kw_only=True):
    """A slash command of a directory; `hints` name its arguments."""

    name: str
    description: str | None = None
    hints: tuple[str, ...] = ()


class _Limit(Struct, frozen=True):
    context: int = 0


class ModelSummary(Struct, frozen=True, kw_only=True):
    """A usable model; `variants` are its levels of effort."""

    name: str = ""
    limit: _Limit = _Limit()
    variants: dict[str, Any] = {}

    @property
    def window(self) -> int:
        """Tokens that the model can read and write in one request; 0: unknown."""
        return self.limit.context


class _Provider(Struct, frozen=True, kw_only=True):
    id: str
    models: dict[str, ModelSummary] = {}


class _Providers(Struct, frozen=True, kw_only=True):
    providers: tuple[_Provider, ...] = ()


class _Config(Struct, frozen=True, kw_only=True):
    model: str | None = None


class ProviderCatalog(Struct, frozen=True, kw_only=True):
    """Usable models by `provider/model`."""

    models: dict[str, ModelSummary] = {}
    default: str | None = None
    """The model of a prompt that names none, if the configuration has one."""


class ClientCatalog:
    """`client.catalog`: agents, commands and models of a directory on the server."""

    def __init__(self, client: JsonClient) -> None:
        self._http = client

    async def agents(self, directory: str) -> tuple[AgentSummary, ...]:
        """List the agents, the default one first."""
        return await self._http.get("/agent", tuple[AgentSummary, ...], {"directory": directory})

    async def commands(self, directory: str) -> tuple[CommandSummary, ...]:
        return await self._http.get("/command", tuple[CommandSummary, ...], {"directory": directory})

    async def models(self, directory: str) -> ProviderCatalog:
        """List the models that are usable now, and the configured one."""
        query = {"directory": directory}
        listed = await self._http.get("/config/providers", _Providers, query)
        config = await self._http.get("/config", _Config, query)
        models = {
            f"{provider.id}/{model_id}": model
            for provider in listed.providers
            for model_id, model in provider.models.items()
        }
        return ProviderCatalog(models=models, default=config.model)
