"""Build the facts that launch or resume a task; the store commits them with the call."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.fork import ForkedHistory, fork_history
from asyncagents.delegation.parent_reader import SharedRead
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.permission import EXTERNAL_AGENT, TASK, LineageRules
from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import (
    Rule,
    Session,
    SessionTime,
    Tokens,
    project_id,
    random_slug,
    record_launch,
)
from asyncagents.domain.conversation.system_message import MessageTarget, build_user_message
from asyncagents.domain.envelope import one_line
from asyncagents.domain.fact import Admit, Resume, Spawn
from asyncagents.domain.id import CallId, Ids, SessionId
from asyncagents.domain.task.task import Task, TaskWithProgress, batch_of
from asyncagents.domain.task.texts import (
    ambiguous_id_text,
    cannot_work_text,
    denied_text,
    empty_task_text,
    foreign_task_text,
    invalid_name_text,
    no_sandbox_text,
    no_such_task_text,
    task_gone_text,
    unknown_agent_text,
)
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.input.message import accept_any_model, model_ref
from asyncagents.engine.input.message_hook import run_chat_message_hooks
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.engine.workplace.workplace import Workplaces, workplace_at
from asyncagents.errors import AsyncAgentsError, Damaged, NotFound, ToolError
from asyncagents.store.store import Store
from asyncagents.tools.project.agent_launch import SandboxTrial
from asyncagents.version import VERSION

DENIED_TO_CHILDREN = ("todowrite", "todoread", TASK)
"""Tools denied to children, unless the agent's own rules mention them."""


class LaunchRequest(Struct, frozen=True, kw_only=True):
    agent: str
    prompt: str
    description: str
    background: bool = True
    fork: bool = False
    model: str | None = None


