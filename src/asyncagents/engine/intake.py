"""A prompt on its way in: everything it needs is looked up and run before it is admitted, once per key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.config.commands import Command
from asyncagents.domain.command import Invocation, hints, invocation
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import CallId, Ids, MessageId, SessionId
from asyncagents.domain.message import ModelRef
from asyncagents.domain.part_input import PartInput, SubtaskInput, TextInput
from asyncagents.domain.permission import Action
from asyncagents.domain.session import Session, title_from
from asyncagents.domain.shape import Shape
from asyncagents.engine.agents import prompt_text
from asyncagents.engine.arrival import arrived, renewed
from asyncagents.engine.bundled import bundled
from asyncagents.engine.compose import Composer, subtask
from asyncagents.engine.hook import Commanded
from asyncagents.engine.input import Inputs, To, a_prompt, a_text, model_ref, some_parts
from asyncagents.engine.material import Judge, Material
from asyncagents.engine.permission import Standing
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.engine.workplace import Unusable, Workplace, Workplaces, enter
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store
from asyncagents.store.verb.session import NewSession

NO_COMMANDS = "there are no commands here: a runtime has them that was opened with `coding`"
NO_SHELL = "there is no shell here: a runtime has one that was opened with `coding`"
WORKER = "general"
"""Who does a subtask for which nobody is named."""


COMPACT = frozenset({"compact", "summarize"})
BUILT_IN = COMPACT
"""They come first: no file can take their names. What is typed behind them is given to them."""
_DESCRIBED = {"compact": "Sums the conversation up, so that it can go on for longer."}


class CommandInfo(Shape, frozen=True, kw_only=True):
    """A command as doors list it."""

    name: str
    source: str
    template: str
    hints: tuple[str, ...] = ()
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    subtask: bool | None = None


class _Turnstile(Struct):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Intake:
    def __init__(self, *, store: Store, workplaces: Workplaces, inputs: Inputs, ids: Ids) -> None:
        self._ids = ids
        self._store = store
        self._workplaces = workplaces
        self._inputs = inputs
        self._standing = Standing(store, workplaces)
        self._under_way: dict[tuple[str, str], _Turnstile] = {}

    @asynccontextmanager
    async def alone(self, scope: str, key: str | None) -> AsyncIterator[None]:
        """Until input of this key is admitted nobody else makes it here, so that a retry runs no shell."""
        if key is None or self._workplaces.bare:
            yield
            return
        lock = self._under_way.setdefault((scope, key), _Turnstile())
        lock.wanted += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.wanted -= 1
            if not lock.wanted:
                del self._under_way[scope, key]

    async def admit(
        self, session_id: SessionId, text: str, *, key: str | None, to: To, wakes: bool = True
    ) -> Admit:
        if not self._workplaces.bare:
            if key is not None and await self._store.is_known(session_id, key):
                return self._known(session_id, key)
            session = await self._store.session(session_id)
            return await self._taken_in(session, text, key=key, to=to, wakes=wakes)
        parts = await self._bare(text, to)
        return self._inputs.admit(session_id, parts, key=key, to=to, wakes=wakes)

    async def begin(self, new: NewSession, text: str, *, key: str | None, to: To) -> Admit:
        """For a session that is not there yet, unless its key is known."""
        session = new.info
        if not self._workplaces.bare:
            if key is not None and new.key is not None and await self._store.has_begun(new.key, key):
                return self._known(session.id, key)
            called = invocation(a_text(text, "a prompt"))
            if called is not None and called.name in BUILT_IN:
                raise InvalidInput(f"/{called.name} is for a session that has begun: continue one")
            return await self._taken_in(session, text, key=key, to=to)
        return self._inputs.admit(session.id, await self._bare(text, to), key=key, to=to)

    async def command(self, session_id: SessionId, called: Invocation, *, key: str | None, to: To) -> Admit:
        """As if it were typed, but it must be there."""
        if self._workplaces.bare:
            raise InvalidInput(NO_COMMANDS)
        if key is not None and await self._store.is_known(session_id, key):
            return self._known(session_id, key)
        session = await self._store.session(session_id)
        place = await enter(self._workplaces, session.directory)
        a_prompt(called.arguments)
        self._inputs.check(to)
        fact = await self._called(session, place, called, key=key, to=to)
        if fact is None:
            known = ", ".join(each.name for each in await self.commands(session.directory))
            raise InvalidInput(f"there is no command {called.name!r}; there are {known}")
        return await self._heard(session, fact)

    async def own(self, session_id: SessionId, *, key: str | None, to: To) -> Admit:
        """What stands before a command that a person runs. No hook has a word in it: nobody said it."""
        session = await self._store.session(session_id)
        place = await enter(self._workplaces, session.directory)
        self._inputs.check(to)
        if "bash" not in place.tools:
            raise InvalidInput(place.why if isinstance(place, Unusable) else NO_SHELL)
        said = TextInput(text=prompt_text("own-command"), synthetic=True)
        to = _addressed(place, session, to)
        return replace(self._inputs.admit(session_id, (said,), key=key, to=to), source="system")

    async def commands(self, directory: str) -> tuple[CommandInfo, ...]:
        place = await self._workplaces.at(directory)
        return () if place.material is None else listed(place.material)

    def _known(self, session_id: SessionId, key: str) -> Admit:
        """What the key stood for is in the rows: nothing is looked up or run for it again."""
        return self._inputs.admit(session_id, (TextInput(text="-"),), key=key, to=To())

    async def _bare(self, text: str, to: To) -> list[PartInput]:
        said: list[PartInput] = [TextInput(text=text)] if a_text(text, "a prompt").strip() else []
        if not to.get("files") and not to.get("parts"):
            return said
        composer = Composer(await self._workplaces.at("/"), "/", _no_judge, session_id=SessionId(""))
        return said + await _along(composer, to)

    async def _taken_in(
        self, session: Session, text: str, *, key: str | None, to: To, wakes: bool = True
    ) -> Admit:
        text = a_prompt(text)
        self._inputs.check(to)
        place = await enter(self._workplaces, session.directory)
        called = invocation(text)
        fact = await self._called(session, place, called, key=key, to=to) if called else None
        if fact is not None:
            return await self._heard(session, replace(fact, wakes=wakes))
        if text.strip() and (worker := _asked_of(place, session, to)) is not None:
            text, to = "", _as_a_task(text, worker, to)
        to = _addressed(place, session, to)
        composer = self._composer(session, place, to)
        parts = [*await composer.typed(text), *await _along(composer, to)]
        return await self._heard(session, self._inputs.admit(session.id, parts, key=key, to=to, wakes=wakes))

    async def _heard(self, session: Session, fact: Admit) -> Admit:
        """Others may have a word before it is admitted; what is about the session itself is not theirs."""
        if fact.source != "person":
            return fact
        return await arrived(self._workplaces, session.directory, fact, self._ids)

    async def _called(
        self, session: Session, place: Workplace, called: Invocation, *, key: str | None, to: To
    ) -> Admit | None:
        """None: there is no such command, so it is a prompt like others."""
        if called.name in COMPACT:
            to = _addressed(place, session, to)
            return self._inputs.compaction(session.id, called.arguments, key=key, to=to)
        if place.material is None:
            return None
        command = place.material.commands.get(called.name)
        if command is not None:
            return await self._filled(session, place, (command, called.arguments), key=key, to=to)
        ready = await self._ready_made(session, place, called, key=key, to=to)
        if ready is not None:
            return ready
        why_not = place.material.commands.why_not(called.name)
        if why_not is not None:
            raise InvalidInput(f"/{called.name} cannot be used: {why_not}")
        command = bundled().get(called.name)
        if command is None:
            return None
        return await self._filled(session, place, (command, called.arguments), key=key, to=to)

    async def _ready_made(
        self, session: Session, place: Workplace, called: Invocation, *, key: str | None, to: To
    ) -> Admit | None:
        """A prompt of a server; None: there is none of this name."""
        to = _addressed(place, session, to)
        composer = self._composer(session, place, to)
        said = await composer.ready_prompt(called)
        if said is None:
            return None
        fact = self._inputs.admit(session.id, [*said, *await _along(composer, to)], key=key, to=to)
        return await self._before(place, called, fact)

    async def _filled(
        self,
        session: Session,
        place: Workplace,
        called: tuple[Command, str],
        *,
        key: str | None,
        to: To,
    ) -> Admit:
        command, arguments = called
        worker = _worker(place, command)
        to = _addressed(place, session, to if worker else _as_it_says(place, command, to))
        composer = self._composer(session, place, to)
        along = await _along(composer, to)
        filled = await composer.filled(command, arguments)
        said: list[PartInput] = [TextInput(text=filled.text)] if filled.text else []
        parts = [subtask(command, worker, filled)] if worker else [*said, *filled.beside]
        fact = self._inputs.admit(session.id, [*parts, *along], key=key, to=to)
        return await self._before(place, Invocation(command.name, arguments), fact)

    async def _before(self, place: Workplace, called: Invocation, fact: Admit) -> Admit:
        """Hooks may change what a command became, whoever filled it in."""
        if "command.execute.before" not in place.hooks.names:
            return fact
        commanded = Commanded(
            session_id=fact.session_id, command=called.name, arguments=called.arguments, parts=fact.parts
        )
        return replace(fact, parts=renewed(await place.hooks.command(commanded), fact.message, self._ids))

    def _composer(self, session: Session, place: Workplace, to: To) -> Composer:
        agent = to.get("agent") or session.agent or place.default_agent() or ""

        async def judge() -> Judge:
            rules = await self._standing.rules(place, agent, session)
            policy = place.policy(agent, rules, await self._store.approvals(session.project_id))
            context = ToolContext(
                session_id=session.id,
                message_id=MessageId(""),
                call_id=CallId(""),
                agent=agent,
                directory=session.directory,
                rules=rules,
            )

            def judged(ask: Ask) -> Action:
                return policy(ask, context)

            return judged

        return Composer(place, session.directory, judge, session_id=session.id)


async def _no_judge() -> Judge:
    raise InvalidInput("no files can be read here")


async def _along(composer: Composer, to: To) -> list[PartInput]:
    """What a prompt brings besides its text."""
    files = await composer.files(to.get("files") or ())
    return files + await composer.ready(some_parts(to.get("parts") or ()))


def _addressed(place: Workplace, session: Session, to: To) -> To:
    """Whoever is chosen, or answers by default, brings a model of its own; a stranger is refused."""
    chosen: To = {**to}
    if chosen.get("agent") or not session.agent:
        agent = chosen.get("agent") or place.default_agent()
        if agent is not None:
            chosen["agent"] = agent
            chosen["model"] = chosen.get("model") or place.model(agent)
    if not chosen.get("model") and session.model is None:
        own = place.model(session.agent) if session.agent and not chosen.get("agent") else None
        chosen["model"] = own or place.default_model
    if chosen.get("variant") and not chosen.get("model") and session.model is not None:
        chosen["model"] = ModelRef(provider_id=session.model.provider_id, model_id=session.model.id)
    return chosen


def _as_a_task(text: str, worker: str, to: To) -> To:
    """What is left to say to the session itself."""
    model = model_ref(to.get("model"))
    task = SubtaskInput(prompt=text, description=title_from(text) or worker, agent=worker, model=model)
    return {**to, "agent": None, "model": None, "parts": (task, *(to.get("parts") or ()))}


def _asked_of(place: Workplace, session: Session, to: To) -> str | None:
    """A subagent that a person speaks to: the session gives it the task. In its own session it answers."""
    name = to.get("agent")
    if not name or name == session.agent or place.staff is None:
        return None
    agent = place.staff.get(name)
    return name if agent is not None and agent.mode == "subagent" else None


def _as_it_says(place: Workplace, command: Command, to: To) -> To:
    """Who answers a command, by its head."""
    config = command.config
    chosen: To = {**to}
    if config.agent is not None:
        chosen["agent"] = config.agent
        chosen["model"] = place.model(config.agent) or to.get("model")
    if config.model is not None:
        chosen["model"] = config.model
    if config.variant is not None:
        chosen["variant"] = config.variant
    return chosen


def _worker(place: Workplace, command: Command) -> str | None:
    """The subagent that a command is a task for; None: the session answers itself."""
    config = command.config
    if config.subtask is False or (config.subtask is None and config.agent is None):
        return None
    assert place.material is not None, "the command is its"
    name = config.agent or WORKER
    agent = place.material.agent(name)
    if agent is None:
        raise InvalidInput(f"/{command.name} wants the agent {name!r}, which is not here: name another one")
    return name if config.subtask or agent.mode == "subagent" else None


def listed(material: Material) -> tuple[CommandInfo, ...]:
    """The built-in ones first, unless there is another of that name; then by name."""
    built_in = [
        CommandInfo(name=name, source="built in", template="", description=said)
        for name, said in _DESCRIBED.items()
    ]
    found = material.commands.commands
    built_in += [_info(each) for name, each in bundled().items() if name not in found]
    return (*built_in, *(_info(found[name]) for name in sorted(found) if name not in BUILT_IN))


def _info(command: Command) -> CommandInfo:
    config = command.config
    return CommandInfo(
        name=command.name,
        source=command.scope if command.origin is None else str(command.origin),
        template=config.template,
        hints=hints(config.template),
        description=config.description,
        agent=config.agent,
        model=f"{config.model.provider_id}/{config.model.model_id}" if config.model else None,
        subtask=config.subtask,
    )
