"""What people type is understood, or refused with what would be."""

from typing import Any

import pytest

from asyncagents.cli.ask.always_scope import describe_always
from asyncagents.cli.ask.reply import PermissionChoice, parse_choice, parse_input, parse_options, parse_reply
from asyncagents.cli.ask.view import ask_lines, choice_prompt, full_lines, help_lines, question_prompt
from asyncagents.domain.call.ask import Option, PermissionRequest, Question, QuestionRequest
from asyncagents.domain.call.call import Always, Answers, Call, Once, Open, Reject, Reply
from asyncagents.domain.call.waiting import OpenCall, describe_open_call
from asyncagents.domain.conversation.session import Session, SessionTime
from asyncagents.domain.id import CallId, MessageId, PartId, PermissionId, QuestionId, SessionId
from asyncagents.errors import InvalidInput
from tests.support.domain.event import SESSION


def request(
    *, always: tuple[str, ...] = ("*",), permission: str = "edit", exact: bool = False, **metadata: Any
) -> PermissionRequest:
    return PermissionRequest(
        id=PermissionId("per_1"),
        session_id=SESSION,
        permission=permission,
        patterns=("a.txt",),
        metadata=metadata,
        always=always,
        exact=exact,
    )


def question(*labels: str, **more: Any) -> Question:
    options = tuple(Option(label=label, description="") for label in labels)
    return Question(question="Which?", header="", options=options, **more)


def session(id: str, title: str) -> Session:
    return Session(
        id=SessionId(id),
        slug="calm-river",
        project_id="p",
        directory="/",
        title=title,
        version="1",
        time=SessionTime(created=1, updated=1),
    )


def waiting(ask: PermissionRequest, *titles: str) -> OpenCall:
    call = Call(
        id=CallId("call_1"),
        session_id=SESSION,
        message_id=MessageId("msg_1"),
        part_id=PartId("prt_1"),
        call_id="1",
        tool="write",
        input={"filePath": "a.txt"},
        turn=1,
        created=1,
        ask_id=ask.id,
        state=Open(kind="ask", since=1, ask=ask),
    )
    return describe_open_call(
        call, tuple(session(f"ses_{number}", title) for number, title in enumerate(titles))
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y", PermissionChoice("once")),
        (" Yes ", PermissionChoice("once")),
        ("a", PermissionChoice("always")),
        ("n", PermissionChoice("reject")),
        ("n, use tabs", PermissionChoice("reject", "use tabs")),
        ("no  use tabs ", PermissionChoice("reject", "use tabs")),
        ("e", PermissionChoice("edit")),
        ("s", PermissionChoice("show")),
        ("q", PermissionChoice("leave")),
        ("?", PermissionChoice("help")),
    ],
)
def test_a_typed_letter_or_word_is_parsed_as_a_choice(line: str, expected: PermissionChoice) -> None:
    assert parse_choice(line, request()) == expected


@pytest.mark.parametrize("line", ["", "yes but not that", "ya", "y n", "always, really"])
def test_a_line_that_is_no_choice_is_refused(line: str) -> None:
    with pytest.raises(InvalidInput, match="answer y, a, n, e, s or q"):
        parse_choice(line, request())


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(always=()),
        request(permission="bash", always=("echo $(date)",), exact=True, command="echo $(date)"),
        request(permission="external_directory", always=("/a/rather/long/name/of/a/folder/*", "/b/*")),
    ],
)
def test_choices_of_an_ask_fit_80_columns_and_show_the_scope_of_always(
    asked: PermissionRequest,
) -> None:
    shown = [line.text for line in ask_lines(waiting(asked, "Ship it"))] + [choice_prompt(asked)]
    explained = "\n".join(line.text for line in help_lines(asked))
    assert len(choice_prompt(asked)) <= 76
    assert choice_prompt(asked).endswith("[n] no  [?] more > ")
    if asked.always:
        assert describe_always(asked) in "\n".join(shown)
        assert describe_always(asked) in explained
    assert [line.split()[0] for line in explained.splitlines()] == [*("ya" if asked.always else "y"), *"nesq"]


