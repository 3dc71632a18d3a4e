"""Parses what a person typed, or gave as arguments, into a reply."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from asyncagents.domain.call.ask import PermissionRequest, Question
from asyncagents.domain.call.call import Always, Answers, Once, Open, Reject, Reply
from asyncagents.errors import InvalidInput

Choice: TypeAlias = Literal["once", "always", "reject", "edit", "show", "help", "leave"]
_CHOICES: dict[str, Choice] = {
    "y": "once", "yes": "once", "once": "once",
    "a": "always", "always": "always",
    "n": "reject", "no": "reject", "reject": "reject",
    "e": "edit", "edit": "edit",
    "s": "show", "show": "show",
    "?": "help", "h": "help", "help": "help",
    "q": "leave", "quit": "leave",
}  # fmt: skip


class PermissionChoice(Struct, frozen=True):
    choice: Choice
    message: str = ""
    """The reason for the model, with `reject`."""


def parse_choice(line: str, request: PermissionRequest) -> PermissionChoice:
    """Parse a typed line. Raises `InvalidInput` if it is not one of the choices."""
    word, _, message = line.strip().partition(" ")
    choice = _CHOICES.get(word.lower().rstrip(",.:"))
    if choice == "always" and not request.always:
        raise InvalidInput("always is not offered here: answer y, n, e, s or q; ? explains them")
    if choice is None or (message and choice != "reject"):
        raise InvalidInput(f"answer y, {'a, ' if request.always else ''}n, e, s or q; ? explains them")
    return PermissionChoice(choice, message.strip())


def parse_input(text: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Parse edited arguments. Raises `InvalidInput` if they are no JSON object or equal `before`."""
    try:
        given = msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the arguments are not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidInput('the arguments must be a JSON object, such as {"filePath": "a.txt"}')
    if given == before:
        raise InvalidInput("the arguments are unchanged: y approves them")
    return given


def parse_options(question: Question, line: str) -> tuple[str, ...]:
    """Parse options by number or label, several if the question allows it; else a free text."""
    text = line.strip()
    if not text:
        raise InvalidInput("the answer is empty")
    if not question.options:
        return (text,)
    words = [word.strip() for word in text.split(",") if word.strip()] if question.multiple else [text]
    found = [_match_option(question, word) for word in words]
    if found and None not in found:
        return tuple(dict.fromkeys(label for label in found if label is not None))
    if all(word.isdecimal() for word in words):
        raise InvalidInput(f"the option is out of range: choose 1 to {len(question.options)}")
    if question.custom is False:
        labels = ", ".join(option.label for option in question.options)
        raise InvalidInput(f"choose one of the options: {labels}")
    return (text,)


def _match_option(question: Question, word: str) -> str | None:
    labels = [option.label for option in question.options]
    if word in labels:
        return word
    if word.isdecimal() and 1 <= int(word) <= len(labels):
        return labels[int(word) - 1]
    return next((label for label in labels if label.lower() == word.lower()), None)


def parse_reply(state: Open, words: Sequence[str], *, message: str, given: str | None) -> Reply:
    """Parse the arguments of `asyncagents answer` for an open call."""
    if state.ask is not None:
        return _permission_reply(state.ask, words, message=message, given=given)
    if given is not None:
        raise InvalidInput("--input is for a permission; a question takes its answers as arguments")
    assert state.question is not None, "an ask is a permission or a question"
    if state.approval:
        return _approval_reply(state.question.questions[0], words, message=message)
    return _question_reply(state.question.questions, words, message=message)


def _approval_reply(question: Question, words: Sequence[str], *, message: str) -> Reply:
    """Parse one of the options, with a remark."""
    if list(words) == ["reject"]:
        return Reject(message)
    if len(words) != 1:
        raise InvalidInput("an approval takes one word; give a remark as --message")
    return build_decision(question, words[0], message)


def build_decision(question: Question, word: str, remark: str) -> Answers:
    chosen = parse_options(question, word)
    return Answers(((*chosen, remark) if remark else chosen,))


def _permission_reply(
    request: PermissionRequest, words: Sequence[str], *, message: str, given: str | None
) -> Reply:
    word = words[0] if len(words) == 1 else ""
    if word not in ("once", "always", "reject"):
        raise InvalidInput(f"{request.id} asks for a permission: answer once, always or reject")
    if message and word != "reject":
        raise InvalidInput("--message goes with reject: it tells the model why")
    if given is not None and word != "once":
        raise InvalidInput("--input goes with once: it approves other arguments")
    if word == "always" and not request.always:
        raise InvalidInput(f"{request.id} does not offer always: answer once or reject")
    if word == "once":
        return Once(parse_input(given) if given is not None else None)
    return Always() if word == "always" else Reject(message)


def _question_reply(questions: Sequence[Question], words: Sequence[str], *, message: str) -> Reply:
    labels = [option.label for question in questions for option in question.options]
    if list(words) == ["reject"] and "reject" not in labels:
        return Reject(message)
    if message:
        raise InvalidInput("--message goes with reject: it tells the model why")
    if len(words) != len(questions):
        many = (
            "1 question takes 1 answer" if len(questions) == 1 else f"{len(questions)} answers are expected"
        )
        raise InvalidInput(f"{many}, got {len(words)}: give one argument for each question")
    pairs = zip(questions, words, strict=True)
    return Answers(tuple(parse_options(question, word) for question, word in pairs))
