"""Forms of MCP servers (elicitations): questions for a person, and the responses that the answers make."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import Answers, Reject
from asyncagents.domain.envelope import one_line
from asyncagents.errors import InvalidInput

Requests: TypeAlias = Mapping[str, dict[str, Any]]
"""The parameters of elicitations, by the server's keys."""

MOST_FIELDS = 50
MOST_HEADER = 30
ACCEPT = "Accept"
DECLINE = "Decline"
_CONSENT = (Option(label=ACCEPT, description=""), Option(label=DECLINE, description=""))
_TRUTH = {"Yes": True, "No": False}
_Kind: TypeAlias = Literal["text", "integer", "number", "choice", "choices", "consent"]


class FormField(Struct, frozen=True, kw_only=True):
    """One thing that a form asks for; a consent stands for a form without fields."""

    key: str
    name: str
    kind: _Kind
    question: str
    choices: dict[str, Any] = {}
    """The values that may be chosen, by what a person reads."""
    required: bool = True
    schema: dict[str, Any] = {}

    def as_question(self) -> Question:
        options = tuple(Option(label=label, description="") for label in self.choices)
        return Question(
            question=self.question,
            header=one_line(self.name or self.key)[:MOST_HEADER],
            options=_CONSENT if self.kind == "consent" else options,
            multiple=True if self.kind == "choices" else None,
            custom=False if self.choices or self.kind == "consent" else None,
        )

    def read(self, answer: tuple[str, ...]) -> Any:
        """Read the value that an answer gives; None: it gives none. Raises `InvalidInput`."""
        given = tuple(text for text in answer if text.strip())
        if not given:
            if self.required:
                raise self._wrong("needs an answer")
            return None
        if self.kind == "choices":
            return self._check_size([self._find_choice(each) for each in given], "Items")
        text = "\n".join(given)
        if self.kind == "choice":
            return self._find_choice(text)
        return self._check_size(text, "Length") if self.kind == "text" else self._number(text)

    def _find_choice(self, text: str) -> Any:
        for label, value in self.choices.items():
            if text == label or text.strip().casefold() == label.casefold():
                return value
        raise self._wrong(f"takes one of {', '.join(self.choices)}, not {text!r}")

    def _number(self, text: str) -> int | float:
        try:
            number = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise self._wrong(f"takes a number, not {text!r}") from None
        self._check_range(number, "minimum", "maximum", "")
        return number

    def _check_size(self, value: Any, what: str) -> Any:
        noun = "choices" if what == "Items" else "characters"
        self._check_range(len(value), f"min{what}", f"max{what}", f" {noun}")
        return value

    def _check_range(self, number: float, least: str, most: str, noun: str) -> None:
        if number < self._limit(least, number):
            raise self._wrong(f"takes at least {self.schema[least]}{noun}")
        if number > self._limit(most, number):
            raise self._wrong(f"takes at most {self.schema[most]}{noun}")

    def _limit(self, name: str, default: float) -> float:
        value = self.schema.get(name)
        return value if isinstance(value, int | float) else default

    def _wrong(self, why: str) -> InvalidInput:
        return InvalidInput(f"{self.name or self.key!r} {why}")


def form_questions(requests: Requests) -> tuple[Question, ...]:
    """Return the questions of all forms. Raises `InvalidInput` for a form that cannot be asked."""
    fields = tuple(_fields(requests))
    if len(fields) > MOST_FIELDS:
        raise InvalidInput(f"it asks for {len(fields)} things at once, more than {MOST_FIELDS}")
    return tuple(field.as_question() for field in fields)


def form_responses(requests: Requests, reply: Answers | Reject) -> dict[str, dict[str, Any]]:
    """Return the response to each form. Raises `InvalidInput` for answers that do not fit."""
    if isinstance(reply, Reject):
        return {key: {"action": "decline"} for key in requests}
    fields = tuple(_fields(requests))
    if len(reply.answers) != len(fields):
        raise InvalidInput(f"expected {len(fields)} answers, got {len(reply.answers)}")
    responses: dict[str, dict[str, Any]] = {key: {"action": "accept"} for key in requests}
    for field, answer in zip(fields, reply.answers, strict=True):
        if field.kind == "consent":
            responses[field.key] = _consent(field, answer)
        elif (value := field.read(answer)) is not None:
            responses[field.key].setdefault("content", {})[field.name] = value
    return responses


def _consent(field: FormField, answer: tuple[str, ...]) -> dict[str, Any]:
    chosen = answer[0].strip().casefold() if answer else ""
    if chosen == DECLINE.casefold():
        return {"action": "decline"}
    if chosen != ACCEPT.casefold():
        raise InvalidInput(f"{field.key!r} takes {ACCEPT} or {DECLINE}")
    return {"action": "accept"} if field.schema.get("mode") == "url" else {"action": "accept", "content": {}}


def _fields(requests: Requests) -> Iterator[FormField]:
    for key, form in requests.items():
        message, mode = _text(form, "message") or "The server asks for your input.", form.get("mode", "form")
        if mode not in ("form", "url"):
            raise InvalidInput(f"a request of the kind {mode!r} is not supported")
        if mode == "url":
            question = f"{message}\n{_text(form, 'url')}"
            yield FormField(key=key, name="", kind="consent", question=question, schema={"mode": "url"})
            continue
        schema = _object(form.get("requestedSchema"))
        properties = _object(schema.get("properties"))
        required = schema.get("required")
        for name, described in properties.items():
            needed = isinstance(required, list) and name in required
            yield _field(key, name, message, _object(described), required=needed)
        if not properties:
            yield FormField(key=key, name="", kind="consent", question=message)


def _field(key: str, name: str, message: str, schema: dict[str, Any], *, required: bool) -> FormField:
    about = ": ".join(filter(None, (_text(schema, "title") or name, _text(schema, "description"))))
    kind, choices = _kind(name, schema)
    return FormField(
        key=key,
        name=name,
        kind=kind,
        question=f"{message}\n{about}" if required else f"{message}\n{about} (may be left out)",
        choices=choices,
        required=required,
        schema=schema,
    )


def _kind(name: str, schema: dict[str, Any]) -> tuple[_Kind, dict[str, Any]]:
    match schema.get("type", "string"):
        case "boolean":
            return "choice", dict(_TRUTH)
        case "integer":
            return "integer", {}
        case "number":
            return "number", {}
        case "array":
            return "choices", _choices(_object(schema.get("items")))
        case "string":
            choices = _choices(schema)
            return ("choice" if choices else "text"), choices
        case other:
            raise InvalidInput(f"its field {name!r} has the type {other!r}, which a person cannot fill in")


def _choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an enum, by their titles."""
    listed = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(listed, list):
        options = [_object(each) for each in listed]
        return {_text(each, "title") or str(each.get("const")): each.get("const") for each in options}
    values, names = schema.get("enum"), schema.get("enumNames")
    if not isinstance(values, list):
        return {}
    labels = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(label): value for label, value in zip(labels, values, strict=True)}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
