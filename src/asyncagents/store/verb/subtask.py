"""Runs subtasks of a prompt: calls of the tool `task` that no model made, before the model is asked."""

from msgspec.structs import replace

from asyncagents.domain.call.call import WRITTEN_BY_PERSON, Call, Effect
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import StepStartPart, SubtaskPart
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.id import MessageId
from asyncagents.domain.session_state import Control
from asyncagents.domain.step import TASK_TOOL, SubtaskOptions
from asyncagents.store.row import append_system_message, insert_message, put_call
from asyncagents.store.tx import Tx


def subtasks(tail: tuple[MessageWithParts, ...], promoted: set[MessageId]) -> tuple[SubtaskPart, ...]:
    """The subtasks in the input that this step promotes."""
    entries = [entry for entry in tail if entry.info.id in promoted] if promoted else []
    return tuple(part for entry in entries for part in entry.parts if isinstance(part, SubtaskPart))


async def begin_subtasks(
    tx: Tx, control: Control, message: AssistantMessage, tasks: tuple[SubtaskPart, ...], *, effect: Effect
) -> Control:
    """Insert a step without a model request; its calls run next, and then the model is asked."""
    time = replace(message.time, completed=tx.now)
    message = replace(message, finish="tool-calls", time=time)
    control = replace(control, positions=control.positions + 1)
    await insert_message(tx, message, position=control.positions, turn=control.turn)
    for task in tasks:
        call = Call(
            id=tx.ids.call(),
            session_id=control.id,
            message_id=message.id,
            part_id=tx.ids.part(),
            call_id=task.id,
            tool=TASK_TOOL,
            input=_input(task),
            turn=control.turn,
            created=tx.now,
            agent=message.agent,
            granted=(WRITTEN_BY_PERSON,),
            effect=effect,
        )
        await put_call(tx, call)
    return control


def _input(task: SubtaskPart) -> dict[str, str]:
    given = {"description": task.description, "prompt": task.prompt, "subagent_type": task.agent}
    if task.model is not None:
        given["model"] = f"{task.model.provider_id}/{task.model.model_id}"
    return given if task.command is None else {**given, "command": task.command}


async def prompt_to_continue(
    tx: Tx, control: Control, tail: tuple[MessageWithParts, ...], options: SubtaskOptions
) -> tuple[Control, tuple[MessageWithParts, ...]]:
    """Append, once, the message that says what to do with the results of subtasks."""
    step = _subtask_step(tail) if options.go_on else None
    if step is None:
        return control, tail
    target = MessageTarget(control.id, step.agent, step.model_ref)
    system_message = build_system_message(
        target, options.go_on, ids=tx.ids, now=tx.now, message_id=options.message_id
    )
    return await append_system_message(tx, control, system_message), (
        *tail,
        MessageWithParts(info=system_message.message, parts=(system_message.part,)),
    )


def _subtask_step(tail: tuple[MessageWithParts, ...]) -> AssistantMessage | None:
    """The last step, if it was one without a model request."""
    if not tail or not isinstance(tail[-1].info, AssistantMessage):
        return None
    asked = any(isinstance(part, StepStartPart) for part in tail[-1].parts)
    return None if asked else tail[-1].info
