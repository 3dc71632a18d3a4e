"""A usable model with its provider and wire, or the reason why a model cannot be used."""

from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import Config, ModelConfig, ProviderConfig
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.domain.conversation.failure import Failure, api_error, provider_auth_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import AsyncAgentsError, InvalidInput, ModelError, UntrustedInput
from asyncagents.llm.catalog.catalog import ModelFacts
from asyncagents.llm.catalog.options import variants
from asyncagents.llm.wire.choose import OPENAI, PACKAGES, RESPONSES, Wire, missing_extra


class Problem(Struct, frozen=True):
    """Why a model cannot be used; `text` is one sentence and says what to do."""

    kind: Literal["unknown", "untrusted", "key", "extra"]
    provider_id: str
    text: str
    fact: str = ""
    """For kind `untrusted`: what is missing, and the untrusted file that names it."""

    def error(self) -> AsyncAgentsError:
        match self.kind:
            case "unknown":
                return InvalidInput(self.text)
            case "untrusted":
                return UntrustedInput(self.text, fact=self.fact)
            case "key" | "extra":
                return ModelError(self.text)
            case _:
                assert_never(self.kind)

    def failure(self) -> Failure:
        match self.kind:
            case "key":
                return provider_auth_error(self.provider_id, self.text)
            case "unknown" | "untrusted" | "extra":
                return api_error(self.text, is_retryable=False)
            case _:
                assert_never(self.kind)


class UsableModel(Struct, frozen=True, kw_only=True):
    """A model that requests can be sent to."""

    ref: ModelRef
    own_id: str
    """The provider's own name of the model."""
    provider: ProviderConfig
    config: ModelConfig
    facts: ModelFacts
    wire: Wire
    """The wire; it may depend on whether the request has tools."""

    @property
    def base_url(self) -> str:
        return self.provider.base_url or self.wire.base_url or ""

    @property
    def is_reachable(self) -> bool:
        """Return whether a base URL is known; most pydantic-ai providers have their own."""
        if self.wire.adapter == "longtail" and not self.wire.kind.startswith("azure"):
            return True
        return bool(self.base_url or self.provider.options.get("resourceName"))

    @property
    def variant(self) -> dict[str, Any]:
        return variants(self.facts, self.config.variants).get(self.ref.variant or "", {})


def all_providers(config: Config) -> dict[str, ProviderConfig]:
    """Return the configured providers, completed by the built-in ones, then the other built-in ones."""
    providers = {name: ProviderConfig(npm=npm, name=name) for name, npm in PACKAGES.items()}
    for name, known in builtin_providers().items():
        providers[name] = ProviderConfig(
            npm=known.npm,
            name=known.name,
            base_url=known.base_url,
            env=tuple(known.env),
            key_required=bool(known.env) and not known.local,
        )
    written = {name: _with_defaults(given, providers.get(name)) for name, given in config.provider.items()}
    return {**written, **{name: known for name, known in providers.items() if name not in written}}


def _with_defaults(provider: ProviderConfig, known: ProviderConfig | None) -> ProviderConfig:
    if known is None:
        return provider
    return replace(
        provider,
        npm=provider.npm or known.npm,
        name=provider.name or known.name,
        base_url=provider.base_url or known.base_url,
        env=provider.env or known.env,
        key_required=provider.key_required or (known.key_required and provider.base_url is None),
    )


def is_enabled(config: Config, provider_id: str) -> bool:
    if provider_id in config.disabled_providers:
        return False
    return not config.enabled_providers or provider_id in config.enabled_providers


def choose_wire(npm: str, wire: Wire, facts: ModelFacts, *, tools: bool) -> Wire:
    """Return the wire to use: some OpenAI models need the Responses API, or need it for tools.

    Without the extra for it, a model that can work without thinking uses chat completions.
    """
    needed = facts.api == "responses" or (facts.api == "responses for tools" and tools)
    if not needed or (npm != OPENAI and wire.kind not in RESPONSES):
        return wire
    other = Wire("longtail", RESPONSES.get(wire.kind, "openai-responses"), wire.base_url)
    if missing_extra(other.kind) and facts.api != "responses" and "none" in facts.efforts:
        return wire
    return other
