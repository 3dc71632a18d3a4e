"""Forms of MCP servers: what a person is asked, and what the server gets."""

from typing import Any

import pytest

from asyncagents.domain.call.call import Answers, Reject
from asyncagents.domain.call.elicitation import MOST_FIELDS, form_questions, form_responses
from asyncagents.errors import InvalidInput

FIELDS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "title": "Your name", "description": "as in the register", "minLength": 2},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "size": {"type": "number"},
    "sure": {"type": "boolean"},
    "colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
    "shape": {"oneOf": [{"const": "o", "title": "Round"}, {"const": "x"}]},
    "days": {
        "type": "array",
        "maxItems": 2,
        "items": {"anyOf": [{"const": 1, "title": "Mon"}, {"const": 2}]},
    },
}


def form(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    properties = {name: FIELDS[name] for name in names}
    return {"message": "Tell us.", "requestedSchema": {"properties": properties, "required": list(required)}}


def respond(requests: dict[str, dict[str, Any]], *answers: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    return form_responses(requests, Answers(answers))


def test_each_field_of_a_form_is_a_question() -> None:
    name, colour, days = form_questions({"k": form("name", "colour", "days", required=("name",))})

    assert name.question == "Tell us.\nYour name: as in the register"
    assert name.header == "name"
    assert name.options == ()
    assert name.custom is None
    assert [option.label for option in colour.options] == ["Red", "Blue"]
    assert colour.custom is False
    assert "may be left out" in colour.question
    assert [option.label for option in days.options] == ["Mon", "2"]
    assert days.multiple is True


def test_answers_become_values_of_the_types_that_the_server_wants() -> None:
    requests = {"a": form("name", "age", "size"), "b": form("sure", "colour", "shape", "days")}
    answers = (("Ada",), ("7",), ("1.5",), ("yes",), ("Blue",), ("Round",), ("Mon", "2"))

    assert respond(requests, *answers) == {
        "a": {"action": "accept", "content": {"name": "Ada", "age": 7, "size": 1.5}},
        "b": {"action": "accept", "content": {"sure": True, "colour": "b", "shape": "o", "days": [1, 2]}},
    }


def test_a_field_that_may_be_left_out_is_left_out_without_an_answer() -> None:
    requests = {"k": form("name", "age", required=("name",))}
    assert respond(requests, ("Ada",), ()) == {"k": {"action": "accept", "content": {"name": "Ada"}}}


def test_a_rejection_declines_every_form() -> None:
    requests = {"a": form("name"), "b": form("age")}
    assert form_responses(requests, Reject("no")) == {"a": {"action": "decline"}, "b": {"action": "decline"}}


@pytest.mark.parametrize(
    ("asked", "chosen", "response"),
    [
        ({"message": "Go on?"}, "Accept", {"action": "accept", "content": {}}),
        ({"message": "Go on?"}, "decline", {"action": "decline"}),
        ({"mode": "url", "message": "Log in", "url": "https://a.test"}, "Accept", {"action": "accept"}),
    ],
)
def test_a_form_without_fields_asks_for_consent(
    asked: dict[str, Any], chosen: str, response: dict[str, Any]
) -> None:
    (question,) = form_questions({"k": asked})
    assert [option.label for option in question.options] == ["Accept", "Decline"]
    assert question.question.endswith(asked.get("url", asked["message"]))
    assert respond({"k": asked}, (chosen,)) == {"k": response}


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("name", (), "'name' needs an answer"),
        ("name", ("A",), "takes at least 2 characters"),
        ("age", ("old",), "takes a number, not 'old'"),
        ("age", ("200",), "takes at most 150"),
        ("colour", ("green",), "takes one of Red, Blue"),
        ("days", ("Mon", "2", "2"), "takes at most 2 choices"),
        ("sure", ("perhaps",), "takes one of Yes, No"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(name: str, answer: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        respond({"k": form(name, required=(name,))}, answer)


def test_too_few_answers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="expected 2 answers, got 1"):
        respond({"k": form("name", "age")}, ("Ada",))


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "sampling/createMessage"},
        {"requestedSchema": {"properties": {"a": {"type": "object"}}}},
        {"requestedSchema": {"properties": {f"a{number}": {} for number in range(MOST_FIELDS + 1)}}},
    ],
)
def test_a_form_that_a_person_cannot_fill_in_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        form_questions({"k": asked})


@pytest.mark.parametrize("asked", [{}, {"requestedSchema": 7}, {"requestedSchema": {"properties": {"a": 7}}}])
def test_a_malformed_form_is_asked_as_well_as_it_can_be(asked: dict[str, Any]) -> None:
    assert len(form_questions({"k": asked})) == 1