class TaskLauncher:
    """Builds `Spawn` and `Resume` facts. `check` raises for a model that is known to be unusable."""

    def __init__(
        self,
        *,
        store: Store,
        ids: Ids,
        clock: Clock,
        rng: Rng,
        check: Callable[[ModelRef], None] = accept_any_model,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self._rng = rng
        self._check = check
        self._launcher_read = SharedRead(store)
        self.workplaces: Workplaces | None = None
        """Set by the app before the first launch."""

    async def find_agent(self, name: str, context: ToolContext) -> Agent | None:
        """Return the agent of that name; None where the workplace defines no agents and any name is valid.

        Raises `ToolError`, which lists the agents there are, for an unknown one.
        """
        assert self.workplaces is not None, "workplaces are set before the first launch"
        staff = (await workplace_at(self.workplaces, context.directory)).subagents
        if staff is None:
            if one_line(name) != name or not name:
                raise ToolError(invalid_name_text(name))
            return None
        if name not in staff:
            raise ToolError(unknown_agent_text(name, _launchable_agents(staff, context)))
        return staff[name]

    async def asks(self, name: str, description: str, context: ToolContext) -> tuple[Ask, ...]:
        """Return the asks of a launch; an external agent needs a permission of its own as well."""
        assert self.workplaces is not None, "workplaces are set before the first launch"
        asks = launch_asks(name, description)
        backend = (await workplace_at(self.workplaces, context.directory)).backend(name)
        if backend is None:
            return asks
        metadata = {"description": description, "agent": name, "command": backend.command_line}
        return (*asks, Ask(EXTERNAL_AGENT, (name,), (name,), metadata, exact=True))

    async def spawn(self, request: LaunchRequest, context: ToolContext, limits: DelegationConfig) -> Spawn:
        """Build the `Spawn` of a launch; its limits are checked when it is committed."""
        return (await self.launch(request, context, limits))[0]

    async def launch(
        self, request: LaunchRequest, context: ToolContext, limits: DelegationConfig
    ) -> tuple[Spawn, int]:
        """Build the `Spawn` of a launch, and estimate its place in the queue; 0: it need not wait."""
        if not (request.prompt.strip() and one_line(request.description)):
            raise ToolError(empty_task_text())
        agent = await self.find_agent(request.agent, context)
        await self._check_sandbox(agent, context)
        launcher, before = await self._launcher_read.read(context.session_id)
        parent = launcher.info
        info = record_launch(self._session(request, agent, parent), parent, agent=context.agent)
        fork = await self._fork(context, info.id) if request.fork else None
        batch = batch_of(parent.id, launcher.turn)
        task = _build_task(request, context, limits, child_id=info.id, batch=batch, now=self.clock.now())
        target = MessageTarget(info.id, request.agent, self._model(request, agent, parent))
        spawn = Spawn(
            info=info,
            first=await self._build_input(info, target, request.prompt, fork.preamble if fork else ""),
            task=task,
            history=fork.entries if fork else (),
            deepest=limits.depth,
            most=limits.spawns,
            trace=context.trace,
        )
        return spawn, max(0, launcher.crowd + before - limits.concurrent + 1)

    async def _check_sandbox(self, agent: Agent | None, context: ToolContext) -> None:
        """Raise `ToolError` for an external agent that may not edit where no sandbox can prevent it."""
        trial: object = self.workplaces
        if agent is None or agent.backend is None or not isinstance(trial, SandboxTrial):
            return
        own = LineageRules.from_rules(agent.layers.rules)
        if own.denies_most("edit") or (context.rules is not None and context.rules.denies_most("edit")):
            failure = await trial.sandbox_failure(context.directory)
            if failure:
                raise ToolError(no_sandbox_text(agent.name, failure))

    def _model(self, request: LaunchRequest, agent: Agent | None, parent: Session) -> ModelRef:
        """Return the requested model, else the agent's, else the parent's; `ToolError` if it is unusable."""
        own = agent.model if agent else None
        if own is not None and agent is not None and agent.variant:
            own = replace(own, variant=agent.variant)
        try:
            model = model_ref(request.model) or own or _model_of(parent)
            self._check(model)
        except AsyncAgentsError as error:
            raise ToolError(cannot_work_text(str(error))) from error
        return model

    def _session(self, request: LaunchRequest, agent: Agent | None, parent: Session) -> Session:
        now = self.clock.now()
        return Session(
            id=self.ids.session(),
            slug=random_slug(self._rng),
            project_id=project_id(parent.directory),
            directory=parent.directory,
            path=parent.path,
            parent_id=parent.id,
            title=f"{one_line(request.description)} (@{one_line(request.agent)} subagent)",
            version=VERSION,
            time=SessionTime(created=now, updated=now),
            cost=0,
            tokens=Tokens.zero(),
            permission=child_rules(agent, background=request.background) or None,
        )

    async def _build_input(
        self, child: Session, target: MessageTarget, prompt: str, preamble: str = ""
    ) -> Admit:
        """Build the child's input and run the `chat.message` hooks, as for prompts of people."""
        message = build_user_message(target, self.ids.message(), self.clock.now())
        texts: list[tuple[str, bool | None]] = [(preamble, True), (replace_surrogates(prompt), None)]
        parts = tuple(
            TextPart(
                id=self.ids.part(),
                session_id=child.id,
                message_id=message.id,
                text=text,
                synthetic=hidden,
            )
            for text, hidden in texts
            if text
        )
        assert self.workplaces is not None, "workplaces are set before the first launch"
        fact = Admit(message=message, parts=parts, key=f"task:{message.id}")
        return await run_chat_message_hooks(self.workplaces, child.directory, fact, self.ids)

    async def _fork(self, context: ToolContext, to: SessionId) -> ForkedHistory:
        history = await self.store.model_history(context.session_id, whole=True)
        return fork_history(
            history.head, history.entries, before=context.message_id, to=to, ids=self.ids, shown=history.shown
        )

    async def resume(
        self, seen: TaskWithProgress, prompt: str, context: ToolContext, call_id: CallId | None = None
    ) -> Resume:
        """Build the `Resume` that sends a follow-up prompt to a task.

        Raises `ToolError` if the child is gone, the prompt is blank, or the agent is denied by now.
        """
        task = seen.task
        try:
            child = await self.store.session(task.id)
        except NotFound as error:
            raise ToolError(task_gone_text(task.id)) from error
        target = MessageTarget(child.id, child.agent or task.agent, _model_of(child))
        if not prompt.strip():
            raise ToolError(empty_task_text())
        if await self._is_denied(target.agent, context):
            raise ToolError(denied_text(target.agent))
        fact = replace(await self._build_input(child, target, prompt), trace=context.trace)
        return Resume(task.id, fact, prompt, call_id)

    async def _is_denied(self, agent: str, context: ToolContext) -> bool:
        """Tell whether the rules deny the launch of an agent by now."""
        rules = context.rules
        if rules is None:
            return False
        asks = await self.asks(agent, "", context)
        return any(rules.decide(ask.permission, ask.patterns) == "deny" for ask in asks)

    async def session_exists(self, session_id: SessionId) -> bool:
        """Return whether there is a session with this id, whichever session launched it."""
        try:
            await self.store.session(session_id)
        except NotFound:
            return False
        except Damaged:  # it exists but cannot be read
            return True
        return True

    async def find_task(self, given: str, context: ToolContext) -> TaskWithProgress:
        """Find a task of the calling session by its id or a unique prefix of it; else raise `ToolError`."""
        start = given.strip()
        start = start if start.startswith("ses_") else f"ses_{start}"
        found = await self.store.task_ids_with_prefix(context.session_id, start)
        if not found or not given.strip():
            exists = await self.session_exists(SessionId(start))
            raise ToolError(foreign_task_text(given.strip()) if exists else no_such_task_text(given))
        if len(found) > 1 and start not in found:
            raise ToolError(ambiguous_id_text(given, len(found)))
        return await self.store.task(SessionId(start) if start in found else found[0])


def launch_asks(agent: str, description: str) -> tuple[Ask, ...]:
    """Ask to launch an agent; all tools that launch share one permission."""
    metadata = {"description": description, "subagent_type": agent}
    return (Ask(TASK, (agent,), (agent,), metadata, exact=True),)


def _build_task(
    request: LaunchRequest,
    context: ToolContext,
    limits: DelegationConfig,
    *,
    child_id: SessionId,
    batch: str,
    now: int,
) -> Task:
    longest = None if limits.seconds is None else int(limits.seconds * 1000)
    return Task(
        id=child_id,
        parent_id=context.session_id,
        message_id=context.message_id,
        parent_agent=context.agent,
        agent=request.agent,
        description=request.description,
        prompt=request.prompt,
        batch=batch,
        created=now,
        began=now,
        background=request.background,
        forked=request.fork,
        crowd=limits.concurrent,
        longest=longest,
        due=None if longest is None else now + longest,
        calls=() if request.background else (context.call_id,),
    )


def _model_of(session: Session) -> ModelRef:
    assert session.model is not None, "a session with messages has a model"
    model = session.model
    return ModelRef(provider_id=model.provider_id, model_id=model.id, variant=model.variant)


def child_rules(agent: Agent | None, *, background: bool) -> tuple[Rule, ...]:
    """Return rules that deny a child tools which its agent's own rules do not mention.

    A background child is always denied `question`: no person answers it.
    """
    if agent is None:
        return ()
    own = {rule.permission for rule in agent.layers.agent}
    permissions = [each for each in DENIED_TO_CHILDREN if each not in own]
    denied = (*permissions, "question") if background else permissions
    return tuple(Rule(permission=each, pattern="*", action="deny") for each in denied)


def _launchable_agents(staff: Mapping[str, Agent], context: ToolContext) -> list[str]:
    rules = context.rules
    return [name for name in staff if rules is None or rules.evaluate(TASK, name) != "deny"]
