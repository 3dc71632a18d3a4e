"""Build the parts of a runtime on a backend, and run them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct, field

from asyncagents.app.backend import Backend, connect_peers, poll_forever, run_session_queue
from asyncagents.app.default_model import SCRIPTED_MODEL
from asyncagents.app.workplaces import OpenWorkplaces, PluginHost, fixed_tools
from asyncagents.config.config import DAY, AsyncToolsConfig
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.progress import ChildProgress
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.call.executor import CallExecutor
from asyncagents.engine.call.incoming_webhook import IncomingWebhook
from asyncagents.engine.call.server_task_poller import ServerTaskPoller
from asyncagents.engine.decide import is_turn_over
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.external.agent import ExternalAgents
from asyncagents.engine.external.stream import ExternalStreams
from asyncagents.engine.input.message import PromptDefaults, accept_any_model
from asyncagents.engine.metrics import Counters
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.runner import BeforeRest, Runner, chain, no_objection
from asyncagents.engine.runtime.answers import AnswerWaiters
from asyncagents.engine.runtime.readiness import Readiness
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.step.step import StepRunner
from asyncagents.engine.step.title import Titles
from asyncagents.engine.webhook.delivery import SendWebhook, refuse_delivery
from asyncagents.engine.webhook.delivery_loop import DeliveryLoop
from asyncagents.engine.workplace.agents import DEFAULT_AGENT
from asyncagents.engine.workplace.permission import RuleResolver
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.llm.limits import Concurrency, Limits, default_concurrency
from asyncagents.llm.model import HasWindow, Model, no_window
from asyncagents.plugins.todo_enforcer import TodoEnforcer
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

BuildExternal: TypeAlias = Callable[[Workplaces, asyncio.TaskGroup, Clock], ExternalAgents | None]


def no_external_agents(workplaces: Workplaces, group: asyncio.TaskGroup, clock: Clock) -> None:
    """Run no external agents: a step of an agent with a backend fails."""


class Setup(Struct, frozen=True, kw_only=True):
    """The parts of a runtime that do not depend on its backend; simulations use the same."""

    model: Model
    open_workplaces: OpenWorkplaces = fixed_tools(())
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
    build_external: BuildExternal = no_external_agents
    """Builds what runs external agents, from the workplaces."""
    observer: Observer = NOOP_OBSERVER
    """Observes the engine, besides the metrics of each runtime."""


class RuntimeParts(Struct, frozen=True, kw_only=True):
    """The objects that the parts of one runtime share."""

    backend: Backend
    setup: Setup
    group: asyncio.TaskGroup
    store: Store
    workplaces: Workplaces
    limits: Limits
    counters: Counters
    incoming_webhook: IncomingWebhook
    bus: Bus = field(default_factory=Bus)
    answers: AnswerWaiters = field(default_factory=AnswerWaiters)


class BuiltRuntime(Struct, frozen=True):
    """A runtime with its parts that work by themselves."""

    runtime: Runtime
    dispatcher: Dispatcher
    deliveries: DeliveryLoop
    poller: ServerTaskPoller
    titles: Titles


@asynccontextmanager
async def start_runtime(backend: Backend, setup: Setup) -> AsyncIterator[Runtime]:
    """Assemble a runtime and run it until the block ends."""
    launcher = TaskLauncher(
        store=Store(backend.database),
        ids=backend.ids,
        clock=backend.clock,
        rng=backend.rng,
        check=setup.check_model,
    )
    async with (
        setup.open_workplaces(launcher) as launcher.workplaces,
        _run_runtime(backend, setup, launcher) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def _run_runtime(backend: Backend, setup: Setup, launcher: TaskLauncher) -> AsyncIterator[Runtime]:
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        parts = _share_parts(backend, setup, launcher, group)
        built = _assemble(parts)
        runtime, dispatcher = built.runtime, built.dispatcher
        runtime.board.set_task_group(group)
        work = [
            await dispatcher.begin(),
            poll_forever(backend, dispatcher.request_sweep),
            built.deliveries.deliver_forever(),
        ]
        if parts.workplaces.mcp_control is not None:  # else rows wait for a process that has MCP servers
            work.append(built.poller.poll_forever())
        if backend.session_queue is not None:
            work.append(run_session_queue(backend.session_queue, dispatcher))
        tasks = [group.create_task(each) for each in work]
        if setup.serve:
            dispatcher.serve()
        try:
            yield runtime
        except BaseException as error:  # noqa: BLE001  raised after the group, which would wrap it
            failure = error
        for task in tasks:
            task.cancel()
        await dispatcher.stop()
        await built.deliveries.stop()
        await built.poller.stop()
        built.titles.stop()
        if setup.plugins is not None:
            await setup.plugins.end()
        runtime.close()
    if failure is not None:
        raise failure


def _share_parts(
    backend: Backend, setup: Setup, launcher: TaskLauncher, group: asyncio.TaskGroup
) -> RuntimeParts:
    assert launcher.workplaces is not None, "opened by the caller"
    return RuntimeParts(
        backend=backend,
        setup=setup,
        group=group,
        store=launcher.store,
        workplaces=launcher.workplaces,
        limits=backend.limits(setup.concurrency),
        counters=Counters(backend.clock, setup.observer),
        incoming_webhook=IncomingWebhook(setup.async_tools, launcher.store.pending, backend.rng),
    )


def _assemble(parts: RuntimeParts) -> BuiltRuntime:
    backend, store, bus, group = parts.backend, parts.store, parts.bus, parts.group
    titles = Titles(
        store=store,
        model=parts.setup.model,
        limits=parts.limits,
        ids=backend.ids,
        group=group,
        observer=parts.counters,
    )
    dispatcher = _build_dispatcher(parts, _build_runner(parts, titles))
    deliveries = DeliveryLoop(
        store,
        parts.setup.post,
        dispatcher.wait_until_serving,
        clock=backend.clock,
        rng=backend.rng,
        group=group,
        observer=parts.counters,
    )
    poller = ServerTaskPoller(
        store=store,
        workplaces=parts.workplaces,
        serving=dispatcher.wait_until_serving,
        pools=backend.pools,
        clock=backend.clock,
        group=group,
        count_poll=parts.counters.polls.add,
        observer=parts.counters,
    )
    store.listen(deliveries.on_commit)
    store.listen(poller.on_commit)
    store.listen(_commit_listener(dispatcher, parts))
    runtime = _build_runtime(parts, dispatcher)
    connect_peers(backend, dispatcher, parts.limits, bus=bus, answers=parts.answers)
    runtime.tasks.is_served_elsewhere = backend.peers.is_served
    if parts.setup.plugins is not None:
        parts.setup.plugins.begin(runtime, bus, group)
    return BuiltRuntime(runtime, dispatcher, deliveries, poller, titles)


def _commit_listener(dispatcher: Dispatcher, parts: RuntimeParts) -> Callable[[Commit], None]:
    """Return the listener for commits: the dispatcher and waiters act before events are published."""
    bus, answers = parts.bus, parts.answers
    progress = ChildProgress(bus=bus, clock=parts.backend.clock)

    def on_commit(commit: Commit) -> None:
        dispatcher.on_commit(commit)
        answers.on_commit(commit)
        bus.advance_revision(commit.upto, commit.at)
        for event in commit.events:
            bus.publish(event)
        progress.on_commit(commit)

    return on_commit


def _build_runtime(parts: RuntimeParts, dispatcher: Dispatcher) -> Runtime:
    backend, setup = parts.backend, parts.setup
    runtime = Runtime(
        store=parts.store,
        bus=parts.bus,
        answers=parts.answers,
        dispatcher=dispatcher,
        clock=backend.clock,
        rng=backend.rng,
        ids=backend.ids,
        alive=backend.owners.alive,
        defaults=PromptDefaults(
            setup.agent, setup.model_ref, setup.model, setup.check_model, setup.missing_model
        ),
        workplaces=parts.workplaces,
        counters=parts.counters,
        webhook=parts.incoming_webhook,
        pool=backend.pool,
    )
    runtime.readiness = Readiness(parts.store.health, parts.group)
    return runtime


def _build_dispatcher(parts: RuntimeParts, runner: Runner) -> Dispatcher:
    backend = parts.backend
    dispatcher = Dispatcher(
        store=parts.store,
        runner=runner,
        owner=backend.owners.me,
        alive=backend.owners.alive,
        pools=backend.pools,
        most=backend.max_sessions,
        hinted=backend.session_queue is not None,
        clock=backend.clock,
        group=parts.group,
        keep_ms=int(parts.setup.async_tools.keep_days * DAY * 1000),
        observer=parts.counters,
    )
    dispatcher.expiry.count_stuck = parts.counters.stuck.add
    return dispatcher


def _build_runner(parts: RuntimeParts, titles: Titles) -> Runner:
    setup, store, workplaces = parts.setup, parts.store, parts.workplaces
    clock, ids = parts.backend.clock, parts.backend.ids
    enforcer = TodoEnforcer(store=store, workplaces=workplaces, clock=clock, ids=ids)
    return Runner(
        store=store,
        step_runner=_build_step_runner(parts, titles),
        calls=CallExecutor(
            store=store,
            workplaces=workplaces,
            bus=parts.bus,
            clock=clock,
            ids=ids,
            group=parts.group,
            webhook=parts.incoming_webhook,
            observer=parts.counters,
        ),
        before_rest=setup.before_rest if workplaces.is_fixed else chain(enforcer, setup.before_rest),
        clock=clock,
        observer=parts.counters,
    )


def _build_step_runner(parts: RuntimeParts, titles: Titles) -> StepRunner:
    backend, model = parts.backend, parts.setup.model
    return StepRunner(
        titles=titles,
        external_streams=_build_external_streams(parts),
        store=parts.store,
        model=model,
        workplaces=parts.workplaces,
        bus=parts.bus,
        clock=backend.clock,
        ids=backend.ids,
        rng=backend.rng,
        limits=parts.limits,
        windows=model.window if isinstance(model, HasWindow) else no_window,
        group=parts.group,
        over=is_turn_over if parts.setup.before_rest is no_objection else None,
        observer=parts.counters,
    )


def _build_external_streams(parts: RuntimeParts) -> ExternalStreams:
    backend, workplaces = parts.backend, parts.workplaces
    return ExternalStreams(
        parts.setup.build_external(workplaces, parts.group, backend.clock),
        store=parts.store,
        rules=RuleResolver(parts.store, workplaces),
        clock=backend.clock,
        ids=backend.ids,
        group=parts.group,
        observer=parts.counters,
    )
