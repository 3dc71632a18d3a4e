"""Prepare prompts and commands for admission: look up files, run shells and hooks, once per key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.config.markdown.commands import CommandDefinition
from asyncagents.domain.agent.command import Invocation, argument_hints, parse_invocation
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.conversation.part_input import PartInput, TextInput
from asyncagents.domain.conversation.session import NewSession, Session
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
from asyncagents.engine.input.builtin_commands import builtin_commands
from asyncagents.engine.input.compose import Composer, subtask_input
from asyncagents.engine.input.content_hash import with_hash
from asyncagents.engine.input.message import (
    InputBuilder,
    PromptOptions,
    require_prompt,
    require_text,
    validate_parts,
)
from asyncagents.engine.input.message_hook import reassign_parts, run_chat_message_hooks
from asyncagents.engine.input.model_gate import ModelGate
from asyncagents.engine.tool import Ask, ToolContext
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.hooks import ExpandedCommand
from asyncagents.engine.workplace.permission import RuleResolver
from asyncagents.engine.workplace.prompt_sources import Judge, PromptSources
from asyncagents.engine.workplace.session_workplace import prompted_place
from asyncagents.engine.workplace.workplace import UnusableWorkplace, Workplace, Workplaces, workplace_at
from asyncagents.errors import InvalidInput
from asyncagents.store.store import Store

NO_COMMANDS = "there are no commands here: open the runtime with `coding`"
NO_SHELL = "there is no shell here: open the runtime with `coding`"
COMPACT_COMMANDS = frozenset({"compact", "summarize"})
RESERVED_COMMANDS = COMPACT_COMMANDS
"""Commands that no file can override; the text behind them is their argument."""
_DESCRIPTIONS = {"compact": "Sums the conversation up, so that it can go on for longer."}


class CommandInfo(Shape, frozen=True, kw_only=True):
    """A slash command, as `runtime.commands` and the HTTP API list it."""

    name: str
    source: str
    template: str
    hints: tuple[str, ...] = ()
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    subtask: bool | None = None


class _KeyLock(Struct):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Intake:
    def __init__(
        self, *, store: Store, workplaces: Workplaces, inputs: InputBuilder, ids: Ids, gate: ModelGate
    ) -> None:
        self.gate = gate
        self._ids = ids
        self._store = store
        self._workplaces = workplaces
        self._input_builder = inputs
        self._rule_resolver = RuleResolver(store, workplaces)
        self._key_locks: dict[tuple[str, str], _KeyLock] = {}

    @asynccontextmanager
    async def lock_key(self, scope: str, key: str | None) -> AsyncIterator[None]:
        """Hold the lock of a key until its input is admitted, so that a concurrent retry runs no shell."""
        if key is None or self._is_plain:
            yield
            return
        lock = self._key_locks.setdefault((scope, key), _KeyLock())
        lock.users += 1
        try:
            async with lock.lock:
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._key_locks[scope, key]

    async def prepare_prompt(
        self, session_id: SessionId, text: str, *, key: str | None, options: PromptOptions, wakes: bool = True
    ) -> Admit:
        fact = await self._prepare_prompt(session_id, text, key=key, options=options, wakes=wakes)
        return with_hash(await self.gate.check_input(fact), key, options, text=text, wakes=wakes)

    async def _prepare_prompt(
        self, session_id: SessionId, text: str, *, key: str | None, options: PromptOptions, wakes: bool = True
    ) -> Admit:
        if self._is_plain:
            parts = await self._parts_without_files(text, options)
            return self._input_builder.build_prompt(session_id, parts, key=key, options=options, wakes=wakes)
        if key is not None and await self._store.is_admitted(session_id, key):
            return self._build_repeat(session_id, key)
        session = await self._store.session(session_id)
        prepare = self._prepare_without_files if self._workplaces.is_fixed else self._compose_prompt
        return await prepare(session, text, key=key, options=options, wakes=wakes)

    async def prepare_first_prompt(
        self, new: NewSession, text: str, *, key: str | None, options: PromptOptions
    ) -> Admit:
        """Prepare the first prompt of a session that is not created yet, unless its key is known."""
        fact = await self._prepare_first_prompt(new, text, key=key, options=options)
        if key is None or new.key is None or not await self._store.has_begun(new.key, key):
            await self.gate.check_input(fact, new.info)
        return with_hash(fact, key, options, text=text)

    async def _prepare_first_prompt(
        self, new: NewSession, text: str, *, key: str | None, options: PromptOptions
    ) -> Admit:
        session = new.info
        if self._is_plain:
            parts = await self._parts_without_files(text, options)
            return self._input_builder.build_prompt(session.id, parts, key=key, options=options)
        if key is not None and new.key is not None and await self._store.has_begun(new.key, key):
            return self._build_repeat(session.id, key)
        if self._workplaces.is_fixed:
            return await self._prepare_without_files(session, text, key=key, options=options)
        invocation = parse_invocation(require_text(text, "a prompt"))
        if invocation is not None and invocation.name in RESERVED_COMMANDS:
            raise InvalidInput(f"/{invocation.name} needs an existing session: continue one")
        return await self._compose_prompt(session, text, key=key, options=options)

    @property
    def _is_plain(self) -> bool:
        """Whether prompts are admitted unchanged, without files and hooks."""
        return self._workplaces.is_fixed and not self._workplaces.has_hooks

    async def _prepare_without_files(
        self, session: Session, text: str, *, key: str | None, options: PromptOptions, wakes: bool = True
    ) -> Admit:
        """Prepare a prompt where there are no files, with the hooks of plugins."""
        parts = await self._parts_without_files(text, options, session.directory)
        return await self._run_message_hooks(
            session,
            self._input_builder.build_prompt(session.id, parts, key=key, options=options, wakes=wakes),
        )

    async def prepare_command(
        self, session_id: SessionId, invocation: Invocation, *, key: str | None, options: PromptOptions
    ) -> Admit:
        """Prepare a slash command. Raises `InvalidInput` if it does not exist."""
        fact = await self.gate.check_input(
            await self._prepare_command(session_id, invocation, key=key, options=options)
        )
        return with_hash(fact, key, options, command=invocation.name, arguments=invocation.arguments)

    async def _prepare_command(
        self, session_id: SessionId, invocation: Invocation, *, key: str | None, options: PromptOptions
    ) -> Admit:
        if self._workplaces.is_fixed:
            raise InvalidInput(NO_COMMANDS)
        if key is not None and await self._store.is_admitted(session_id, key):
            return self._build_repeat(session_id, key)
        session = await self._store.session(session_id)
        workplace = await prompted_place(self._store, self._workplaces, session)
        require_prompt(invocation.arguments)
        self._input_builder.check_options(options)
        fact = await self._compose_command(session, workplace, invocation, key=key, options=options)
        if fact is None:
            known = ", ".join(each.name for each in await self.list_commands(session.directory))
            raise InvalidInput(f"there is no command {invocation.name!r}: use one of {known}")
        return await self._run_message_hooks(session, fact)

    async def prepare_shell(self, session_id: SessionId, *, key: str | None, options: PromptOptions) -> Admit:
        """Prepare the message before a shell command that a person runs. No hooks run: it is not a prompt."""
        session = await self._store.session(session_id)
        workplace = await workplace_at(self._workplaces, session.directory)
        self._input_builder.check_options(options)
        if "bash" not in workplace.tools:
            raise InvalidInput(workplace.why if isinstance(workplace, UnusableWorkplace) else NO_SHELL)
        part = TextInput(text=prompt_text("own-command"), synthetic=True)
        options = choose_addressee(workplace, session, options)
        return replace(
            self._input_builder.build_prompt(session_id, (part,), key=key, options=options), source="system"
        )

    async def list_commands(self, directory: str) -> tuple[CommandInfo, ...]:
        workplace = await self._workplaces.at(directory)
        return () if workplace.prompt_sources is None else command_infos(workplace.prompt_sources)

    def _build_repeat(self, session_id: SessionId, key: str) -> Admit:
        """Build placeholder input for a known key: the store returns the first one, nothing is run again."""
        return self._input_builder.build_prompt(
            session_id, (TextInput(text="-"),), key=key, options=PromptOptions()
        )

    async def _parts_without_files(
        self, text: str, options: PromptOptions, directory: str = "/"
    ) -> list[PartInput]:
        parts: list[PartInput] = [TextInput(text=text)] if require_text(text, "a prompt").strip() else []
        if not options.get("files") and not options.get("parts"):
            return parts
        composer = Composer(
            await self._workplaces.at(directory), "/", _refuse_files, session_id=SessionId("")
        )
        return parts + await _extra_parts(composer, options)

    async def _compose_prompt(
        self, session: Session, text: str, *, key: str | None, options: PromptOptions, wakes: bool = True
    ) -> Admit:
        text = require_prompt(text)
        self._input_builder.check_options(options)
        workplace = await prompted_place(self._store, self._workplaces, session)
        invocation = parse_invocation(text)
        if invocation is not None:
            fact = await self._compose_command(session, workplace, invocation, key=key, options=options)
            if fact is not None:
                return await self._run_message_hooks(session, replace(fact, wakes=wakes))
        worker = find_asked_subagent(workplace, session, options)
        if worker is not None and text.strip():
            text, options = "", as_task(text, worker, options)
        elif worker is not None and wakes:  # input that wants no reply is not a task
            options = texts_as_task(worker, options)
        options = choose_addressee(workplace, session, options)
        composer = self._build_composer(session, workplace, options)
        parts = [*await composer.text_parts(text), *await _extra_parts(composer, options)]
        return await self._run_message_hooks(
            session,
            self._input_builder.build_prompt(session.id, parts, key=key, options=options, wakes=wakes),
        )

    async def _run_message_hooks(self, session: Session, fact: Admit) -> Admit:
        """Run the `chat.message` hooks on a person's prompt; other input (a compaction) skips them."""
        if fact.source != "person":
            return fact
        return await run_chat_message_hooks(self._workplaces, session.directory, fact, self._ids)

    async def _compose_command(
        self,
        session: Session,
        workplace: Workplace,
        invocation: Invocation,
        *,
        key: str | None,
        options: PromptOptions,
    ) -> Admit | None:
        """Compose the input of a command; None if there is none of that name: it is a plain prompt."""
        if invocation.name in COMPACT_COMMANDS:
            options = choose_addressee(workplace, session, options)
            return self._input_builder.build_compaction(
                session.id, invocation.arguments, key=key, options=options
            )
        if workplace.prompt_sources is None:
            return None
        command = workplace.prompt_sources.commands.get(invocation.name)
        if command is not None:
            return await self._compose_filled(
                session, workplace, (command, invocation.arguments), key=key, options=options
            )
        ready = await self._compose_server_prompt(session, workplace, invocation, key=key, options=options)
        if ready is not None:
            return ready
        why_not = workplace.prompt_sources.commands.why_broken(invocation.name)
        if why_not is not None:
            raise InvalidInput(f"/{invocation.name} cannot be used: {why_not}")
        workplace.prompt_sources.commands.check_trust(invocation.name)
        command = builtin_commands().get(invocation.name)
        if command is None:
            return None
        return await self._compose_filled(
            session, workplace, (command, invocation.arguments), key=key, options=options
        )

    async def _compose_server_prompt(
        self,
        session: Session,
        workplace: Workplace,
        invocation: Invocation,
        *,
        key: str | None,
        options: PromptOptions,
    ) -> Admit | None:
        """Compose the input of an MCP prompt; None if there is none of this name."""
        options = choose_addressee(workplace, session, options)
        composer = self._build_composer(session, workplace, options)
        parts = await composer.server_prompt_parts(invocation)
        if parts is None:
            return None
        fact = self._input_builder.build_prompt(
            session.id, [*parts, *await _extra_parts(composer, options)], key=key, options=options
        )
        return await self._run_command_hooks(workplace, invocation, fact)

    async def _compose_filled(
        self,
        session: Session,
        workplace: Workplace,
        called: tuple[CommandDefinition, str],
        *,
        key: str | None,
        options: PromptOptions,
    ) -> Admit:
        command, arguments = called
        worker = find_command_worker(workplace, command)
        options = choose_addressee(
            workplace, session, options if worker else choose_by_command(workplace, command, options)
        )
        composer = self._build_composer(session, workplace, options)
        along = await _extra_parts(composer, options)
        filled = await composer.fill_command(command, arguments)
        text_parts: list[PartInput] = [TextInput(text=filled.text)] if filled.text else []
        parts = [subtask_input(command, worker, filled)] if worker else [*text_parts, *filled.extra_parts]
        fact = self._input_builder.build_prompt(session.id, [*parts, *along], key=key, options=options)
        return await self._run_command_hooks(workplace, Invocation(command.name, arguments), fact)

    async def _run_command_hooks(self, workplace: Workplace, invocation: Invocation, fact: Admit) -> Admit:
        """Run the `command.execute.before` hooks on a filled command."""
        if "command.execute.before" not in workplace.hooks.names:
            return fact
        name, arguments = invocation.name, invocation.arguments
        expanded = ExpandedCommand(
            session_id=fact.session_id, command=name, arguments=arguments, parts=fact.parts
        )
        parts = await workplace.hooks.command(expanded)
        return replace(fact, parts=reassign_parts(parts, fact.message, self._ids))

    def _build_composer(self, session: Session, workplace: Workplace, options: PromptOptions) -> Composer:
        agent = options.get("agent") or session.agent or workplace.default_agent() or ""

        async def judge() -> Judge:
            rules = await self._rule_resolver.effective_rules(workplace, agent, session)
            policy = workplace.policy(agent, rules, await self._store.approvals(session.project_id))
            context = ToolContext(
                session_id=session.id,
                message_id=MessageId(""),
                call_id=CallId(""),
                agent=agent,
                directory=session.directory,
                rules=rules,
            )

            def judge_ask(ask: Ask) -> Action:
                return policy(ask, context)

            return judge_ask

        return Composer(workplace, session.directory, judge, session_id=session.id)


