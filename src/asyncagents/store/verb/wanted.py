"""The form that a turn's answer is wanted in: what the newest prompt of the turn says that wants one."""

from msgspec import Struct

from asyncagents.domain.codec import decode_message, upcast
from asyncagents.domain.control import Control
from asyncagents.domain.id import MessageId
from asyncagents.domain.message import JsonFormat, UserMessage
from asyncagents.store.tx import Tx
from asyncagents.store.verb.read import count_inputs


class Wanted(Struct, frozen=True):
    message_id: MessageId
    format: JsonFormat
    tries: int
    """How often the model has been asked again; counted in the inbox, so a crash forgets nothing."""

    @property
    def next_key(self) -> str:
        return f"{_prefix(self.message_id)}{self.tries + 1}"


def _prefix(message_id: MessageId) -> str:
    return f"format:{message_id}:"


async def system_of(tx: Tx, control: Control) -> str:
    """What the model is told in this turn beside its instructions, by whoever spoke last and said so."""
    row = await tx.one("newest_system", control.id, control.turn)
    message = decode_message(upcast(row[1], row[0])) if row is not None else None
    return message.system or "" if isinstance(message, UserMessage) else ""


async def wanted(tx: Tx, control: Control) -> Wanted | None:
    """None: as the model likes."""
    row = await tx.one("newest_format", control.id, control.turn)
    if row is None:
        return None
    message = decode_message(upcast(row[1], row[0]))
    if not isinstance(message, UserMessage) or not isinstance(message.format, JsonFormat):
        return None
    tries = await count_inputs(tx, control.id, _prefix(message.id))
    return Wanted(message.id, message.format, tries)
