"""The composition root: builds a runtime out of a database, a model and tools."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.backend import (
    Backend,
    connect_peers,
    make_data_directory,
    open_backend,
    poll_forever,
    run_session_queue,
)
from asyncagents.app.default_model import SCRIPTED_MODEL, DefaultModel, open_default_model
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import DAY, AsyncToolsConfig, Config, DelegationConfig, TelemetryConfig
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import Fleet, fleet_config
from asyncagents.config.load import load_config
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.progress import ChildProgress
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.call.executor import CallExecutor
from asyncagents.engine.call.incoming_webhook import IncomingWebhook
from asyncagents.engine.decide import is_turn_over
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.input.message import PromptDefaults, accept_any_model
from asyncagents.engine.metrics import Counters
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.runner import BeforeRest, Runner, chain, no_objection
from asyncagents.engine.runtime.answers import AnswerWaiters
from asyncagents.engine.runtime.readiness import Readiness
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.step.step import StepRunner
from asyncagents.engine.step.title import Titles
from asyncagents.engine.tool import AnyTool, Policy, ask_everything, check_tools
from asyncagents.engine.webhook.delivery import SendWebhook, refuse_delivery
from asyncagents.engine.webhook.delivery_loop import DeliveryLoop
from asyncagents.engine.workplace.agents import DEFAULT_AGENT
from asyncagents.engine.workplace.workplace import FixedWorkplace, Workplaces
from asyncagents.errors import InvalidInput
from asyncagents.llm.limits import Concurrency, Limits, default_concurrency
from asyncagents.llm.model import HasWindow, Model, no_window
from asyncagents.plugins.api import Plugin
from asyncagents.plugins.todo_enforcer import TodoEnforcer
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.telemetry.open import choose_observer
from asyncagents.tools.web.webhooks import open_webhooks

_log = logging.getLogger(__name__)


WorkplaceFactory: TypeAlias = Callable[[TaskLauncher], Workplaces]
"""Builds the workplaces of sessions; some tools need the store or the task launcher."""


def fixed_tools(
    tools: Sequence[AnyTool], policy: Policy = ask_everything, delegation: DelegationConfig | None = None
) -> WorkplaceFactory:
    """Return a factory of workplaces with the same tools for every session, and tools for `delegation`.

    A tool of `tools` replaces a delegation tool of the same name, as with `coding`.
    """

    def furnish(desk: TaskLauncher) -> Workplaces:
        if delegation is None:
            return FixedWorkplace(tools, policy)
        own = {tool.name for tool in tools}
        delegating = [tool for tool in delegation_tools(desk, delegation) if tool.name not in own]
        return FixedWorkplace((*tools, *delegating), policy, reader=delegation.reader)

    return furnish


class PluginHost(Protocol):
    """The plugins of a runtime, started and stopped with it."""

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None: ...

    async def end(self) -> None: ...


class WorkplaceSetup(Struct, frozen=True):
    make_workplaces: WorkplaceFactory
    plugins: PluginHost | None = None


class Setup(Struct, frozen=True, kw_only=True):
    """The parts of a runtime that do not depend on its backend; simulations use the same."""

    model: Model
    make_workplaces: WorkplaceFactory = fixed_tools(())
    plugins: PluginHost | None = None
    before_rest: BeforeRest = no_objection
    serve: bool = True
    agent: str = DEFAULT_AGENT
    model_ref: ModelRef = SCRIPTED_MODEL
    concurrency: Concurrency = default_concurrency
    check_model: Callable[[ModelRef], None] = accept_any_model
    """Raises if a model cannot be used; sends no request."""
    missing_model: str | None = None
    """Why there is no default model."""
    async_tools: AsyncToolsConfig = AsyncToolsConfig()
    post: SendWebhook = refuse_delivery
    observer: Observer = NOOP_OBSERVER
    """Observes the engine, besides the metrics of each runtime."""


@asynccontextmanager
async def open_runtime(
    data: str | Path | None = None,
    *,
    model: Model | str | None = None,
    config: Config | None = None,
    tools: Sequence[AnyTool] = (),
    policy: Policy = ask_everything,
    coding: bool | Config | Literal["each directory"] = False,
    plugins: Sequence[Plugin] = (),
    delegation: bool | DelegationConfig = False,
    async_tools: AsyncToolsConfig | None = None,
    telemetry: bool | TelemetryConfig | None = None,
    before_rest: BeforeRest = no_objection,
    serve: bool | Literal["later"] = True,
    needs_model: bool = True,
    fleet: Fleet | None = None,
) -> AsyncIterator[Runtime]:
    """Open a data directory and, unless `serve` is false, run its sessions ("later": by `serve_tree()`).

    `model` is a name such as "anthropic/claude-sonnet-4-5", served by the providers of `config` (default: of
    the configuration files and the environment), or your own `Model`, or None if no model is needed.
    Several processes may open the same directory. `coding` adds the built-in tools, agents, rules, skills,
    instructions and plugins: by the configuration given there, or by `config`, or else by the files of each
    session's directory. `policy` and `delegation` (tools that launch tasks) are for a runtime without
    `coding`. `async_tools` and `telemetry` override the configuration.
    """
    _check_arguments(tools, policy, delegation, coding=bool(coding))
    coding = config if coding is True and config is not None else coding
    if config is None and (data is None or model is None or isinstance(model, str)):
        config = _config_from_files()
    directory = make_data_directory(Path(data) if data is not None else _require_config(config).data_dir)
    async with (
        open_default_model(model, config, needed=bool(serve) and needs_model) as voice,
        _open_workplaces(
            directory, tools, policy, coding, plugins=plugins, delegation=delegation
        ) as furnished,
    ):
        outside = async_tools or (config.async_tools if config else AsyncToolsConfig())
        setup = _build_setup(voice, furnished, before_rest, outside, serve=serve is True)
        setup = replace(setup, observer=choose_observer(telemetry, config, SystemClock()))
        async with _open_on_backend(directory, setup, fleet or fleet_config(system_environment())) as runtime:
            yield runtime


def _build_setup(
    voice: DefaultModel,
    furnished: WorkplaceSetup,
    before_rest: BeforeRest,
    outside: AsyncToolsConfig,
    *,
    serve: bool,
) -> Setup:
    return Setup(
        model=voice.model,
        make_workplaces=furnished.make_workplaces,
        plugins=furnished.plugins,
        before_rest=before_rest,
        serve=serve,
        model_ref=voice.ref,
        concurrency=voice.concurrency,
        check_model=voice.check,
        missing_model=voice.missing,
        async_tools=outside,
    )


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
        open_backend(directory, fleet) as world,
        open_webhooks(setup.async_tools.webhooks) as post,
        start_runtime(world, replace(setup, post=post)) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def _open_workplaces(
    data: Path,
    tools: Sequence[AnyTool],
    policy: Policy,
    coding: bool | Config | str,
    *,
    plugins: Sequence[Plugin],
    delegation: bool | DelegationConfig,
) -> AsyncIterator[WorkplaceSetup]:
    if coding is False:
        furnish = fixed_tools(tools, policy, DelegationConfig() if delegation is True else delegation or None)
        yield _with_plugins(furnish, policy, data, plugins) if plugins else WorkplaceSetup(furnish)
        return
    from asyncagents.plugins.plugins import Plugins  # start-up: as below
    from asyncagents.tools.project.factory import open_projects_factory  # start-up: not needed without coding

    config = coding if isinstance(coding, Config) else None
    output = data / "tool-output"
    added = Plugins(system_environment(), output=output, own=plugins)
    async with open_projects_factory(
        output, config=config, tools=tools, clock=SystemClock(), extensions=added
    ) as open_projects:

        def furnish(desk: TaskLauncher) -> Workplaces:
            return open_projects(desk.store, desk.ids, lambda config: delegation_tools(desk, config))

        yield WorkplaceSetup(furnish, added)


def _with_plugins(
    without: WorkplaceFactory, policy: Policy, data: Path, plugins: Sequence[Plugin]
) -> WorkplaceSetup:
    from asyncagents.plugins.workplaces import add_program_plugins  # start-up: most programs have no plugins

    return WorkplaceSetup(*add_program_plugins(without, policy, data, plugins))


def _config_from_files() -> Config:
    loaded = load_config(system_environment(), directory=Path.cwd())
    for warning in loaded.warnings:
        _log.warning("%s", warning)
    return loaded.config


def _require_config(config: Config | None) -> Config:
    assert config is not None, "the config is not loaded"
    return config


@asynccontextmanager
async def start_runtime(world: Backend, setup: Setup) -> AsyncIterator[Runtime]:
    """Assemble a runtime and run it until the block ends."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        runtime, dispatcher, courier, titles = _assemble(world, setup, group)
        runtime.board.set_task_group(group)
        work = [
            await dispatcher.begin(),
            poll_forever(world, dispatcher.request_sweep),
            courier.deliver_forever(),
        ]
        if world.session_queue is not None:
            work.append(run_session_queue(world.session_queue, dispatcher))
        chores = [group.create_task(each) for each in work]
        if setup.serve:
            dispatcher.serve()
        try:
            yield runtime
        except BaseException as error:  # noqa: BLE001  raised after the group, which would wrap it
            failure = error
        for chore in chores:
            chore.cancel()
        await dispatcher.stop()
        await courier.stop()
        titles.stop()
        if setup.plugins is not None:
            await setup.plugins.end()
        runtime.close()
    if failure is not None:
        raise failure


