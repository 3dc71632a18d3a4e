"""The composition root: builds a runtime out of a database, a model and tools."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.backend import World, make_directory, open_world, poll_forever, tie, work_on
from asyncagents.app.default_model import SCRIPTED, Voice, open_voice
from asyncagents.config.clock import SystemClock
from asyncagents.config.config import DAY, AsyncToolsConfig, Config, DelegationConfig, TelemetryConfig
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import Fleet, fleet_config
from asyncagents.config.load import load
from asyncagents.delegation.launch import Desk
from asyncagents.delegation.progress import Mirror
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.call.executor import Calls
from asyncagents.engine.call.incoming_webhook import Reach
from asyncagents.engine.decide import is_over
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.input.message import Defaults, unchecked
from asyncagents.engine.metrics import Counters
from asyncagents.engine.observer import UNWATCHED, Watch
from asyncagents.engine.runner import BeforeRest, Runner, in_turn, rest_in_peace
from asyncagents.engine.runtime.answers import Answers
from asyncagents.engine.runtime.readiness import Readiness
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.step.step import Turn
from asyncagents.engine.step.title import Titles
from asyncagents.engine.tool import AnyTool, Policy, ask_everything, check_tools
from asyncagents.engine.webhook.delivery import Post, switched_off
from asyncagents.engine.webhook.delivery_loop import Courier
from asyncagents.engine.workplace.agents import DEFAULT_AGENT
from asyncagents.engine.workplace.workplace import Bare, Workplaces
from asyncagents.errors import InvalidInput
from asyncagents.llm.limits import Concurrency, Limits, default_concurrency
from asyncagents.llm.model import Model, Windowed, no_window
from asyncagents.plugins.api import Plugin
from asyncagents.plugins.todo_enforcer import TodoEnforcer
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.telemetry.open import chosen_watch
from asyncagents.tools.web.webhooks import open_post

_log = logging.getLogger(__name__)


Furnish: TypeAlias = Callable[[Desk], Workplaces]
"""Builds the workplaces of sessions; some tools need the store or the task launcher."""


def bare(
    tools: Sequence[AnyTool], policy: Policy = ask_everything, delegation: DelegationConfig | None = None
) -> Furnish:
    """Return a factory of workplaces with the same tools for every session, and tools for `delegation`.

    A tool of `tools` replaces a delegation tool of the same name, as with `coding`.
    """

    def furnish(desk: Desk) -> Workplaces:
        if delegation is None:
            return Bare(tools, policy)
        own = {tool.name for tool in tools}
        delegating = [tool for tool in delegation_tools(desk, delegation) if tool.name not in own]
        return Bare((*tools, *delegating), policy, reader=delegation.reader)

    return furnish


class Guests(Protocol):
    """The plugins of a runtime, started and stopped with it."""

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None: ...

    async def end(self) -> None: ...


class Furnished(Struct, frozen=True):
    furnish: Furnish
    plugins: Guests | None = None


class Setup(Struct, frozen=True, kw_only=True):
    """The parts of a runtime that do not depend on its backend; simulations use the same."""

    model: Model
    furnish: Furnish = bare(())
    plugins: Guests | None = None
    before_rest: BeforeRest = rest_in_peace
    serve: bool = True
    agent: str = DEFAULT_AGENT
    model_ref: ModelRef = SCRIPTED
    concurrency: Concurrency = default_concurrency
    check: Callable[[ModelRef], None] = unchecked
    """Raises if a model cannot be used; sends no request."""
    missing_model: str | None = None
    """Why there is no default model."""
    async_tools: AsyncToolsConfig = AsyncToolsConfig()
    post: Post = switched_off
    watch: Watch = UNWATCHED
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
    before_rest: BeforeRest = rest_in_peace,
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
    _check(tools, policy, delegation, coding=bool(coding))
    coding = config if coding is True and config is not None else coding
    if config is None and (data is None or model is None or isinstance(model, str)):
        config = _from_files()
    directory = make_directory(Path(data) if data is not None else _configured(config).data_dir)
    async with (
        open_voice(model, config, needed=bool(serve) and needs_model) as voice,
        _furnished(directory, tools, policy, coding, plugins=plugins, delegation=delegation) as furnished,
    ):
        outside = async_tools or (config.async_tools if config else AsyncToolsConfig())
        setup = _setup(voice, furnished, before_rest, outside, serve=serve is True)
        setup = replace(setup, watch=chosen_watch(telemetry, config, SystemClock()))
        async with _open(directory, setup, fleet or fleet_config(system_environment())) as runtime:
            yield runtime


def _setup(
    voice: Voice, furnished: Furnished, before_rest: BeforeRest, outside: AsyncToolsConfig, *, serve: bool
) -> Setup:
    return Setup(
        model=voice.model,
        furnish=furnished.furnish,
        plugins=furnished.plugins,
        before_rest=before_rest,
        serve=serve,
        model_ref=voice.ref,
        concurrency=voice.concurrency,
        check=voice.check,
        missing_model=voice.missing,
        async_tools=outside,
    )


def _check(
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
async def _open(directory: Path, setup: Setup, fleet: Fleet | None) -> AsyncIterator[Runtime]:
    async with (
        open_world(directory, fleet) as world,
        open_post(setup.async_tools.webhooks) as post,
        start(world, replace(setup, post=post)) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def _furnished(
    data: Path,
    tools: Sequence[AnyTool],
    policy: Policy,
    coding: bool | Config | str,
    *,
    plugins: Sequence[Plugin],
    delegation: bool | DelegationConfig,
) -> AsyncIterator[Furnished]:
    if coding is False:
        furnish = bare(tools, policy, DelegationConfig() if delegation is True else delegation or None)
        yield _with_plugins(furnish, policy, data, plugins) if plugins else Furnished(furnish)
        return
    from asyncagents.plugins.plugins import Plugins  # start-up: as below
    from asyncagents.tools.project.factory import open_coding  # start-up: not needed without coding

    config = coding if isinstance(coding, Config) else None
    output = data / "tool-output"
    added = Plugins(system_environment(), output=output, own=plugins)
    async with open_coding(
        output, config=config, tools=tools, clock=SystemClock(), extensions=added
    ) as open_projects:

        def furnish(desk: Desk) -> Workplaces:
            return open_projects(desk.store, desk.ids, lambda config: delegation_tools(desk, config))

        yield Furnished(furnish, added)


def _with_plugins(without: Furnish, policy: Policy, data: Path, plugins: Sequence[Plugin]) -> Furnished:
    from asyncagents.plugins.workplaces import plug_in  # start-up: most programs have no plugins

    return Furnished(*plug_in(without, policy, data, plugins))


def _from_files() -> Config:
    loaded = load(system_environment(), directory=Path.cwd())
    for warning in loaded.warnings:
        _log.warning("%s", warning)
    return loaded.config


def _configured(config: Config | None) -> Config:
    assert config is not None, "the config is not loaded"
    return config


@asynccontextmanager
async def start(world: World, setup: Setup) -> AsyncIterator[Runtime]:
    """Assemble a runtime and run it until the block ends."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        runtime, dispatcher, courier, titles = _assemble(world, setup, group)
        runtime.board.read_in(group)
        work = [await dispatcher.begin(), poll_forever(world, dispatcher.look_again), courier.work_forever()]
        if world.jobs is not None:
            work.append(work_on(world.jobs, dispatcher))
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
    world: World, setup: Setup, group: asyncio.TaskGroup
) -> tuple[Runtime, Dispatcher, Courier, Titles]:
    store, bus, answers = Store(world.database), Bus(), Answers()
    counters, reach = Counters(world.clock, setup.watch), Reach(setup.async_tools, store.pending, world.rng)
    desk = Desk(store=store, ids=world.ids, clock=world.clock, rng=world.rng, check=setup.check)
    workplaces = desk.workplaces = setup.furnish(desk)
    limits = world.limits(setup.concurrency)
    titles = Titles(store=store, model=setup.model, limits=limits, ids=world.ids, group=group, watch=counters)
    runner = _runner(world, setup, Hall(store, bus, workplaces, group, titles, limits, counters, reach))
    dispatcher = _dispatcher(world, setup, store, runner, group=group, watch=counters)
    courier = _courier(world, setup, store, dispatcher, group=group, watch=counters)
    store.listen(courier.committed)
    store.listen(_heard(dispatcher, answers, bus, Mirror(bus=bus, clock=world.clock)))
    runtime = Runtime(
        store=store,
        bus=bus,
        answers=answers,
        dispatcher=dispatcher,
        clock=world.clock,
        rng=world.rng,
        ids=world.ids,
        alive=world.owners.alive,
        defaults=Defaults(setup.agent, setup.model_ref, setup.model, setup.check, setup.missing_model),
        workplaces=workplaces,
        counters=counters,
        reach=reach,
        pool=world.pool,
    )
    dispatcher.expiry.count = counters.stuck.add
    runtime.readiness = Readiness(store.health, group)
    tie(world, dispatcher, limits, bus=bus, answers=answers)
    runtime.tasks.served_elsewhere = world.bond.served
    if setup.plugins is not None:
        setup.plugins.begin(runtime, bus, group)
    return runtime, dispatcher, courier, titles


