"""Questions as a flat form of JSON Schema, as ACP and MCP clients show it to people."""

from typing import Any

from asyncagents.domain.call.ask import Question
from asyncagents.domain.call.call import Answers
from asyncagents.errors import InvalidInput


def form_schema(questions: tuple[Question, ...]) -> dict[str, Any]:
    """Describe questions as a flat form: one field each, and a free text where that is allowed."""
    fields: dict[str, Any] = {}
    required = []
    for at, question in enumerate(questions):
        choices = [
            {"const": each.label, "title": each.label, "description": each.description}
            for each in question.options
        ]
        head = {"title": question.header or question.question[:60], "description": question.question}
        if question.multiple and choices:
            labels = [each["const"] for each in choices]
            fields[f"answer{at}"] = {"type": "array", "items": {"type": "string", "enum": labels}, **head}
        elif choices:
            fields[f"answer{at}"] = {"type": "string", "oneOf": choices, **head}
        if question.custom is False and choices:
            required.append(f"answer{at}")
        elif not choices:
            required.append(f"other{at}")
            fields[f"other{at}"] = {"type": "string", **head}
        else:
            fields[f"other{at}"] = {"type": "string", "title": "Other", "description": "Another answer."}
    return {"type": "object", "properties": fields, **({"required": required} if required else {})}


def read_form(questions: tuple[Question, ...], content: dict[str, Any]) -> Answers:
    """Read the answers of a filled form. Raises `InvalidInput` if a question has none."""
    answers = []
    for at, question in enumerate(questions):
        chosen, other = content.get(f"answer{at}"), content.get(f"other{at}")
        given = [*(chosen if isinstance(chosen, list) else [chosen]), other]
        texts = tuple(str(each) for each in given if isinstance(each, str) and each.strip())
        if not texts:
            raise InvalidInput(f"the question {question.question[:60]!r} has no answer: give one")
        answers.append(texts)
    return Answers(tuple(answers))
