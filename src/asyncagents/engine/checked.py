"""What tools return is read again before it counts: types are promised, not checked."""

import msgspec
from msgspec.structs import replace

from asyncagents.config.secret import Secret
from asyncagents.domain.call import Completed, Failed
from asyncagents.domain.result_file import fit_files
from asyncagents.engine.tool import Ask, Outcome, Pending, Together
from asyncagents.errors import InvalidInput
from asyncagents.store.body import body

_results: msgspec.json.Decoder[Completed | Failed] = msgspec.json.Decoder(Completed | Failed)
_pendings = msgspec.json.Decoder(Pending)
_asks = msgspec.json.Decoder(tuple[Ask, ...])


def asked(planned: object) -> tuple[Ask, ...]:
    """Types are promised, not checked: an ask that cannot be read again would make its session unreadable."""
    if planned == ():
        return ()
    try:
        return _asks.decode(body(planned))
    except (msgspec.ValidationError, InvalidInput) as error:
        raise TypeError(f"its plan is to return Asks: {error}") from error


def checked(outcome: object) -> Outcome:
    """What cannot be kept, or not be read again, is the tool's failure, not the run's."""
    match outcome:
        case Completed() | Failed():
            _results.decode(body(outcome))
            return _with_files_that_fit(outcome)
        case Together(Completed() | Failed() as result):
            _results.decode(body(result))
            return replace(outcome, result=_with_files_that_fit(result))
        case Together():
            pass
        case Pending(kind=kind, questions=questions, approval=approval):
            _pendings.decode(body(replace(outcome, secret=None, webhook_secret=None)))
            if not all(isinstance(each, Secret | None) for each in (outcome.secret, outcome.webhook_secret)):
                raise TypeError("a secret is given as Secret(…), so that nobody prints it")
            odd = kind == "wait" if questions else kind == "question"
            if approval and not (kind == "async" and len(questions) == 1 and questions[0].options):
                raise TypeError("an approval is of kind async and asks one question, with options")
            if kind in ("ask", "task") or odd:
                raise TypeError("a tool that waits says kind async or wait, or question with its questions")
        case _:
            raise TypeError(f"a tool returns Completed, Failed or Pending, not {str(outcome)[:80]!r}")
    return outcome


def known_result(known: object) -> Completed | Failed:
    """What a tool knows of a call whose process died."""
    return _with_files_that_fit(_results.decode(body(known)))


def _with_files_that_fit(result: Completed | Failed) -> Completed | Failed:
    """Leave out files that no model could be shown; the work is done, so that is no failure."""
    if isinstance(result, Failed) or not result.files:
        return result
    output, files = fit_files(result.output, result.files)
    return replace(result, output=output, files=files)