def _heard(dispatcher: Dispatcher, answers: Answers, bus: Bus, mirror: Mirror) -> Callable[[Commit], None]:
    """Return the listener for commits: the dispatcher and waiters act before events are published."""

    def committed(commit: Commit) -> None:
        dispatcher.committed(commit)
        answers.committed(commit)
        bus.reached(commit.upto, commit.at)
        for event in commit.events:
            bus.publish(event)
        mirror.committed(commit)

    return committed


def _dispatcher(
    world: World, setup: Setup, store: Store, runner: Runner, *, group: asyncio.TaskGroup, watch: Watch
) -> Dispatcher:
    return Dispatcher(
        store=store,
        runner=runner,
        owner=world.owners.me,
        alive=world.owners.alive,
        pools=world.pools,
        most=world.most,
        hinted=world.jobs is not None,
        clock=world.clock,
        group=group,
        keep_ms=int(setup.async_tools.keep_days * DAY * 1000),
        watch=watch,
    )


def _courier(
    world: World,
    setup: Setup,
    store: Store,
    dispatcher: Dispatcher,
    *,
    group: asyncio.TaskGroup,
    watch: Watch,
) -> Courier:
    clock, rng = world.clock, world.rng
    return Courier(store, setup.post, dispatcher.serving, clock=clock, rng=rng, group=group, watch=watch)


