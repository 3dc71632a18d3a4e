"""`/provider` and `/config/providers`: providers and models, as configured when the server started."""

from functools import partial
from typing import ClassVar, NoReturn, Protocol, runtime_checkable

from msgspec.structs import replace

from asyncagents.config.env import system_environment
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import HasWindow, no_window
from asyncagents.llm.roster import DEFAULT_MODELS, Roster
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.provider_shape import (
    ModelInfo,
    ProviderInfo,
    custom_provider,
    model_info,
    provider_info,
)
from asyncagents.server.params import path_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

NO_KEYS = (
    "provider keys cannot be set over HTTP: set {}, or options.apiKey of the provider in "
    "asyncagents.json, where the server runs, and restart it"
)


class UsableProviders(Shape, frozen=True, kw_only=True):
    """`default`: the suggested model of each provider."""

    schema_name: ClassVar[str] = "Usable"

    providers: tuple[ProviderInfo, ...]
    default: dict[str, str]


class AllProviders(Shape, frozen=True, kw_only=True):
    """`connected`: providers that can be used now."""

    schema_name: ClassVar[str] = "Known"

    all: tuple[ProviderInfo, ...]
    default: dict[str, str]
    connected: tuple[str, ...]


@runtime_checkable
class HasRoster(Protocol):
    """A default model that comes from a roster of models."""

    @property
    def roster(self) -> Roster: ...


class ProviderInventory:
    """Providers with their models, and which of them are usable now."""

    def __init__(self, providers: dict[str, ProviderInfo], usable: dict[str, dict[str, ModelInfo]]) -> None:
        self.providers = providers
        self.usable = usable

    def suggested_models(self, wanted: dict[str, str]) -> dict[str, str]:
        """Suggest one model per provider: the wanted one if possible, preferring usable models."""
        found = {}
        for name, each in self.providers.items():
            models = self.usable.get(name) or each.models
            choice = wanted.get(name)
            found[name] = choice if choice in models else next(iter(models))
        return found


def list_providers(runtime: Runtime, *, usable_only: bool = False) -> ProviderInventory:
    """List providers and models. Without `usable_only` this reads the whole catalog, which is slow."""
    voice, ref = runtime.defaults.chat_model, runtime.defaults.model
    if not isinstance(voice, HasRoster):
        window = voice.window if isinstance(voice, HasWindow) else no_window
        one = custom_provider(ref, window(ref))
        return ProviderInventory({one.id: one}, {one.id: one.models})
    roster, environment = voice.roster, system_environment()
    models: dict[str, dict[str, ModelInfo]] = {}
    usable: dict[str, dict[str, ModelInfo]] = {}
    for choice in roster.models(roster.providers_with_key if usable_only else None):
        name = choice.ref.provider_id
        shape = model_info(choice.ref, choice.facts, roster.providers[name])
        models.setdefault(name, {})[choice.ref.model_id] = shape
        if choice.available:
            usable.setdefault(name, {})[choice.ref.model_id] = shape
    providers = {
        name: replace(provider_info(name, config, environment), models=models[name])
        for name, config in roster.providers.items()
        if name in models
    }
    return ProviderInventory(providers, usable)


def preferred_models(runtime: Runtime) -> dict[str, str]:
    """Return the preferred model per provider; the server's default model overrides the usual one."""
    ref = runtime.defaults.model
    return {**DEFAULT_MODELS, ref.provider_id: ref.model_id}


def _usable_response(runtime: Runtime) -> Response:
    """List usable providers, the default one first: clients without a remembered choice take the first."""
    stock, first = list_providers(runtime, usable_only=True), runtime.defaults.model.provider_id
    names = sorted(stock.usable, key=lambda name: name != first)
    providers = tuple(replace(stock.providers[name], models=stock.usable[name]) for name in names)
    default = stock.suggested_models(preferred_models(runtime))
    return json_response(
        UsableProviders(providers=providers, default={name: default[name] for name in names})
    )


def _all_response(runtime: Runtime) -> Response:
    stock = list_providers(runtime)
    return json_response(
        AllProviders(
            all=tuple(stock.providers.values()),
            default=stock.suggested_models(preferred_models(runtime)),
            connected=tuple(stock.usable),
        )
    )


@routes.get("/config/providers", access="token", directory=True, response=UsableProviders)
async def usable_providers(server: ServerContext, request: Request) -> Response:
    """List providers and models that are usable now."""
    return await server.blocking.run_once("/config/providers", partial(_usable_response, server.runtime))


@routes.get("/provider", access="token", directory=True, response=AllProviders)
async def all_providers(server: ServerContext, request: Request) -> Response:
    """List all known providers and models, and which are usable."""
    return await server.blocking.run_once("/provider", partial(_all_response, server.runtime))


@routes.get("/provider/auth", access="token", response=dict[str, tuple[str, ...]])
async def auth_methods(server: ServerContext, request: Request) -> Response:
    """List provider login methods (always empty).

    Always empty: provider keys are set where the server runs."""
    return json_response({})


@routes.post("/provider/{providerID}/oauth/callback", access="token", response=bool)
@routes.post("/provider/{providerID}/oauth/authorize", access="token", response=bool)
@routes.delete("/auth/{providerID}", access="token", response=bool)
@routes.put("/auth/{providerID}", access="token", response=bool)
async def refuse_login(server: ServerContext, request: Request) -> NoReturn:
    """Log in to a provider (always refused: keys are set where the server runs)."""
    provider_id = path_id(request, "providerID", "provider")
    voice = server.runtime.defaults.chat_model
    config = voice.roster.providers.get(provider_id) if isinstance(voice, HasRoster) else None
    raise InvalidInput(NO_KEYS.format(" or ".join(config.env) if config and config.env else "a variable"))
