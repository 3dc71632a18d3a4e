"""Choose the adapter for a provider by its npm package in OpenCode's config."""

from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

AdapterName: TypeAlias = Literal["openai", "anthropic", "longtail"]
EXTRA = "pip install 'asyncagents[providers]'"


class Wire(Struct, frozen=True):
    adapter: AdapterName
    kind: str = ""
    """The provider's name in pydantic-ai, for adapter `longtail`."""
    base_url: str | None = None
    """The default base URL."""


OPENAI = "@ai-sdk/openai"
COMPATIBLE = "@ai-sdk/openai-compatible"

_WIRES = {
    COMPATIBLE: Wire("openai"),
    OPENAI: Wire("openai", base_url="https://api.openai.com/v1"),
    "@ai-sdk/anthropic": Wire("anthropic", base_url="https://api.anthropic.com/v1"),
    "@ai-sdk/alibaba": Wire("openai", base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    "@ai-sdk/cerebras": Wire("openai", base_url="https://api.cerebras.ai/v1"),
    "@ai-sdk/deepinfra": Wire("openai", base_url="https://api.deepinfra.com/v1/openai"),
    "@ai-sdk/deepseek": Wire("openai", base_url="https://api.deepseek.com"),
    "@ai-sdk/fireworks": Wire("openai", base_url="https://api.fireworks.ai/inference/v1"),
    "@ai-sdk/gateway": Wire("openai", base_url="https://ai-gateway.vercel.sh/v1"),
    "@ai-sdk/huggingface": Wire("openai", base_url="https://router.huggingface.co/v1"),
    "@ai-sdk/groq": Wire("openai", base_url="https://api.groq.com/openai/v1"),
    "@ai-sdk/mistral": Wire("openai", base_url="https://api.mistral.ai/v1"),
    "@ai-sdk/moonshotai": Wire("openai", base_url="https://api.moonshot.ai/v1"),
    "@ai-sdk/perplexity": Wire("openai", base_url="https://api.perplexity.ai"),
    "@ai-sdk/togetherai": Wire("openai", base_url="https://api.together.xyz/v1"),
    "@ai-sdk/vercel": Wire("openai", base_url="https://api.v0.dev/v1"),
    "@ai-sdk/xai": Wire("openai", base_url="https://api.x.ai/v1"),
    "@openrouter/ai-sdk-provider": Wire("openai", base_url="https://openrouter.ai/api/v1"),
    "ai-sdk-ollama": Wire("openai", base_url="http://localhost:11434/v1"),
    "ollama-ai-provider": Wire("openai", base_url="http://localhost:11434/v1"),
    "ollama-ai-provider-v2": Wire("openai", base_url="http://localhost:11434/v1"),
    "@ai-sdk/amazon-bedrock": Wire("longtail", "bedrock"),
    "@ai-sdk/azure": Wire("longtail", "azure"),
    "@ai-sdk/cohere": Wire("longtail", "cohere"),
    "@ai-sdk/google": Wire("longtail", "google"),
    "@ai-sdk/google-vertex": Wire("longtail", "google-cloud"),
}
PACKAGES = {
    "amazon-bedrock": "@ai-sdk/amazon-bedrock",
    "azure": "@ai-sdk/azure",
    "google-vertex": "@ai-sdk/google-vertex",
}
"""Packages of clouds whose SDKs find credentials themselves: roles, profiles, files of their tools."""
RESPONSES = {"azure": "azure-responses"}
"""pydantic-ai's names for OpenAI's Responses API."""

# The module that pydantic-ai imports for a provider, and the extra of pydantic-ai that installs it.
_REQUIRED_MODULES = {
    "anthropic": ("anthropic", ""),
    "azure": ("openai", ""),
    "azure-responses": ("openai", ""),
    "bedrock": ("boto3", "bedrock"),
    "cohere": ("cohere", "cohere"),
    "google": ("google.genai", ""),
    "google-cloud": ("google.genai", ""),
    "openai-chat": ("openai", ""),
    "openai-responses": ("openai", ""),
}


def wire_of(npm: str) -> Wire | None:
    """Return the wire of an npm package; None if no adapter supports it."""
    if npm in _WIRES:
        return _WIRES[npm]
    kind = npm.removeprefix("@ai-sdk/")
    return Wire("longtail", kind) if kind != npm and _has_provider(kind) else None


@cache
def missing_extra(kind: str) -> str | None:
    """Return the install command for a pydantic-ai provider; None if nothing is missing. Imports nothing."""
    module, extra = _REQUIRED_MODULES.get(kind, ("pydantic_ai", ""))
    if _spec("pydantic_ai") is not None and _spec(module) is not None:
        return None
    return f"pip install 'asyncagents[providers]' 'pydantic-ai-slim[{extra}]'" if extra else EXTRA


def _spec(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except ModuleNotFoundError:  # `google.genai` without a `google` package
        return None


def _has_provider(kind: str) -> bool:
    """Return whether pydantic-ai has a module for the provider; False if pydantic-ai is not installed."""
    spec = _spec("pydantic_ai")
    folders = spec.submodule_search_locations or [] if spec else []
    name = kind.replace("-", "_")
    return name.isidentifier() and any(
        Path(folder, "providers", f"{name}.py").is_file() for folder in folders
    )
