"""Questions as a form: its fields, and the answers of a filled form."""

import pytest

from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import Answers
from asyncagents.domain.call.form import form_schema, read_form
from asyncagents.errors import InvalidInput

OPTIONS = (Option(label="A", description="first"), Option(label="B", description="second"))
ONE = Question(question="Which?", header="Pick", options=OPTIONS, custom=False)
MANY = Question(question="Which ones?", header="Pick", options=OPTIONS, multiple=True)
FREE = Question(question="Why?", header="", options=())


def test_each_question_is_a_field_and_a_free_answer_another() -> None:
    fields = form_schema((ONE, MANY, FREE))["properties"]

    assert list(fields) == ["answer0", "answer1", "other1", "other2"]
    assert [each["const"] for each in fields["answer0"]["oneOf"]] == ["A", "B"]
    assert fields["answer1"]["items"]["enum"] == ["A", "B"]


def test_a_filled_form_answers_every_question() -> None:
    filled = {"answer0": "A", "answer1": ["A", "B"], "other1": " ", "other2": "Because."}

    assert read_form((ONE, MANY, FREE), filled) == Answers((("A",), ("A", "B"), ("Because.",)))


def test_a_form_without_an_answer_to_a_question_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'Why\\?' has no answer"):
        read_form((ONE, FREE), {"answer0": "A"})


def test_the_only_field_of_a_question_is_required() -> None:
    form = form_schema((ONE, MANY, FREE))
    assert form["required"] == ["answer0", "other2"]
    assert "required" not in form_schema((MANY,))
