"""Check what tools return by encoding and decoding it: type hints are not enforced at run time."""

import msgspec
from msgspec.structs import replace

from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.result_file import fit_files
from asyncagents.engine.tool import Ask, Outcome, Pending, Together
from asyncagents.errors import InvalidInput
from asyncagents.store.body import body

_results: msgspec.json.Decoder[Completed | Failed] = msgspec.json.Decoder(Completed | Failed)
_pendings = msgspec.json.Decoder(Pending)
_asks = msgspec.json.Decoder(tuple[Ask, ...])


def asked(planned: object) -> tuple[Ask, ...]:
    """Check the asks of a plan: one that cannot be decoded again would make its session unreadable."""
    if planned == ():
        return ()
    try:
        return _asks.decode(body(planned))
    except (msgspec.ValidationError, InvalidInput) as error:
        raise TypeError(f"its plan is to return Asks: {error}") from error


def checked(outcome: object) -> Outcome:
    """Check that an outcome can be stored and read again; what this raises fails the call, not the run."""
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
    """Check the result that a tool's `reconcile` returned."""
    return _with_files_that_fit(_results.decode(body(known)))


def _with_files_that_fit(result: Completed | Failed) -> Completed | Failed:
    """Leave out files that are too large for a model; the result still counts, as the work is done."""
    if isinstance(result, Failed) or not result.files:
        return result
    output, files = fit_files(result.output, result.files)
    return replace(result, output=output, files=files)