@pytest.mark.spec("Z-06")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(), "all edits in this project"),
        (request(permission="grep"), "every call of grep"),
        (request(permission="bash", always=("npm test", "tail *")), "bash: npm test, tail *"),
        (request(permission="bash", always=("a $(b)",), exact=True, command="a $(b)"), "this exact line"),
        (
            request(permission="bash", always=("cd sub || exit\nmake",), exact=True, command="make"),
            "this exact line",
        ),
        (request(permission="read", always=(".env",), exact=True), "read: exactly .env"),
        (
            request(permission="external_directory", always=("/a/b",), exact=True, command="cat /a/b"),
            "external_directory: exactly /a/b",
        ),
        (
            request(permission="external_directory", always=("/srv/data/*",)),
            "external_directory: /srv/data/*, to read",
        ),
    ],
)
def test_the_scope_of_always_is_described_in_words(asked: PermissionRequest, words: str) -> None:
    assert describe_always(asked) == words


@pytest.mark.spec("Z-06")
def test_an_ask_for_a_command_shows_its_working_directory() -> None:
    asked = request(permission="bash", command="make", workdir="/project/sub")
    assert [line.text for line in ask_lines(waiting(asked))][1:3] == ["  in /project/sub", "  $ make"]


@pytest.mark.parametrize("multiple", [True, False])
def test_the_line_of_a_question_fits_80_columns(multiple: bool) -> None:
    assert len(question_prompt(question("a", "b", multiple=multiple))) <= 76


def test_always_is_neither_offered_nor_accepted_without_a_pattern() -> None:
    assert "always" not in choice_prompt(request(always=()))
    assert "[a] always (all edits in this project)" in choice_prompt(request())
    with pytest.raises(InvalidInput, match="always is not offered here"):
        parse_choice("a", request(always=()))


@pytest.mark.parametrize(
    ("asked", "line", "expected"),
    [
        (question("Red", "Blue"), "2", ("Blue",)),
        (question("Red", "Blue"), "red", ("Red",)),
        (question("Red", "Blue"), "green, perhaps", ("green, perhaps",)),
        (question("10", "20"), "10", ("10",)),
        (question("S", "M", "L", multiple=True), "1, L,1", ("S", "L")),
        (question("S", "M", multiple=True), "2", ("M",)),
        (question("S", "M", multiple=True), "1, huge", ("1, huge",)),
        (question(), "42", ("42",)),
    ],
)
def test_a_question_is_answered_by_number_by_label_or_in_free_text(
    asked: Question, line: str, expected: tuple[str, ...]
) -> None:
    assert parse_options(asked, line) == expected


@pytest.mark.parametrize(
    ("asked", "line", "error"),
    [
        (question("Red"), "2", "out of range: choose 1 to 1"),
        (question("Red", multiple=True), "1, 7, 8", None),
        (question("Red"), "  ", "the answer is empty"),
        (question("Red", custom=False), "green", "choose one of the options: Red"),
    ],
)
def test_an_answer_that_is_empty_or_no_option_is_refused(
    asked: Question, line: str, error: str | None
) -> None:
    with pytest.raises(InvalidInput, match=error or "out of range: choose 1 to 1"):
        parse_options(asked, line)


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '{"a": 1}'])
def test_edited_arguments_that_are_invalid_or_unchanged_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"the arguments (are|must be)"):
        parse_input(text, {"a": 1})


PERMISSION = Open(kind="ask", since=1, ask=request())
QUESTIONS = Open(
    kind="question",
    since=1,
    question=QuestionRequest(
        id=QuestionId("que_1"), session_id=SESSION, questions=(question("Red", "Blue"), question())
    ),
)