def _assemble(
    world: Backend, setup: Setup, group: asyncio.TaskGroup
) -> tuple[Runtime, Dispatcher, DeliveryLoop, Titles]:
    store, bus, answers = Store(world.database), Bus(), AnswerWaiters()
    counters, reach = (
        Counters(world.clock, setup.observer),
        IncomingWebhook(setup.async_tools, store.pending, world.rng),
    )
    desk = TaskLauncher(store=store, ids=world.ids, clock=world.clock, rng=world.rng, check=setup.check_model)
    workplaces = desk.workplaces = setup.make_workplaces(desk)
    limits = world.limits(setup.concurrency)
    titles = Titles(store=store, model=setup.model, limits=limits, ids=world.ids, group=group, watch=counters)
    runner = _build_runner(
        world, setup, RunnerParts(store, bus, workplaces, group, titles, limits, counters, reach)
    )
    dispatcher = _build_dispatcher(world, setup, store, runner, group=group, watch=counters)
    courier = _build_courier(world, setup, store, dispatcher, group=group, watch=counters)
    store.listen(courier.on_commit)
    store.listen(_commit_listener(dispatcher, answers, bus, ChildProgress(bus=bus, clock=world.clock)))
    runtime = Runtime(
        store=store,
        bus=bus,
        answers=answers,
        dispatcher=dispatcher,
        clock=world.clock,
        rng=world.rng,
        ids=world.ids,
        alive=world.owners.alive,
        defaults=PromptDefaults(
            setup.agent, setup.model_ref, setup.model, setup.check_model, setup.missing_model
        ),
        workplaces=workplaces,
        counters=counters,
        reach=reach,
        pool=world.pool,
    )
    dispatcher.expiry.count_stuck = counters.stuck.add
    runtime.readiness = Readiness(store.health, group)
    connect_peers(world, dispatcher, limits, bus=bus, answers=answers)
    runtime.tasks.is_served_elsewhere = world.peers.is_served
    if setup.plugins is not None:
        setup.plugins.begin(runtime, bus, group)
    return runtime, dispatcher, courier, titles


