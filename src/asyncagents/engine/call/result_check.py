"""Check what tools return by encoding and decoding it: type hints are not enforced at run time."""

import msgspec
from msgspec.structs import replace

from asyncagents.config.secret import Secret
from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.result_file import fit_files
from asyncagents.engine.tool import Ask, Outcome, Pending, WithFacts
from asyncagents.errors import InvalidInput

_result_decoder: msgspec.json.Decoder[Completed | Failed] = msgspec.json.Decoder(Completed | Failed)
_pending_decoder = msgspec.json.Decoder(Pending)
_asks_decoder = msgspec.json.Decoder(tuple[Ask, ...])


def check_asks(planned: object) -> tuple[Ask, ...]:
    """Check the asks of a plan: one that cannot be decoded again would make its session unreadable."""
    if planned == ():
        return ()
    try:
        return _asks_decoder.decode(encode_body(planned))
    except (msgspec.ValidationError, InvalidInput) as error:
        raise TypeError(f"its plan is to return Asks: {error}") from error


def check_outcome(outcome: object) -> Outcome:
    """Check that an outcome can be stored and read again; what this raises fails the call, not the run."""
    match outcome:
        case Completed() | Failed():
            _result_decoder.decode(encode_body(outcome))
            return _drop_oversized_files(outcome)
        case WithFacts(Completed() | Failed() as result):
            _result_decoder.decode(encode_body(result))
            return replace(outcome, result=_drop_oversized_files(result))
        case WithFacts():
            pass
        case Pending(kind=kind, questions=questions, approval=approval):
            _pending_decoder.decode(encode_body(replace(outcome, secret=None, webhook_secret=None)))
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


def check_reconciled(known: object) -> Completed | Failed:
    """Check the result that a tool's `reconcile` returned."""
    return _drop_oversized_files(_result_decoder.decode(encode_body(known)))


def _drop_oversized_files(result: Completed | Failed) -> Completed | Failed:
    """Leave out files that are too large for a model; the result still counts, as the work is done."""
    if isinstance(result, Failed) or not result.files:
        return result
    output, files = fit_files(result.output, result.files)
    return replace(result, output=output, files=files)
