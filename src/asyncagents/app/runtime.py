"""Open a runtime: its backend, its default model and the workplaces of its sessions."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import make_data_directory, open_backend
from asyncagents.app.default_model import DefaultModel, open_default_model
from asyncagents.app.external import build_acp_agents, with_external_lane
from asyncagents.app.workplaces import choose_workplaces
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import (
    AsyncToolsConfig,
    Config,
    DelegationConfig,
    ExternalConfig,
    TelemetryConfig,
)
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import Fleet, fleet_config
from asyncagents.config.load import load_config
from asyncagents.config.loaded_project import LoadedProject
from asyncagents.engine.runner import BeforeRest, no_objection
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool, Policy, ask_everything, check_tools
from asyncagents.errors import InvalidInput
from asyncagents.llm.limits import Concurrency
from asyncagents.llm.model import Model
from asyncagents.plugins.api import Plugin
from asyncagents.telemetry.open import choose_observer
from asyncagents.tools.web.webhooks import open_webhooks

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_runtime(
    data: str | Path | None = None,
    *,
    model: Model | str | None = None,
    config: Config | None = None,
    tools: Sequence[AnyTool] = (),
    policy: Policy = ask_everything,
    coding: bool | Config | LoadedProject | Literal["each directory"] = False,
    plugins: Sequence[Plugin] = (),
    delegation: bool | DelegationConfig = False,
    async_tools: AsyncToolsConfig | None = None,
    telemetry: bool | TelemetryConfig | None = None,
    before_rest: BeforeRest = no_objection,
    serve: bool | Literal["later"] = True,
    needs_model: bool = True,
    fleet: Fleet | None = None,
) -> AsyncIterator[Runtime]:
    """Open a data directory and run its sessions until the block ends. Several processes may share one.

    `model` is a name such as "anthropic/claude-sonnet-4-5", or your own `Model`; None takes the model of the
    configuration. `config` replaces the configuration files and the environment. `coding` adds the built-in
    tools, agents, rules, skills, instructions and plugins, from that `Config`, or from `config`, or else from
    the files of each session's directory. `policy` (it decides asks) and `delegation` (tools that launch
    tasks) are for a runtime without `coding`. `async_tools` and `telemetry` override the configuration.
    `serve=False` runs no session, "later" waits for `serve_tree()`. `needs_model=False`: none is required.
    """
    _check_arguments(tools, policy, delegation, coding=bool(coding))
    coding = config if coding is True and config is not None else coding
    if config is None and (data is None or model is None or isinstance(model, str)):
        config = _config_from_files()
    directory = make_data_directory(Path(data) if data is not None else _require_config(config).data_dir)
    async with open_default_model(model, config, needed=bool(serve) and needs_model) as default:
        setup = _build_setup(default, config, async_tools, telemetry, coding=coding)
        workplaces, host = choose_workplaces(
            directory, tools, policy, coding, plugins=plugins, delegation=delegation
        )
        setup = replace(setup, open_workplaces=workplaces, plugins=host)
        setup = replace(setup, before_rest=before_rest, serve=serve is True)
        async with _open_on_backend(directory, setup, fleet or fleet_config(system_environment())) as runtime:
            yield runtime


def _build_setup(
    default: DefaultModel,
    config: Config | None,
    async_tools: AsyncToolsConfig | None,
    telemetry: bool | TelemetryConfig | None,
    *,
    coding: bool | Config | LoadedProject | str,
) -> Setup:
    return Setup(
        model=default.model,
        model_ref=default.ref,
        concurrency=_limit_external(default.concurrency, config, coding),
        build_external=build_acp_agents,
        check_model=default.check,
        missing_model=default.missing,
        async_tools=async_tools or (config.async_tools if config else AsyncToolsConfig()),
        observer=choose_observer(telemetry, config, SystemClock()),
    )


def _limit_external(
    concurrency: Concurrency, config: Config | None, coding: bool | Config | LoadedProject | str
) -> Concurrency:
    """Limit how many external agents work at once, as the configuration says that projects use."""
    match coding:
        case LoadedProject():
            config = coding.config
        case Config():
            config = coding
        case _:
            pass
    external = config.external if config else ExternalConfig()
    return with_external_lane(concurrency, external.concurrent)


def _check_arguments(
    tools: Sequence[AnyTool],
    policy: Policy,
    delegation: bool | DelegationConfig,
    *,
    coding: bool,
) -> None:
    if coding and policy is not ask_everything:
        raise InvalidInput("policy cannot be combined with coding, which uses rules: leave one of them out")
    if coding and isinstance(delegation, DelegationConfig):
        raise InvalidInput("delegation has limits, which coding takes from the config: set them there")
    check_tools(tools)


@asynccontextmanager
async def _open_on_backend(directory: Path, setup: Setup, fleet: Fleet | None) -> AsyncIterator[Runtime]:
    async with (
        open_backend(directory, fleet) as backend,
        open_webhooks(setup.async_tools.webhooks) as send,
        start_runtime(backend, replace(setup, post=send)) as runtime,
    ):
        yield runtime


def _config_from_files() -> Config:
    loaded = load_config(system_environment(), directory=Path.cwd())
    for warning in loaded.warnings:
        _log.warning("%s", warning)
    return loaded.config


def _require_config(config: Config | None) -> Config:
    assert config is not None, "the config is not loaded"
    return config
