"""`/provider` and `/config/providers`: providers and models, as configured when the server started."""

from functools import partial
from typing import Literal, NoReturn, Protocol, runtime_checkable

from msgspec.structs import replace

from asyncagents.config.env import system_environment
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import Windowed, no_window
from asyncagents.llm.roster import DEFAULT_MODELS, Roster
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.provider_shape import ModelInfo, ProviderInfo, model, provider, unlisted
from asyncagents.server.params import DIRECTED, DIRECTORY, path_id
from asyncagents.server.route import Route, Site

NO_KEYS = (
    "provider keys cannot be set over HTTP: set {}, or options.apiKey of the provider in "
    "asyncagents.json, where the server runs, and restart it"
)


class Usable(Shape, frozen=True, kw_only=True):
    """`default`: the suggested model of each provider."""

    providers: tuple[ProviderInfo, ...]
    default: dict[str, str]


class Known(Shape, frozen=True, kw_only=True):
    """`connected`: providers that can be used now."""

    all: tuple[ProviderInfo, ...]
    default: dict[str, str]
    connected: tuple[str, ...]


@runtime_checkable
class Rostered(Protocol):
    """A default model that comes from a roster of models."""

    @property
    def roster(self) -> Roster: ...


class Stock:
    """Providers with their models, and which of them are usable now."""

    def __init__(self, providers: dict[str, ProviderInfo], usable: dict[str, dict[str, ModelInfo]]) -> None:
        self.providers = providers
        self.usable = usable

    def suggested(self, wanted: dict[str, str]) -> dict[str, str]:
        """Suggest one model per provider: the wanted one if possible, preferring usable models."""
        found = {}
        for name, each in self.providers.items():
            models = self.usable.get(name) or each.models
            choice = wanted.get(name)
            found[name] = choice if choice in models else next(iter(models))
        return found


def take_stock(runtime: Runtime, *, usable_only: bool = False) -> Stock:
    """List providers and models. Without `usable_only` this reads the whole catalog, which is slow."""
    voice, ref = runtime.defaults.voice, runtime.defaults.model
    if not isinstance(voice, Rostered):
        window = voice.window if isinstance(voice, Windowed) else no_window
        one = unlisted(ref, window(ref))
        return Stock({one.id: one}, {one.id: one.models})
    roster, environment = voice.roster, system_environment()
    models: dict[str, dict[str, ModelInfo]] = {}
    usable: dict[str, dict[str, ModelInfo]] = {}
    for choice in roster.models(roster.keyed if usable_only else None):
        name = choice.ref.provider_id
        shape = model(choice.ref, choice.facts, roster.providers[name])
        models.setdefault(name, {})[choice.ref.model_id] = shape
        if choice.available:
            usable.setdefault(name, {})[choice.ref.model_id] = shape
    providers = {
        name: replace(provider(name, config, environment), models=models[name])
        for name, config in roster.providers.items()
        if name in models
    }
    return Stock(providers, usable)


def wanted_models(runtime: Runtime) -> dict[str, str]:
    """Return the preferred model per provider; the server's default model overrides the usual one."""
    ref = runtime.defaults.model
    return {**DEFAULT_MODELS, ref.provider_id: ref.model_id}


def _usable(runtime: Runtime) -> Answer:
    """List usable providers, the default one first: clients without a remembered choice take the first."""
    stock, first = take_stock(runtime, usable_only=True), runtime.defaults.model.provider_id
    names = sorted(stock.usable, key=lambda name: name != first)
    providers = tuple(replace(stock.providers[name], models=stock.usable[name]) for name in names)
    default = stock.suggested(wanted_models(runtime))
    return shown(Usable(providers=providers, default={name: default[name] for name in names}))


def _known(runtime: Runtime) -> Answer:
    stock = take_stock(runtime)
    return shown(
        Known(
            all=tuple(stock.providers.values()),
            default=stock.suggested(wanted_models(runtime)),
            connected=tuple(stock.usable),
        )
    )


async def usable(site: Site, request: Request) -> Answer:
    return await site.errands.once("/config/providers", partial(_usable, site.runtime))


async def known(site: Site, request: Request) -> Answer:
    return await site.errands.once("/provider", partial(_known, site.runtime))


async def ways_in(site: Site, request: Request) -> Answer:
    """Always empty: provider keys are set where the server runs."""
    return shown({})


async def no_login(site: Site, request: Request) -> NoReturn:
    provider_id = path_id(request, "providerID", "provider")
    voice = site.runtime.defaults.voice
    config = voice.roster.providers.get(provider_id) if isinstance(voice, Rostered) else None
    raise InvalidInput(NO_KEYS.format(" or ".join(config.env) if config and config.env else "a variable"))


_LOGINS: tuple[tuple[Literal["PUT", "DELETE", "POST"], str], ...] = (
    ("PUT", "/auth/{providerID}"),
    ("DELETE", "/auth/{providerID}"),
    ("POST", "/provider/{providerID}/oauth/authorize"),
    ("POST", "/provider/{providerID}/oauth/callback"),
)


def _refusing(method: Literal["PUT", "DELETE", "POST"], path: str) -> Route:
    return Route(
        method=method,
        path=path,
        handler=no_login,
        access="token",
        summary="Log in to a provider (always refused: keys are set where the server runs)",
        answer=bool,
        statuses=(400,),
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/config/providers",
        handler=usable,
        access="token",
        summary="List providers and models that are usable now",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Usable,
    ),
    Route(
        method="GET",
        path="/provider",
        handler=known,
        access="token",
        summary="List all known providers and models, and which are usable",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=Known,
    ),
    Route(
        method="GET",
        path="/provider/auth",
        handler=ways_in,
        access="token",
        summary="List provider login methods (always empty)",
        answer=dict[str, tuple[str, ...]],
    ),
    *(_refusing(method, path) for method, path in _LOGINS),
)
