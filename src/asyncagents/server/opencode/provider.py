"""`/provider` and `/config/providers`: providers and models, as configured when the server started."""

from functools import partial
from typing import ClassVar, Literal, NoReturn, Protocol, runtime_checkable

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
from asyncagents.server.params import DIRECTORY_HEADER_PARAM, DIRECTORY_PARAM, path_id
from asyncagents.server.route import Route, ServerContext

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


async def usable_providers(site: ServerContext, request: Request) -> Response:
    return await site.blocking.run_once("/config/providers", partial(_usable_response, site.runtime))


async def all_providers(site: ServerContext, request: Request) -> Response:
    return await site.blocking.run_once("/provider", partial(_all_response, site.runtime))


async def auth_methods(site: ServerContext, request: Request) -> Response:
    """Always empty: provider keys are set where the server runs."""
    return json_response({})


async def refuse_login(site: ServerContext, request: Request) -> NoReturn:
    provider_id = path_id(request, "providerID", "provider")
    voice = site.runtime.defaults.chat_model
    config = voice.roster.providers.get(provider_id) if isinstance(voice, HasRoster) else None
    raise InvalidInput(NO_KEYS.format(" or ".join(config.env) if config and config.env else "a variable"))


_LOGIN_ROUTES: tuple[tuple[Literal["PUT", "DELETE", "POST"], str], ...] = (
    ("PUT", "/auth/{providerID}"),
    ("DELETE", "/auth/{providerID}"),
    ("POST", "/provider/{providerID}/oauth/authorize"),
    ("POST", "/provider/{providerID}/oauth/callback"),
)


def _refused_route(method: Literal["PUT", "DELETE", "POST"], path: str) -> Route:
    return Route(
        method=method,
        path=path,
        handler=refuse_login,
        access="token",
        summary="Log in to a provider (always refused: keys are set where the server runs)",
        response=bool,
        statuses=(400,),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/config/providers",
        handler=usable_providers,
        access="token",
        summary="List providers and models that are usable now",
        query=(DIRECTORY_PARAM,),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=UsableProviders,
    ),
    Route(
        method="GET",
        path="/provider",
        handler=all_providers,
        access="token",
        summary="List all known providers and models, and which are usable",
        query=(DIRECTORY_PARAM,),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=AllProviders,
    ),
    Route(
        method="GET",
        path="/provider/auth",
        handler=auth_methods,
        access="token",
        summary="List provider login methods (always empty)",
        response=dict[str, tuple[str, ...]],
    ),
    *(_refused_route(method, path) for method, path in _LOGIN_ROUTES),
)
