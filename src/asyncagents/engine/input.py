"""What a person sends becomes a fact: a message with its parts, an addressee, and a key."""

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from asyncagents.domain.call import Always, Answers, Once, Reject, Reply
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids, MessageId, SessionId
from asyncagents.domain.message import MessageTime, ModelRef, UserMessage
from asyncagents.domain.part import CompactionPart, FilePart, Part, TextPart
from asyncagents.domain.port import Clock
from asyncagents.domain.session import Rule
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import Attachment

HOW_TO_ANSWER = (
    'answer with "once", "always" or "reject", or with a list for each question; '
    'arguments of your own are an object and go with "once", a message is a text and goes with "reject"'
)


class Defaults(Struct, frozen=True):
    """What a prompt uses that says nothing else."""

    agent: str
    model: ModelRef


class To(TypedDict, total=False):
    """Who answers a prompt, and what goes along with it."""

    agent: str | None
    model: str | ModelRef | None
    files: Sequence[Attachment]


class Inputs:
    def __init__(self, *, ids: Ids, clock: Clock, defaults: Defaults) -> None:
        self._ids = ids
        self._clock = clock
        self._defaults = defaults

    def admit(
        self, session_id: SessionId, text: str, *, key: str | None, to: To, wakes: bool = True
    ) -> Admit:
        files = to.get("files", ())
        if not a_text(text, "a prompt").strip() and not files:
            raise InvalidInput("a prompt needs some text")
        message = self._message(session_id, to)
        return Admit(
            message=message,
            parts=self._parts(session_id, message.id, text, files),
            key=key or message.id,
            wakes=wakes,
            same_agent=not to.get("agent"),
            same_model=not to.get("model"),
        )

    def compaction(self, session_id: SessionId, focus: str = "", *, key: str | None, to: To) -> Admit:
        """A wish for a summary; `focus`: what it should mind above all."""
        message = self._message(session_id, to)
        wish = CompactionPart(id=self._ids.part(), session_id=session_id, message_id=message.id, auto=False)
        return Admit(
            message=message,
            parts=(wish, *self._parts(session_id, message.id, focus, ())),
            key=key or message.id,
            source="compaction",
            same_agent=not to.get("agent"),
            same_model=not to.get("model"),
        )

    def _message(self, session_id: SessionId, to: To) -> UserMessage:
        return UserMessage(
            id=self._ids.message(),
            session_id=session_id,
            time=MessageTime(created=self._clock.now()),
            agent=to.get("agent") or self._defaults.agent,
            model=model_ref(to.get("model")) or self._defaults.model,
        )

    def _parts(
        self, session_id: SessionId, message_id: MessageId, text: str, files: Sequence[Attachment]
    ) -> tuple[Part, ...]:
        parts: list[Part] = []
        if text:
            part = TextPart(id=self._ids.part(), session_id=session_id, message_id=message_id, text=text)
            parts.append(part)
        parts.extend(
            FilePart(
                id=self._ids.part(),
                session_id=session_id,
                message_id=message_id,
                mime=file.mime,
                url=file.url,
                filename=file.filename,
            )
            for file in files
        )
        return tuple(parts)


def a_reply(
    reply: str | Reply | Sequence[Sequence[str]], input: dict[str, Any] | None, message: str
) -> Reply:
    """What a person said, in whatever form. What could not be read again is refused."""
    match reply:
        case "once":
            said: object = Once(input)
        case "always" if input is None:
            said = Always()
        case "reject":
            said = Reject(message)
        case Once() | Always() | Reject() | Answers():
            said = reply
        case list() | tuple():
            said = {"type": "answers", "answers": reply}
        case _:
            said = None
    try:
        checked: Reply = msgspec.convert(msgspec.to_builtins(said), Reply)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(HOW_TO_ANSWER) from error
    return checked


def model_ref(model: str | ModelRef | None) -> ModelRef | None:
    if not isinstance(model, str):
        return model
    provider_id, _, model_id = model.partition("/")
    if not (provider_id and model_id):
        raise InvalidInput(f'{model!r} is no model; write it as "provider/model"')
    return ModelRef(provider_id=provider_id, model_id=model_id)


def a_text(value: object, what: str) -> str:
    """Types are promised, not checked: what is stored must be readable again."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a text, not {type(value).__name__}")
    return value


def some_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Types are promised, not checked: what is stored must be readable again."""
    try:
        return msgspec.convert(msgspec.to_builtins(tuple(rules)), tuple[Rule, ...])
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput("a rule is a Rule with a permission, a pattern, and allow, ask or deny") from error
