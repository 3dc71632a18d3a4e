"""The texts that a model reads in place of a result that is missing, and when it arrives late."""

from msgspec import Struct

from asyncagents.domain.call.call import Call, Completed, Failed, Settled
from asyncagents.domain.call.result_file import name_files
from asyncagents.domain.envelope import escape_tags
from asyncagents.domain.text import shorten_result


def pending_text(call_id: str, tool: str) -> str:
    """Return the text that the model reads in place of a missing result; it never changes afterwards."""
    return f"This call is still pending ({tool}, {call_id}). Its result will arrive in a later message."


def result_text(call: Call) -> str:
    """Return the text that the model reads when the result of a call that was shown as pending arrives.

    It is part of a user message, so tags of ours are escaped in it.
    """
    match call.state:
        case Settled(Completed(output, files=files)):
            words = f"{shorten_result(output)}\n\n{name_files(files)}" if files else shorten_result(output)
            return _late_result_heading(call.call_id, call.tool, failed=False) + escape_tags(
                words, files=True
            )
        case Settled(Failed(error)):
            return _late_result_heading(call.call_id, call.tool, failed=True) + escape_tags(
                shorten_result(error), files=True
            )
        case _:
            raise ValueError(f"call {call.id} has no result yet")


def _late_result_heading(call_id: str, tool: str, *, failed: bool) -> str:
    return f"The pending call {call_id} ({tool}) has {'failed' if failed else 'completed'}:\n\n"


class LateResult(Struct, frozen=True):
    """The values that `result_text` was built from."""

    call_id: str
    tool: str
    result: str
    failed: bool

    @property
    def heading(self) -> str:
        """The text before the result."""
        return _late_result_heading(self.call_id, self.tool, failed=self.failed)


def parse_late_result(text: str) -> LateResult | None:
    """Parse a text of `result_text`; None if it is another text."""
    line, blank, result = text.partition("\n\n")
    call_id, _, tool = line.removeprefix("The pending call ").rpartition(" (")
    tool, _, how = tool.rpartition(") has ")
    found = LateResult(call_id, tool, result, how == "failed:")
    return found if blank and text.startswith(found.heading) else None