def _commit_listener(
    dispatcher: Dispatcher, answers: AnswerWaiters, bus: Bus, mirror: ChildProgress
) -> Callable[[Commit], None]:
    """Return the listener for commits: the dispatcher and waiters act before events are published."""

    def committed(commit: Commit) -> None:
        dispatcher.on_commit(commit)
        answers.on_commit(commit)
        bus.advance_revision(commit.upto, commit.at)
        for event in commit.events:
            bus.publish(event)
        mirror.on_commit(commit)

    return committed


def _build_dispatcher(
    world: Backend, setup: Setup, store: Store, runner: Runner, *, group: asyncio.TaskGroup, watch: Observer
) -> Dispatcher:
    return Dispatcher(
        store=store,
        runner=runner,
        owner=world.owners.me,
        alive=world.owners.alive,
        pools=world.pools,
        most=world.max_sessions,
        hinted=world.session_queue is not None,
        clock=world.clock,
        group=group,
        keep_ms=int(setup.async_tools.keep_days * DAY * 1000),
        watch=watch,
    )


def _build_courier(
    world: Backend,
    setup: Setup,
    store: Store,
    dispatcher: Dispatcher,
    *,
    group: asyncio.TaskGroup,
    watch: Observer,
) -> DeliveryLoop:
    clock, rng = world.clock, world.rng
    return DeliveryLoop(
        store, setup.post, dispatcher.wait_until_serving, clock=clock, rng=rng, group=group, watch=watch
    )


class RunnerParts(Struct, frozen=True):
    """The objects that the step runner, the call executor and the runner of one runtime share."""

    store: Store
    bus: Bus
    workplaces: Workplaces
    group: asyncio.TaskGroup
    titles: Titles
    limits: Limits
    observer: Observer
    reach: IncomingWebhook


def _build_runner(world: Backend, setup: Setup, hall: RunnerParts) -> Runner:
    clock, ids, store, group = world.clock, world.ids, hall.store, hall.group
    unasked = setup.before_rest is no_objection
    turn = StepRunner(
        titles=hall.titles,
        store=store,
        model=setup.model,
        workplaces=hall.workplaces,
        bus=hall.bus,
        clock=clock,
        ids=ids,
        rng=world.rng,
        limits=hall.limits,
        windows=setup.model.window if isinstance(setup.model, HasWindow) else no_window,
        group=group,
        over=is_turn_over if unasked else None,
        watch=hall.observer,
    )
    calls = CallExecutor(
        store=store,
        workplaces=hall.workplaces,
        bus=hall.bus,
        clock=clock,
        ids=ids,
        group=group,
        reach=hall.reach,
        watch=hall.observer,
    )
    enforcer = TodoEnforcer(store=store, workplaces=hall.workplaces, clock=clock, ids=ids)
    before_rest = setup.before_rest if hall.workplaces.is_fixed else chain(enforcer, setup.before_rest)
    return Runner(
        store=store, turn=turn, calls=calls, before_rest=before_rest, clock=clock, watch=hall.observer
    )