class Hall(Struct, frozen=True):
    """The objects that the step runner, the call executor and the runner of one runtime share."""

    store: Store
    bus: Bus
    workplaces: Workplaces
    group: asyncio.TaskGroup
    titles: Titles
    limits: Limits
    watch: Watch
    reach: Reach


def _runner(world: World, setup: Setup, hall: Hall) -> Runner:
    clock, ids, store, group = world.clock, world.ids, hall.store, hall.group
    unasked = setup.before_rest is rest_in_peace
    turn = Turn(
        titles=hall.titles,
        store=store,
        model=setup.model,
        workplaces=hall.workplaces,
        bus=hall.bus,
        clock=clock,
        ids=ids,
        rng=world.rng,
        limits=hall.limits,
        windows=setup.model.window if isinstance(setup.model, Windowed) else no_window,
        group=group,
        over=is_over if unasked else None,
        watch=hall.watch,
    )
    calls = Calls(
        store=store,
        workplaces=hall.workplaces,
        bus=hall.bus,
        clock=clock,
        ids=ids,
        group=group,
        reach=hall.reach,
        watch=hall.watch,
    )
    enforcer = TodoEnforcer(store=store, workplaces=hall.workplaces, clock=clock, ids=ids)
    before_rest = setup.before_rest if hall.workplaces.bare else in_turn(enforcer, setup.before_rest)
    return Runner(store=store, turn=turn, calls=calls, before_rest=before_rest, clock=clock, watch=hall.watch)
