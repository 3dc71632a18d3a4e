"""Run the step of an external agent: store and publish what it streams, and how it ended."""

import asyncio
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.call.call import ABORTED
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.failure import MessageAbortedError, unknown_error
from asyncagents.domain.id import Ids, MessageId
from asyncagents.domain.session_state import Snapshot
from asyncagents.domain.step import StartedStep, StepEnd
from asyncagents.engine.external.agent import (
    EXTERNAL_PROVIDER,
    ExternalAgents,
    ExternalAsk,
    ExternalCallUpdate,
    ExternalEvent,
    ExternalPlan,
    ExternalSessionUpdate,
    ExternalStep,
)
from asyncagents.engine.external.calls import ObservedCalls, ObservedStep
from asyncagents.engine.external.prompt import find_input
from asyncagents.engine.observer import Observer
from asyncagents.engine.run import Run, is_being_cancelled
from asyncagents.engine.step.draft import Draft
from asyncagents.engine.step.step_request import StepRequest
from asyncagents.engine.step.stream_writer import StreamWriter
from asyncagents.engine.workplace.permission import Permissions, RuleResolver
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import InvalidInput, NotFound, StoreError
from asyncagents.llm.model import ChatRequest
from asyncagents.store.store import Store

NO_FORMAT = "An external agent cannot give a structured answer: ask without a format."
NOT_OFFERED = "This runtime runs no external agents."
LEFT_WITHOUT_RESULT = "The external agent ended its turn without a result of this call."


class StepOutlet(Struct, frozen=True):
    """Where the stream of a step goes."""

    run: Run
    draft: Draft
    writer: StreamWriter
    workplace: Workplace
    started: StartedStep
    snapshot: Snapshot


class ExternalStreams:
    """Streams the steps of agents with a backend. `agents`: None if this runtime runs no programs."""

    def __init__(  # noqa: PLR0913  all that a step of an external agent needs
        self,
        agents: ExternalAgents | None,
        *,
        store: Store,
        rules: RuleResolver,
        clock: Clock,
        ids: Ids,
        group: asyncio.TaskGroup,
        observer: Observer,
    ) -> None:
        self._agents = agents
        self._store = store
        self._rules = rules
        self._permissions = Permissions(store=store, standing=rules, clock=clock, ids=ids)
        self._clock = clock
        self._ids = ids
        self._group = group
        self._observer = observer

    async def prepare(
        self, backend: AcpBackend, workplace: Workplace, started: StartedStep, snapshot: Snapshot
    ) -> StepRequest:
        """Build the step; a `StepRequest` without one says why the agent cannot be asked."""
        message, session = started.message, snapshot.info
        assert session is not None, "it comes from a store"
        if self._agents is None or started.output_format is not None:
            return StepRequest(request=None, why_not=NOT_OFFERED if self._agents is None else NO_FORMAT)
        try:
            rules = await self._rules.effective_rules(
                workplace, message.agent, session, above=started.ancestors
            )
        except InvalidInput as error:  # the agent is gone
            return StepRequest(request=None, why_not=str(error))
        known = await self._store.external.session(session.id)
        history = await self._store.model_history(session.id, whole=True)
        partial = await self._partial_text(known.prompt.step_id) if known and known.prompt else ""
        step = ExternalStep(
            session_id=session.id,
            step_id=message.id,
            agent=message.agent,
            backend=backend,
            directory=session.directory,
            input=find_input(history, message.id, known, partial=partial),
            instructions="\n\n".join(filter(None, (backend.instructions, started.system))),
            known=known,
            read_only=rules is not None and rules.denies_most("edit"),
        )
        return StepRequest(request=None, external=step)

    async def _partial_text(self, step_id: MessageId) -> str:
        try:
            return (await self._store.message(step_id)).text
        except NotFound:
            return ""

    async def read(self, step: ExternalStep, outlet: StepOutlet) -> None:
        """Stream the answer into the draft; a failure of the program becomes the draft's."""
        assert self._agents is not None, "checked when the step was prepared"
        calls = self._observed_calls(outlet)
        try:
            async with outlet.run.interruptible():
                await self._read_events(step, outlet, calls)
        except StoreError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # the edge of a program
            if is_being_cancelled():
                raise
            outlet.draft.fail(unknown_error(f"The external agent failed: {type(error).__name__}: {error}"))
        finally:
            await calls.close()
        if outlet.run.interrupted:
            outlet.draft.abort()

    def _observed_calls(self, outlet: StepOutlet) -> ObservedCalls:
        run, session = outlet.run, outlet.snapshot.info
        assert run.claim is not None and session is not None
        observed = ObservedStep(
            run=run,
            claim=run.claim,
            message=outlet.started.message,
            turn=outlet.started.turn,
            session=session,
            workplace=outlet.workplace,
        )
        return ObservedCalls(
            observed,
            store=self._store,
            permissions=self._permissions,
            clock=self._clock,
            ids=self._ids,
            group=self._group,
        )

    async def _read_events(self, step: ExternalStep, outlet: StepOutlet, calls: ObservedCalls) -> None:
        assert self._agents is not None, "checked when the step was prepared"
        draft = outlet.draft
        request = ChatRequest(model=draft.message.model_ref, messages=(*step.input.again, *step.input.unsent))
        with self._observer.model_span(request, step.session_id, step.agent) as seen:
            async with aclosing(self._agents.stream(step)) as events:
                async for event in events:
                    await self._apply(event, outlet, calls)
            seen.record_outcome(*draft.outcome, draft.as_message)

    async def _apply(self, event: ExternalEvent, outlet: StepOutlet, calls: ObservedCalls) -> None:
        match event:
            case ExternalSessionUpdate(session):
                assert outlet.run.claim is not None, "the run has claimed the session"
                await self._store.external.save_session(outlet.run.claim, session)
            case ExternalCallUpdate():
                await calls.observe(event)
            case ExternalAsk():
                await calls.ask(event)
            case ExternalPlan(todos):
                await calls.write_todos(todos)
            case _:
                change = outlet.draft.apply_event(event, self._clock.now())
                if change is not None:
                    outlet.writer.add_change(change)


def as_external(started: StartedStep) -> StartedStep:
    """Name the external agent as the model of a step, so that its usage counts for no model of ours."""
    message = replace(
        started.message,
        provider_id=EXTERNAL_PROVIDER,
        model_id=started.message.agent,
        variant=None,
    )
    return replace(started, message=message)


def end_external(end: StepEnd) -> StepEnd:
    """Let the end of a step settle the calls that its agent left open."""
    aborted = isinstance(end.message.error, MessageAbortedError)
    return replace(end, unfinished=ABORTED if aborted else LEFT_WITHOUT_RESULT)
