"""`question`: ask people; the call stays open until they answer."""

from typing import Annotated

from msgspec import Meta, Struct

from asyncagents.domain.call.ask import Option
from asyncagents.domain.call.ask import Question as Asked
from asyncagents.engine.tool import Pending, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description

MOST_QUESTIONS = 8


class OptionGiven(Struct, frozen=True, kw_only=True):
    label: Annotated[str, Meta(description="One to five words.", min_length=1, max_length=200)]
    description: Annotated[str, Meta(description="What choosing it means.", max_length=2000)] = ""


class QuestionGiven(Struct, frozen=True, kw_only=True):
    question: Annotated[str, Meta(description="The whole question.", min_length=1, max_length=4000)]
    header: Annotated[str, Meta(description="A label of a word or two.", max_length=80)] = ""
    options: Annotated[list[OptionGiven], Meta(max_length=12)] = []
    multiple: Annotated[bool, Meta(description="Whether several options may be chosen.")] = False


class QuestionArgs(Struct, frozen=True):
    questions: Annotated[list[QuestionGiven], Meta(min_length=1, max_length=MOST_QUESTIONS)]


def question() -> Tool[QuestionArgs]:
    async def run(args: QuestionArgs, context: ToolContext) -> Pending:
        return Pending(
            kind="question", seconds=None, questions=tuple(_build_question(each) for each in args.questions)
        )

    return Tool("question", QuestionArgs, run, effect="none", description=load_description("question"))


def _build_question(given: QuestionGiven) -> Asked:
    if not given.question.strip():
        raise ToolError("A question needs some text.")
    labels = [option.label for option in given.options]
    if len(set(labels)) < len(labels):
        raise ToolError(f"Two options of {given.question[:60]!r} have the same label; give each its own.")
    return Asked(
        question=given.question,
        header=given.header or given.question[:30],
        options=tuple(Option(label=each.label, description=each.description) for each in given.options),
        multiple=given.multiple or None,
    )
