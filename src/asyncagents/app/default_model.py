"""The default model of a runtime: a model object, or the providers of a config."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.input.message import accept_any_model, model_ref
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.llm.limits import Concurrency, default_concurrency
from asyncagents.llm.model import Model

SCRIPTED_MODEL = ModelRef(provider_id="scripted", model_id="scripted")


class DefaultModel(Struct, frozen=True):
    """The model of prompts that name none, with its check and concurrency."""

    model: Model
    ref: ModelRef
    concurrency: Concurrency = default_concurrency
    check: Callable[[ModelRef], None] = accept_any_model
    missing: str | None = None
    """Why there is no default model; None: there is one."""


@asynccontextmanager
async def open_default_model(
    model: Model | str | None, config: Config | None, *, needed: bool
) -> AsyncIterator[DefaultModel]:
    """Open the given model object, or the providers of a config; `needed`: raise if there is no model."""
    if model is not None and not isinstance(model, str):
        yield DefaultModel(model, SCRIPTED_MODEL)
        return
    assert config is not None, "loaded by the caller"
    from asyncagents.llm.providers import open_providers  # start-up: slow, and only real models need it

    async with open_providers(config) as providers:
        ref, missing = model_ref(model) or providers.roster.default_model(), None
        try:
            if ref is None:
                raise providers.roster.default_problem().error()
            providers.roster.check(ref)
        except (InvalidInput, ModelError) as error:
            if needed:
                raise
            missing = str(error)
        yield DefaultModel(
            providers, ref or SCRIPTED_MODEL, providers.concurrency, providers.roster.check, missing
        )
