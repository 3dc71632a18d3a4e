"""Promotes unread input and notices: gives them a position in what the model reads."""

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.fact import InputSource
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.task.notice import NoticeOptions
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.notice import is_due, open_notices, promote_notices


class UnreadInput(Struct, frozen=True):
    """Input that no step has promoted yet."""

    message_id: MessageId
    info: bytes
    version: int
    state: str
    answer_id: MessageId | None
    source: InputSource


class Unread(Struct, frozen=True):
    inputs: tuple[UnreadInput, ...]
    notices: list[Row]

    @property
    def has_items(self) -> bool:
        return bool(self.inputs or self.notices)

    @property
    def wants_another_answer(self) -> bool:
        """Whether prompts or notices are queued, and no input by which the runtime extends its answer."""
        queued = [each.source for each in self.inputs if each.state == "queued"]
        return "system" not in queued and bool(queued or any(map(is_due, self.notices)))

    def needs_step(self, control: Control) -> bool:
        """Whether there is something to answer, or a turn to go on with."""
        stranded = sum(each.state == "aborted" and each.answer_id is None for each in self.inputs)
        if control.is_cancelled(stranded=stranded):
            return False
        waits = any(each.state == "queued" for each in self.inputs) or any(map(is_due, self.notices))
        return control.in_turn or waits


async def read_unread(tx: Tx, session_id: SessionId) -> Unread:
    inputs = tuple(UnreadInput(*each) for each in await tx.all("unread_inputs", session_id))
    return Unread(inputs, await open_notices(tx, session_id))


async def promote(
    tx: Tx, control: Control, info: Session, inbox: Unread, *, options: NoticeOptions
) -> tuple[Control, UserMessage | None]:
    """Promote all of it; returns the newest message, which the step answers. Input comes after notices."""
    rev = await tx.rev()
    control = control.after_turn_start(rev)
    newest: UserMessage | None = None
    if inbox.notices:
        control, newest = await promote_notices(
            tx, control, info, inbox.notices, message_id=options.message_id, notice_format=options.how
        )
    if any(each.source == "person" for each in inbox.inputs):
        control = replace(control, steps=0)  # a new prompt gets the full number of steps
    for each in inbox.inputs:
        control = replace(control, positions=control.positions + 1)
        await tx.one("place_message", control.positions, control.turn, rev, each.message_id)
        await tx.one("promote_input", control.turn, rev, each.message_id)
        if each.source == "compaction":
            control = replace(control, compacting=control.positions)
        message = decode_message(upcast(each.version, each.info))
        newest = message if isinstance(message, UserMessage) else newest
    return control, newest
