"""Prepare prompts and commands for admission: look up files, run shells and hooks, once per key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.config.markdown.commands import Command
from asyncagents.domain.agent.command import Invocation, hints, invocation
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.conversation.part_input import PartInput, TextInput
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import CallId, Ids, MessageId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.input.addressee import (
    as_task,
    choose_addressee,
    choose_by_command,
    find_asked_subagent,
    find_command_worker,
    texts_as_task,
)
from asyncagents.engine.input.builtin_commands import bundled
from asyncagents.engine.input.compose import Composer, subtask
from asyncagents.engine.input.content_hash import with_hash
from asyncagents.engine.input.message import Inputs, To, a_prompt, a_text, some_parts
from asyncagents.engine.input.message_hook import arrived, renewed
from asyncagents.engine.input.model_gate import ModelGate
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.hooks import Commanded
from asyncagents.engine.workplace.permission import Standing
from asyncagents.engine.workplace.prompt_sources import Judge, Material
from asyncagents.engine.workplace.workplace import Unusable, Workplace, Workplaces, enter
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store
from asyncagents.store.verb.session import NewSession

NO_COMMANDS = "there are no commands here: open the runtime with `coding`"
NO_SHELL = "there is no shell here: open the runtime with `coding`"
COMPACT = frozenset({"compact", "summarize"})
BUILT_IN = COMPACT
"""Commands that no file can override; the text behind them is their argument."""
_DESCRIBED = {"compact": "Sums the conversation up, so that it can go on for longer."}


class CommandInfo(Shape, frozen=True, kw_only=True):
    """A slash command, as the CLI and HTTP list it."""

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
    def __init__(
        self, *, store: Store, workplaces: Workplaces, inputs: Inputs, ids: Ids, gate: ModelGate
    ) -> None:
        self.gate = gate
        self._ids = ids
        self._store = store
        self._workplaces = workplaces
        self._inputs = inputs
        self._standing = Standing(store, workplaces)
        self._under_way: dict[tuple[str, str], _Turnstile] = {}

    @asynccontextmanager
    async def alone(self, scope: str, key: str | None) -> AsyncIterator[None]:
        """Hold the lock of a key until its input is admitted, so that a concurrent retry runs no shell."""
        if key is None or self._plain:
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
        fact = await self._admit(session_id, text, key=key, to=to, wakes=wakes)
        return with_hash(await self.gate.check_input(fact), key, to, text=text, wakes=wakes)

    async def _admit(
        self, session_id: SessionId, text: str, *, key: str | None, to: To, wakes: bool = True
    ) -> Admit:
        if not self._workplaces.bare:
            if key is not None and await self._store.is_known(session_id, key):
                return self._known(session_id, key)
            session = await self._store.session(session_id)
            return await self._taken_in(session, text, key=key, to=to, wakes=wakes)
        if self._plain:
            return self._inputs.admit(session_id, await self._bare(text, to), key=key, to=to, wakes=wakes)
        if key is not None and await self._store.is_known(session_id, key):
            return self._known(session_id, key)
        return await self._bare_heard(
            await self._store.session(session_id), text, key=key, to=to, wakes=wakes
        )

    async def begin(self, new: NewSession, text: str, *, key: str | None, to: To) -> Admit:
        """Prepare the first prompt of a session that is not created yet, unless its key is known."""
        fact = await self._begin(new, text, key=key, to=to)
        if key is None or new.key is None or not await self._store.has_begun(new.key, key):
            await self.gate.check_input(fact, new.info)
        return with_hash(fact, key, to, text=text)

    async def _begin(self, new: NewSession, text: str, *, key: str | None, to: To) -> Admit:
        session = new.info
        if not self._workplaces.bare:
            if key is not None and new.key is not None and await self._store.has_begun(new.key, key):
                return self._known(session.id, key)
            called = invocation(a_text(text, "a prompt"))
            if called is not None and called.name in BUILT_IN:
                raise InvalidInput(f"/{called.name} needs an existing session: continue one")
            return await self._taken_in(session, text, key=key, to=to)
        if self._plain:
            return self._inputs.admit(session.id, await self._bare(text, to), key=key, to=to)
        if key is not None and new.key is not None and await self._store.has_begun(new.key, key):
            return self._known(session.id, key)
        return await self._bare_heard(session, text, key=key, to=to)

    @property
    def _plain(self) -> bool:
        """Whether prompts are admitted unchanged, without files and hooks."""
        return self._workplaces.bare and not self._workplaces.hooked

    async def _bare_heard(
        self, session: Session, text: str, *, key: str | None, to: To, wakes: bool = True
    ) -> Admit:
        """Prepare a prompt where there are no files, with the hooks of plugins."""
        parts = await self._bare(text, to, session.directory)
        return await self._heard(session, self._inputs.admit(session.id, parts, key=key, to=to, wakes=wakes))

    async def command(self, session_id: SessionId, called: Invocation, *, key: str | None, to: To) -> Admit:
        """Prepare a slash command. Raises `InvalidInput` if it does not exist."""
        fact = await self.gate.check_input(await self._command(session_id, called, key=key, to=to))
        return with_hash(fact, key, to, command=called.name, arguments=called.arguments)

    async def _command(self, session_id: SessionId, called: Invocation, *, key: str | None, to: To) -> Admit:
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
            raise InvalidInput(f"there is no command {called.name!r}: use one of {known}")
        return await self._heard(session, fact)

    async def own(self, session_id: SessionId, *, key: str | None, to: To) -> Admit:
        """Prepare the message before a shell command that a person runs. No hooks run: it is not a prompt."""
        session = await self._store.session(session_id)
        place = await enter(self._workplaces, session.directory)
        self._inputs.check(to)
        if "bash" not in place.tools:
            raise InvalidInput(place.why if isinstance(place, Unusable) else NO_SHELL)
        said = TextInput(text=prompt_text("own-command"), synthetic=True)
        to = choose_addressee(place, session, to)
        return replace(self._inputs.admit(session_id, (said,), key=key, to=to), source="system")

    async def commands(self, directory: str) -> tuple[CommandInfo, ...]:
        place = await self._workplaces.at(directory)
        return () if place.material is None else listed(place.material)

    def _known(self, session_id: SessionId, key: str) -> Admit:
        """Build placeholder input for a known key: the store returns the first one, nothing is run again."""
        return self._inputs.admit(session_id, (TextInput(text="-"),), key=key, to=To())

    async def _bare(self, text: str, to: To, directory: str = "/") -> list[PartInput]:
        said: list[PartInput] = [TextInput(text=text)] if a_text(text, "a prompt").strip() else []
        if not to.get("files") and not to.get("parts"):
            return said
        composer = Composer(await self._workplaces.at(directory), "/", _no_judge, session_id=SessionId(""))
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
        worker = find_asked_subagent(place, session, to)
        if worker is not None and text.strip():
            text, to = "", as_task(text, worker, to)
        elif worker is not None and wakes:  # input that wants no reply is not a task
            to = texts_as_task(worker, to)
        to = choose_addressee(place, session, to)
        composer = self._composer(session, place, to)
        parts = [*await composer.typed(text), *await _along(composer, to)]
        return await self._heard(session, self._inputs.admit(session.id, parts, key=key, to=to, wakes=wakes))

    async def _heard(self, session: Session, fact: Admit) -> Admit:
        """Run the `chat.message` hooks on a person's prompt; other input (a compaction) skips them."""
        if fact.source != "person":
            return fact
        return await arrived(self._workplaces, session.directory, fact, self._ids)

    async def _called(
        self, session: Session, place: Workplace, called: Invocation, *, key: str | None, to: To
    ) -> Admit | None:
        """Compose the input of a command; None if there is none of that name: it is a plain prompt."""
        if called.name in COMPACT:
            to = choose_addressee(place, session, to)
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
        place.material.commands.check_trust(called.name)
        command = bundled().get(called.name)
        if command is None:
            return None
        return await self._filled(session, place, (command, called.arguments), key=key, to=to)

    async def _ready_made(
        self, session: Session, place: Workplace, called: Invocation, *, key: str | None, to: To
    ) -> Admit | None:
        """Compose the input of an MCP prompt; None if there is none of this name."""
        to = choose_addressee(place, session, to)
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
        worker = find_command_worker(place, command)
        to = choose_addressee(place, session, to if worker else choose_by_command(place, command, to))
        composer = self._composer(session, place, to)
        along = await _along(composer, to)
        filled = await composer.filled(command, arguments)
        said: list[PartInput] = [TextInput(text=filled.text)] if filled.text else []
        parts = [subtask(command, worker, filled)] if worker else [*said, *filled.beside]
        fact = self._inputs.admit(session.id, [*parts, *along], key=key, to=to)
        return await self._before(place, Invocation(command.name, arguments), fact)

    async def _before(self, place: Workplace, called: Invocation, fact: Admit) -> Admit:
        """Run the `command.execute.before` hooks on a filled command."""
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
    """Return the parts of a prompt besides its text: attached files and a client's parts."""
    files = await composer.files(to.get("files") or ())
    return files + await composer.ready(some_parts(to.get("parts") or ()))


def listed(material: Material) -> tuple[CommandInfo, ...]:
    """List the built-in commands that are not overridden, then the others by name."""
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