async def _refuse_files() -> Judge:
    raise InvalidInput("no files can be read here")


async def _extra_parts(composer: Composer, options: PromptOptions) -> list[PartInput]:
    """Return the parts of a prompt besides its text: attached files and a client's parts."""
    files = await composer.file_parts(options.get("files") or ())
    return files + await composer.complete_parts(validate_parts(options.get("parts") or ()))


def command_infos(sources: PromptSources) -> tuple[CommandInfo, ...]:
    """List the built-in commands that are not overridden, then the others by name."""
    built_in = [
        CommandInfo(name=name, source="built in", template="", description=description)
        for name, description in _DESCRIPTIONS.items()
    ]
    found = sources.commands.commands
    built_in += [_command_info(each) for name, each in builtin_commands().items() if name not in found]
    return (
        *built_in,
        *(_command_info(found[name]) for name in sorted(found) if name not in RESERVED_COMMANDS),
    )


def _command_info(command: CommandDefinition) -> CommandInfo:
    config = command.config
    return CommandInfo(
        name=command.name,
        source=command.scope if command.origin is None else str(command.origin),
        template=config.template,
        hints=argument_hints(config.template),
        description=config.description,
        agent=config.agent,
        model=f"{config.model.provider_id}/{config.model.model_id}" if config.model else None,
        subtask=config.subtask,
    )
