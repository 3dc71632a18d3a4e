"""Build `Admit` facts from prompts: a message with its parts, agent, model and key."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Always, Answers, Once, Reject, Reply
from asyncagents.domain.call.reply import APPROVE
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.message import MessageFormat, MessageTime, ModelRef, UserMessage
from asyncagents.domain.conversation.part import CompactionPart, Part, TextPart
from asyncagents.domain.conversation.part_input import PartInput, TextInput, build_part
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids, MessageId, SessionId, sort_id
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.input.compose import File
from asyncagents.engine.input.output_schema import parse_format
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.llm.model import Model

MAX_NAME_CHARS = 200
HOW_TO_ANSWER = (
    'answer with "once", "always", "approve" or "reject", or with a list for each question; arguments of '
    'your own are an object and go with "once", a message is a text and goes with "approve" or "reject"'
)


class PromptDefaults(Struct, frozen=True):
    """Defaults of a prompt."""

    agent: str
    model: ModelRef
    chat_model: Model
    """Sends requests to models."""
    check: Callable[[ModelRef], None] = lambda model: None
    """Raises if a model is known to be unusable, without asking it."""
    missing: str | None = None
    """Why there is no default model; None: there is one."""


class PromptOptions(TypedDict, total=False):
    """Options of a prompt: agent, model, attachments, output format, tools."""

    agent: str | None
    model: str | ModelRef | None
    variant: str | None
    """Variant of the model."""
    files: Sequence[File]
    """Paths, `file:` URLs, or attachments with their content."""
    parts: Sequence[PartInput]
    """Parts that a client built; mentions in their texts are not looked up."""
    format: MessageFormat | dict[str, Any] | type | None
    """Output format: a JSON schema or a msgspec type. The answer's `structured` then holds the value."""
    system: str | None
    """Text added to the system prompt, in the turn that answers."""
    tools: Mapping[str, bool] | None
    """Tools of the session from here on, on top of its rules: `False` denies, `True` lifts no denial."""
    message_id: MessageId | None
    """Chosen by the sender; the same id again is a repeat of the same prompt."""


class InputBuilder:
    def __init__(
        self, *, ids: Ids, clock: Clock, defaults: PromptDefaults, observer: Observer = NOOP_OBSERVER
    ) -> None:
        self._observer = observer
        self._ids = ids
        self._clock = clock
        self._defaults = defaults

    def build_prompt(
        self,
        session_id: SessionId,
        content: str | Sequence[PartInput],
        *,
        key: str | None,
        options: PromptOptions,
        wakes: bool = True,
    ) -> Admit:
        """Build the fact of a prompt from complete parts (files and mentions are looked up)."""
        text = [TextInput(text=content)] if isinstance(content, str) and content.strip() else []
        parts = text if isinstance(content, str) else content
        if not parts:
            raise InvalidInput("a prompt needs some text")
        message = self._build_message(session_id, options)
        parts = ordered_parts(parts, self._clock.now())
        addresses = [
            build_part(part, part.id or self._ids.part(), session_id=session_id, message_id=message.id)
            for part in parts
        ]
        return self._build_fact(message, tuple(addresses), key=key, options=options, wakes=wakes)

    def check_options(self, options: PromptOptions) -> None:
        """Raise `InvalidInput` for invalid options, before anything is looked up or run."""
        self._build_message(SessionId(""), options)
        validate_parts(options.get("parts") or ())

    def build_compaction(
        self,
        session_id: SessionId,
        focus: str = "",
        *,
        key: str | None,
        options: PromptOptions,
        goes_on: bool = False,
    ) -> Admit:
        """Build a request for a summary; `focus`: what it should mind; `goes_on`: the work then continues."""
        message = self._build_message(session_id, options)
        wish = CompactionPart(id=self._ids.part(), session_id=session_id, message_id=message.id, auto=goes_on)
        about = TextPart(id=self._ids.part(), session_id=session_id, message_id=message.id, text=focus)
        fact = self._build_fact(
            message, (wish, about) if focus.strip() else (wish,), key=key, options=options
        )
        return replace(fact, source="compaction")

    def _build_message(self, session_id: SessionId, options: PromptOptions) -> UserMessage:
        model = model_ref(options.get("model")) or self._defaults.model
        variant, agent = options.get("variant"), options.get("agent")
        if variant is not None:
            model = replace(model, variant=require_text(variant, "a variant"))
        if options.get("model") or variant is not None:
            with suppress(ModelError):  # an API key may be added later: the step reports it
                self._defaults.check(model)
        return UserMessage(
            id=self._check_message_id(options.get("message_id")) or self._ids.message(),
            session_id=session_id,
            time=MessageTime(created=self._clock.now()),
            agent=require_text(agent, "an agent") if agent else self._defaults.agent,
            model=model,
            format=parse_format(options.get("format")),
            system=_system_text(options.get("system")),
            tools=dict(options.get("tools") or {}) or None,
        )

    def _check_message_id(self, message_id: MessageId | None) -> MessageId | None:
        """Check a client's message id and make later ids sort after it."""
        if message_id is not None:
            if not require_text(message_id, "a message id").startswith("msg_"):
                raise InvalidInput(f"the id of a message must begin with msg_, not like {message_id[:20]!r}")
            self._ids.advance_past(message_id)
        return message_id

    def _build_fact(
        self,
        message: UserMessage,
        parts: tuple[Part, ...],
        *,
        key: str | None,
        options: PromptOptions,
        wakes: bool = True,
    ) -> Admit:
        return Admit(
            message=message,
            parts=parts,
            key=key or message.id,
            wakes=wakes,
            same_agent=not options.get("agent"),
            same_model=not options.get("model") and not options.get("variant"),
            trace=self._observer.caller_trace(),
            named=options.get("message_id") is not None,
        )


