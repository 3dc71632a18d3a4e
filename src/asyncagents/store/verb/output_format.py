"""Finds the output format and the system text that prompts of a turn ask for."""

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import JsonFormat, UserMessage
from asyncagents.domain.session_state import Control
from asyncagents.domain.step import OutputFormat, format_key_prefix
from asyncagents.store.tx import Tx
from asyncagents.store.verb.read import count_inputs


async def turn_system_text(tx: Tx, control: Control) -> str:
    """Read the system text of the newest prompt of this turn that has one, else an empty text."""
    row = await tx.one("newest_system", control.id, control.turn)
    message = decode_message(upcast(row[1], row[0])) if row is not None else None
    return message.system or "" if isinstance(message, UserMessage) else ""


async def find_output_format(tx: Tx, control: Control) -> OutputFormat | None:
    """Find the output format of the newest prompt of this turn that has one; None: free text."""
    row = await tx.one("newest_format", control.id, control.turn)
    if row is None:
        return None
    message = decode_message(upcast(row[1], row[0]))
    if not isinstance(message, UserMessage) or not isinstance(message.format, JsonFormat):
        return None
    tries = await count_inputs(tx, control.id, format_key_prefix(message.id))
    return OutputFormat(message.id, message.format, tries)
