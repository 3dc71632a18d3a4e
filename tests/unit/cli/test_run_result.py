"""How a run ends: its exit code follows from the answer and from what still waits."""

import json

import pytest
from msgspec.structs import replace

from asyncagents.cli.run.result import (
    OpenWait,
    RunResult,
    RunStatus,
    as_json,
    build_result,
    exit_code,
    failure_text,
    print_closing,
    wait_of,
)
from asyncagents.cli.terminal.screen import Screen
from asyncagents.domain.call.waiting import describe_open_call
from asyncagents.domain.conversation.failure import (
    Failure,
    UnknownFailure,
    aborted_error,
    api_error,
    context_overflow_error,
    output_length_error,
    unknown_error,
)
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from tests.support.domain.event import SESSION, entry, step, text
from tests.support.domain.state import call, open_state

SPENT = Tokens(input=1, output=2, reasoning=3, cache=CacheTokens(read=4, write=5))
WAIT = wait_of(describe_open_call(call(open_state("async", note="asked Ada"))))


@pytest.mark.parametrize(
    ("error", "waits", "ending", "code"),
    [
        (None, (), "done", 0),
        (None, (WAIT,), "waiting", 3),
        (api_error("no", is_retryable=False), (), "failed", 1),
        (api_error("no", is_retryable=False), (WAIT,), "failed", 1),
        (aborted_error(), (), "cancelled", 5),
        (aborted_error(), (WAIT,), "cancelled", 5),
    ],
)
def test_status_and_exit_code_follow_the_error_and_then_the_open_calls(
    error: Failure | None, waits: tuple[OpenWait, ...], ending: RunStatus, code: int
) -> None:
    said = replace(step("msg_2", done=True), error=error, tokens=SPENT, cost=0.5, finish="stop")
    result = build_result(SESSION, entry(said, text("msg_2", "Hi.")), (said, said), waits)
    assert result.status == ending
    assert exit_code(result.status) == code
    assert result.text == "Hi."
    assert result.cost == 1.0
    assert result.tokens.input == 2
    assert result.tokens.cache.write == 10


def test_a_run_without_an_answer_has_failed_unless_a_call_is_open() -> None:
    assert build_result(SESSION, None, (), ()).status == "failed"
    assert build_result(SESSION, None, (), (WAIT,)).status == "waiting"


def test_the_json_of_a_result_has_every_field() -> None:
    result = json.loads(as_json(RunResult(session=SESSION, tokens=Tokens.zero(), status="accepted")))
    assert set(result) == {
        "session", "message", "text", "finish", "error", "tokens", "cost", "status", "waits", "summaries"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "ask", "what"),
    [
        ("ask", "per_1", "deploy asks for the permission 'bash' (ls)"),
        ("question", "que_1", "deploy asks: Which colour?"),
        ("async", None, "deploy waits for its result (asked Ada)"),
        ("wait", None, "deploy waits for its time (asked Ada)"),
    ],
)
def test_a_wait_has_its_call_its_ask_and_a_description(kind: str, ask: str | None, what: str) -> None:
    row = call(open_state(kind, note="asked Ada"), ask_id=ask)  # type: ignore[arg-type]
    wait = wait_of(describe_open_call(row))
    assert wait.call == "tool_1"
    assert wait.ask == ask
    assert wait.kind == kind
    assert wait.what == what


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (api_error("It is\nfull", is_retryable=True), "It is full"),
        (unknown_error("crash"), "crash"),
        (output_length_error(), "The model reached the limit of its output before it wrote any text."),
        (UnknownFailure(b"{}", "Novel"), "Novel"),
        (None, "there is no answer"),
    ],
)
def test_a_failure_is_a_sentence(failure: Failure | None, said: str) -> None:
    assert failure_text(failure) == said


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("failed", "error: there is no answer"),
        ("waiting", "waiting: deploy waits for its result (asked Ada), tool_1 of session ses_1"),
        ("cancelled", "cancelled: session ses_1"),
        ("stopped", "stopped: what was accepted is stored"),
        ("accepted", "accepted: no process runs it until"),
    ],
)
def test_the_closing_line_names_the_command_to_continue(
    capsys: pytest.CaptureFixture[str], ending: RunStatus, said: str
) -> None:
    print_closing(Screen(), RunResult(session=SESSION, tokens=Tokens.zero(), status=ending, waits=(WAIT,)))
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert "asyncagents run --session ses_1" in told.err


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (unknown_error("x"), "`asyncagents run --session ses_1 PROMPT` continues it"),
        (context_overflow_error("x"), "--model PROVIDER/MODEL PROMPT` continues it with a model that has a"),
        (api_error("x", is_retryable=False, status_code=404), "`asyncagents models` lists models; "),
        (api_error("x", is_retryable=False, status_code=400), "the session is stored; "),
    ],
)
def test_where_the_same_model_would_fail_again_the_hint_names_the_option_for_another(
    capsys: pytest.CaptureFixture[str], failure: Failure, hint: str
) -> None:
    print_closing(Screen(), RunResult(session=SESSION, tokens=Tokens.zero(), status="failed", error=failure))
    assert hint in capsys.readouterr().err.splitlines()[1]


def test_a_done_run_prints_nothing_unless_its_answer_is_incomplete(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = RunResult(session=SESSION, tokens=Tokens.zero(), status="done", finish="stop")
    print_closing(Screen(), done)
    assert capsys.readouterr().err == ""
    print_closing(Screen(), replace(done, finish="length"))
    assert "the answer is incomplete" in capsys.readouterr().err