def ordered_parts(parts: Sequence[PartInput], now: int) -> Sequence[PartInput]:
    """Check that the ids of parts ascend, as people and models read parts in the order of their ids.

    Ids that ascend only by their times, because a new era began between them, are removed to be made anew.
    """
    named = [part.id for part in parts if part.id is not None]
    for part_id in named:
        if not part_id.startswith("prt_"):
            raise InvalidInput(f"the id of a part must begin with prt_, not like {part_id[:20]!r}")
    if named == sorted(named):
        return parts
    if named != sorted(named, key=lambda part_id: sort_id(part_id, now)):
        raise InvalidInput("the ids of parts must ascend in the order of the parts: sort them, or omit them")
    return [replace(part, id=None) for part in parts]


def _system_text(system: object) -> str | None:
    return None if system is None else require_prompt(system) or None


def validate_reply(
    reply: str | Reply | Sequence[Sequence[str]], input: dict[str, Any] | None, message: str
) -> Reply:
    """Convert a person's reply to a `Reply`. Raises `InvalidInput` for one that could not be read again."""
    match reply:
        case "once":
            value: object = Once(input)
        case "always" if input is None:
            value = Always()
        case "reject":
            value = Reject(message)
        case "approve" if input is None:
            value = Answers(((APPROVE, message) if message else (APPROVE,),))
        case Once() | Always() | Reject() | Answers():
            value = reply
        case list() | tuple():
            value = {"type": "answers", "answers": reply}
        case _:
            value = None
    try:
        checked: Reply = msgspec.convert(msgspec.to_builtins(value), Reply)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(HOW_TO_ANSWER) from error
    return checked


def model_ref(model: str | ModelRef | None) -> ModelRef | None:
    if model is None or isinstance(model, ModelRef):
        return model
    if not isinstance(model, str):
        raise InvalidInput(f'{model!r} is no model; write it as "provider/model"')
    provider_id, _, model_id = model.partition("/")
    if not (provider_id and model_id):
        raise InvalidInput(f'{model!r} is no model; write it as "provider/model"')
    return ModelRef(provider_id=provider_id, model_id=model_id)


def validate_parts(parts: Sequence[PartInput]) -> tuple[PartInput, ...]:
    """Return parts that can be stored and read again; raise `InvalidInput` for others."""
    try:
        return msgspec.convert(msgspec.to_builtins(tuple(parts)), tuple[PartInput, ...])
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(f"a part of a prompt is a text, a file, an agent or a subtask: {error}") from error


def require_text(value: object, what: str) -> str:
    """Return the text; raise `InvalidInput` for another type (type hints are not enforced)."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a text, not {type(value).__name__}")
    return value


def require_name(value: object) -> str:
    name = require_text(value, "a name")
    if len(name) > MAX_NAME_CHARS or replace_surrogates(name) != name:
        raise InvalidInput(f"a name may have at most {MAX_NAME_CHARS} characters, in valid Unicode")
    return name


def require_prompt(value: object) -> str:
    """Return the prompt's text; raise `InvalidInput` if it could not be stored."""
    text = require_text(value, "a prompt")
    if replace_surrogates(text) != text:
        raise InvalidInput("the prompt contains an unpaired surrogate: write it in valid Unicode")
    return text


def validate_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return rules that can be stored and read again; raise `InvalidInput` for others."""
    try:
        return msgspec.convert(msgspec.to_builtins(tuple(rules)), tuple[Rule, ...])
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput("a rule must have a permission, a pattern, and allow, ask or deny") from error


def accept_any_model(model: ModelRef) -> None:
    """Accept any model; a request shows whether it can be asked."""
