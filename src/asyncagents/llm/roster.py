"""The configured and built-in providers and models, and why some of them cannot be used."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from asyncagents.config.config import Config, ModelConfig, ProviderConfig
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.check import suggestion
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import InvalidInput
from asyncagents.llm.catalog.catalog import Catalog, ModelFacts
from asyncagents.llm.catalog.options import variants
from asyncagents.llm.usable_model import Problem, UsableModel, all_providers, choose_wire, is_enabled
from asyncagents.llm.wire.choose import COMPATIBLE, PACKAGES, Wire, missing_extra, wire_of

LOG = logging.getLogger(__name__)

DEFAULT_MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-terra",
    "google": "gemini-3.8-flash",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "xai": "grok-4.7",
    "deepseek": "deepseek-v4-pro",
    "moonshotai": "kimi-k3",
    "zai": "glm-5.3",
    "mistral": "mistral-medium-latest",
    "groq": "openai/gpt-oss-120b",
    "cerebras": "gpt-oss-120b",
    "togetherai": "moonshotai/Kimi-K3",
    "fireworks-ai": "accounts/fireworks/models/kimi-k3",
}
"""Defaults when the config names no model: the first whose provider has a key, in this order."""

NO_MODEL = (
    "there is no model to ask: set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY, "
    'or name one as "model" in asyncagents.json'
)
MOST_OFFERS = 256
"""Offers cached; beyond that the cache is cleared."""


class ModelChoice(Struct, frozen=True):
    """A model in a list to choose from."""

    ref: ModelRef
    facts: ModelFacts
    available: bool
    why_not: str | None = None


class Roster:
    def __init__(self, config: Config) -> None:
        self._config = config
        providers = all_providers(config)
        self._providers = {name: providers[name] for name in providers if is_enabled(config, name)}
        self.catalog = Catalog(self._providers)
        self._warned: set[ModelRef] = set()
        self._offers: BoundedDict[tuple[ModelRef, bool], UsableModel] = BoundedDict(MOST_OFFERS)

    @property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """All enabled providers, usable or not."""
        return self._providers

    @property
    def providers_with_key(self) -> tuple[str, ...]:
        """Providers that need no key or have one; models of the others cannot be used."""
        return tuple(
            name
            for name, each in self._providers.items()
            if each.api_key is not None or not each.key_required
        )

    def models(self, provider_ids: Iterable[str] | None = None) -> list[ModelChoice]:
        """List every configured and catalogued model of these providers, or of all, and whether it can be
        used now."""
        return [
            self._choice(ref) for ref in self._refs(self._providers if provider_ids is None else provider_ids)
        ]

    def default_model(self) -> ModelRef | None:
        """Return the config's model; else the first usable one of custom providers, then `DEFAULT_MODELS`."""
        if self._config.model is not None:
            return self._config.model
        return next((ref for ref in self._candidates() if self.problem(ref) is None), None)

    def default_problem(self) -> Problem:
        """Return why there is no default model, naming an untrusted file that configures one."""
        lack = next(self._missing_packages(), None)
        problem = lack or Problem("unknown", "", NO_MODEL)
        fact = self._config.untrusted.model_fact()
        if fact is None:
            return problem
        text = f"{problem.text}; {self._config.untrusted.sentence(fact)}"
        return Problem("untrusted", problem.provider_id, text, fact)

    def check(self, ref: ModelRef) -> None:
        """Raise `InvalidInput` or `ModelError` if the model cannot be used; sends no request."""
        found = self.offer(ref)
        if isinstance(found, Problem):
            raise found.error()
        if ref.variant is not None and not found.variant:
            known = variants(found.facts, found.config.variants)
            raise InvalidInput(
                f"{_model_name(ref)} has no variant {ref.variant!r}: {_suggest(ref.variant, known)}"
            )
        if not found.facts.known:
            self._warn_unknown_model(ref)

    def problem(self, ref: ModelRef) -> Problem | None:
        found = self.offer(ref)
        return found if isinstance(found, Problem) else None

    def offer(self, ref: ModelRef, *, tools: bool = True) -> UsableModel | Problem:
        """Return how to reach this model, or why it cannot be used."""
        known = self._offers.get((ref, tools))
        found = known or self._offer(ref, tools=tools)
        if known is None and isinstance(found, UsableModel):
            self._offers[ref, tools] = found
        return found

    def _offer(self, ref: ModelRef, *, tools: bool) -> UsableModel | Problem:
        provider = self._providers.get(ref.provider_id)
        if provider is None:
            return self._blame_untrusted(
                Problem("unknown", ref.provider_id, self._unknown_provider_text(ref.provider_id))
            )
        npm = provider.npm or PACKAGES.get(ref.provider_id, COMPATIBLE)
        wire = wire_of(npm)
        if wire is None:
            return Problem("unknown", ref.provider_id, _unsupported_text(ref.provider_id, npm))
        config = provider.models.get(ref.model_id, ModelConfig())
        facts = self.catalog.find(ref)
        usable = UsableModel(
            ref=ref,
            own_id=config.id or ref.model_id,
            provider=provider,
            config=config,
            facts=facts,
            wire=choose_wire(npm, wire, facts, tools=tools),
        )
        problem = self._find_problem(usable)
        return self._blame_untrusted(problem) if problem is not None else usable

    def _blame_untrusted(self, problem: Problem) -> Problem:
        """Name the untrusted file that configures the provider, if there is one: that may be the cause."""
        provider_id, untrusted = problem.provider_id, self._config.untrusted
        fact = untrusted.fact(f"provider {provider_id!r}", "provider", provider_id)
        if fact is None or problem.kind == "extra":
            return problem
        sentence = untrusted.sentence(fact)
        text = f"{problem.text}; {sentence}" if problem.kind == "key" else sentence
        return Problem("untrusted", provider_id, text, fact)

    def concurrency(self, ref: ModelRef) -> int | None:
        provider = self._providers.get(ref.provider_id)
        return provider.concurrency if provider else None

    def _find_problem(self, usable: UsableModel) -> Problem | None:
        ref, provider = usable.ref, usable.provider
        if unlisted := self._why_unlisted(ref, provider):
            return Problem("unknown", ref.provider_id, unlisted)
        if not usable.is_reachable:
            key = f"provider.{ref.provider_id}.options.baseURL"
            return Problem("unknown", ref.provider_id, f"{ref.provider_id} has no address: set {key}")
        install = _install_command(usable.wire)
        if provider.key_required and provider.api_key is None:
            text = _missing_key_text(ref.provider_id, provider)
            return Problem("key", ref.provider_id, f"{text}; it also needs {install}" if install else text)
        if install:
            text = f"{_model_name(ref)} needs a package that is not installed: {install}"
            return Problem("extra", ref.provider_id, text)
        return None

    def _why_unlisted(self, ref: ModelRef, provider: ProviderConfig) -> str | None:
        """Return why the config excludes the model; a custom provider has only its configured models."""
        if provider.whitelist and ref.model_id not in provider.whitelist:
            return (
                f"{_model_name(ref)} is not on provider.{ref.provider_id}.whitelist: add it there to use it"
            )
        if ref.model_id in provider.blacklist:
            return f"{_model_name(ref)} is on provider.{ref.provider_id}.blacklist: take it off to use it"
        if (
            not provider.models
            or ref.model_id in provider.models
            or self._allows_unknown_models(ref.provider_id)
        ):
            return None
        instead = _suggest(ref.model_id, provider.models)
        return f"provider {ref.provider_id} has no model {ref.model_id!r}: {instead}"

    def _allows_unknown_models(self, provider_id: str) -> bool:
        """Return whether the provider may have models that neither config nor catalog list."""
        return (
            provider_id in builtin_providers()
            or provider_id in PACKAGES
            or bool(self._catalog_models(provider_id))
        )

    def _catalog_models(self, provider_id: str) -> tuple[str, ...]:
        return self.catalog.model_ids(provider_id)

    def _unknown_provider_text(self, provider_id: str) -> str:
        if not is_enabled(self._config, provider_id) and provider_id in all_providers(self._config):
            return f"provider {provider_id!r} is switched off by disabled_providers or enabled_providers"
        known = _suggest(provider_id, self._providers)
        otherwise = " If not," if known.endswith("?") else ";"
        return (
            f"there is no provider {provider_id!r}: {known}{otherwise} configure it under "
            f"provider.{provider_id} (a server reads providers only when it starts, in its own directory)"
        )

    def _warn_unknown_model(self, ref: ModelRef) -> None:
        if ref not in self._warned and self._catalog_models(ref.provider_id):
            self._warned.add(ref)
            near = suggestion(ref.model_id, self._catalog_models(ref.provider_id))
            hint = f"; did you mean {near!r}?" if near else ""
            LOG.warning(
                "model=%s action=check the model is not in the catalog; requests are sent anyway%s",
                _model_name(ref),
                hint,
            )

    def _refs(self, provider_ids: Iterable[str]) -> Iterator[ModelRef]:
        for provider_id in provider_ids:
            provider = self._providers[provider_id]
            names = {**dict.fromkeys(provider.models), **dict.fromkeys(self._catalog_models(provider_id))}
            for model_id in names:
                ref = ModelRef(provider_id=provider_id, model_id=model_id)
                if self._why_unlisted(ref, provider) is None:
                    yield ref

    def _choice(self, ref: ModelRef) -> ModelChoice:
        problem = self.problem(ref)
        return ModelChoice(ref, self.catalog.find(ref), problem is None, problem.text if problem else None)

    def _candidates(self) -> Iterator[ModelRef]:
        for provider_id, provider in self._providers.items():
            if not self._allows_unknown_models(provider_id):
                for model_id in provider.models:
                    yield ModelRef(provider_id=provider_id, model_id=model_id)
        for provider_id, model_id in DEFAULT_MODELS.items():
            if provider_id in self._providers and self._providers[provider_id].api_key is not None:
                yield ModelRef(provider_id=provider_id, model_id=model_id)

    def _missing_packages(self) -> Iterator[Problem]:
        """Yield the problem of each provider that has a key and lacks its package."""
        for provider_id, provider in self._providers.items():
            wire = wire_of(provider.npm or PACKAGES.get(provider_id, COMPATIBLE))
            install = _install_command(wire) if wire is not None else None
            if install and provider.api_key is not None:
                text = (
                    f"there is no model to ask: {provider_id} has a key, and needs a package that is not "
                    f"installed: {install}"
                )
                yield Problem("extra", provider_id, text)


def _install_command(wire: Wire) -> str | None:
    """Return the command that installs what the wire needs; None if nothing is missing."""
    return missing_extra(wire.kind) if wire.adapter == "longtail" else None


def _unsupported_text(provider_id: str, npm: str) -> str:
    text = (
        f"provider.{provider_id}.npm is {npm!r}, which no adapter supports: "
        f"use {COMPATIBLE} if it takes OpenAI's chat completions"
    )
    install = missing_extra(npm)
    return f"{text}; {install} adds more providers" if install else text


def _missing_key_text(provider_id: str, provider: ProviderConfig) -> str:
    variables = " or ".join(provider.env)
    first = f"set {variables}, or " if variables else "set "
    return (
        f"there is no API key for {provider_id}: {first}provider.{provider_id}.options.apiKey in the config"
    )


def _suggest(name: str, known: Iterable[str]) -> str:
    near = suggestion(name, known)
    if near:
        return f"did you mean {near!r}?"
    shown = ", ".join(list(known)[:8])
    return f"there are {shown}" if shown else "there is none"


def _model_name(ref: ModelRef) -> str:
    return f"{ref.provider_id}/{ref.model_id}"
