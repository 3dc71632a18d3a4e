"""Publishes asks, questions and their answers, and stores answers of earlier asks."""

from typing import Literal

from asyncagents.domain.call.call import Call
from asyncagents.domain.event import (
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
)
from asyncagents.domain.shape import encode
from asyncagents.store.tx import Tx


def publish_ask(tx: Tx, call: Call) -> None:
    if call.open and call.open.ask:
        tx.emit(PermissionAsked(request=call.open.ask))
    if call.open and call.open.question:
        tx.emit(QuestionAsked(request=call.open.question))


async def save_answer(tx: Tx, call: Call, after: Call) -> None:
    """Store the answer of an ask whose call asks something else now, so that a repeat gets the same reply."""
    if call.ask_id is not None and after.ask_id != call.ask_id and call.reply is not None:
        await tx.one("keep_answer", call.ask_id, call.session_id, call.id, encode(call.reply))


def publish_reply(tx: Tx, call: Call, reply: Literal["once", "always", "reject"]) -> None:
    """Publish that an open ask is closed; nothing for a call that asks nothing."""
    if call.open and call.open.ask:
        tx.emit(PermissionReplied(session_id=call.session_id, request_id=call.open.ask.id, reply=reply))
    if call.open and call.open.question and reply == "reject":
        tx.emit(QuestionRejected(session_id=call.session_id, request_id=call.open.question.id))


def publish_answers(tx: Tx, call: Call, answers: tuple[tuple[str, ...], ...]) -> None:
    if call.open and call.open.question:
        tx.emit(
            QuestionReplied(session_id=call.session_id, request_id=call.open.question.id, answers=answers)
        )