@pytest.mark.parametrize(
    ("state", "words", "more", "expected"),
    [
        (PERMISSION, ["once"], {}, Once()),
        (PERMISSION, ["once"], {"given": "{}"}, Once({})),
        (PERMISSION, ["always"], {}, Always()),
        (PERMISSION, ["reject"], {"message": "no"}, Reject("no")),
        (QUESTIONS, ["2", "Ada"], {}, Answers((("Blue",), ("Ada",)))),
        (QUESTIONS, ["reject"], {"message": "no"}, Reject("no")),
    ],
)
def test_arguments_of_the_answer_command_are_parsed_as_a_reply(
    state: Open, words: list[str], more: dict[str, str], expected: Reply
) -> None:
    assert parse_reply(state, words, **{"message": "", "given": None, **more}) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "words", "more", "error"),
    [
        (PERMISSION, ["yes"], {}, "answer once, always or reject"),
        (Open(kind="ask", since=1, ask=request(always=())), ["always"], {}, "does not offer always"),
        (QUESTIONS, ["2"], {}, "2 answers are expected, got 1"),
        (QUESTIONS, ["2", "Ada"], {"given": "{}"}, "--input is for a permission"),
        (QUESTIONS, ["2", "Ada"], {"message": "x"}, "--message goes with reject"),
    ],
)
def test_arguments_that_do_not_fit_the_ask_or_question_are_refused(
    state: Open, words: list[str], more: dict[str, str], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        parse_reply(state, words, **{"message": "", "given": None, **more})  # type: ignore[arg-type]


def test_an_option_that_is_called_reject_can_be_chosen() -> None:
    asked = QuestionRequest(
        id=QuestionId("que_1"), session_id=SESSION, questions=(question("accept", "reject"),)
    )
    state = Open(kind="question", since=1, question=asked)
    assert parse_reply(state, ["reject"], message="", given=None) == Answers((("reject",),))


def test_an_ask_shows_its_permission_sessions_command_and_reasons() -> None:
    ask = request(command="rm -rf $X\ntrue", reasons=["it holds a variable"])
    lines = [line.text for line in ask_lines(waiting(ask, "Ship it", "Notes"))]
    assert lines == [
        "write asks for the permission 'edit': a.txt",
        "  for Ship it > Notes",
        "  $ rm -rf $X",
        "  $ true",
        "  unclear: it holds a variable",
    ]
    assert [line.text for line in ask_lines(waiting(request(), "Ship it"))] == [
        "write asks for the permission 'edit': a.txt",
        "  write a.txt",
    ]


def test_an_ask_for_a_guarded_place_shows_why_it_is_guarded() -> None:
    lines = [line.text for line in ask_lines(waiting(request(guarded=["git obeys it"]), "Ship it"))]
    assert "  guarded: git obeys it" in lines


def test_an_ask_for_a_doom_loop_shows_that_the_call_repeats() -> None:
    lines = [line.text for line in ask_lines(waiting(request(permission="doom_loop"), "Ship it"))]
    assert any("repeats the same call" in line for line in lines)


def test_a_long_ask_is_cut_and_can_be_shown_in_full() -> None:
    ask = request(command="\n".join(f"echo {n}" for n in range(100)))
    open_ask = waiting(ask, "Ship it")
    assert ask_lines(open_ask)[-1].text == "  … 40 more lines: s shows all"
    whole = [line.text for line in full_lines(open_ask, ask)]
    assert "  $ echo 99" in whole
    assert "  filePath = 'a.txt'" in whole


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (question(), "your answer ("),
        (question("a"), "a number, or words of your own ("),
        (question("a", custom=False), "a number ("),
        (question("a", multiple=True), "numbers, with commas, or words of your own ("),
    ],
)
def test_the_line_of_a_question_shows_how_it_may_be_answered(asked: Question, words: str) -> None:
    assert question_prompt(asked).startswith(words)
