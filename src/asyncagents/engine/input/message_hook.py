"""The `chat.message` hooks, which may change a prompt's parts, agent and model before it is admitted."""

import logging
from collections.abc import Iterable

from msgspec.structs import replace

from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import Ids
from asyncagents.engine.workplace.hooks import IncomingPrompt
from asyncagents.engine.workplace.workplace import Workplace, Workplaces, workplace_at
from asyncagents.errors import InvalidInput

_log = logging.getLogger(__name__)


async def run_chat_message_hooks(workplaces: Workplaces, directory: str, fact: Admit, ids: Ids) -> Admit:
    """Run the `chat.message` hooks; ignore an agent that the directory does not define."""
    if not workplaces.has_hooks:
        return fact
    workplace = await workplace_at(workplaces, directory)
    if "chat.message" not in workplace.hooks.names:
        return fact
    message = fact.message
    before = IncomingPrompt(
        session_id=fact.session_id,
        message_id=message.id,
        agent=None if fact.same_agent else message.agent,
        model=None if fact.same_model else message.model,
        parts=fact.parts,
    )
    after = _resolve_agent(workplace, before, await workplace.hooks.chat_message(before))
    parts = fact.parts if after.parts == before.parts else reassign_parts(after.parts, message, ids)
    message = replace(message, agent=after.agent or message.agent, model=after.model or message.model)
    return replace(
        fact, message=message, parts=parts, same_agent=after.agent is None, same_model=after.model is None
    )


def _resolve_agent(workplace: Workplace, before: IncomingPrompt, after: IncomingPrompt) -> IncomingPrompt:
    """Check the agent that hooks chose; its own model applies unless they chose one as well."""
    if after.agent is None or after.agent == before.agent:
        return after
    try:
        own = workplace.model(after.agent)
    except InvalidInput as error:
        _log.warning(
            "session=%s action=chat.message a hook chose an unknown agent: %s", before.session_id, error
        )
        return replace(after, agent=before.agent)
    return replace(after, model=own or after.model) if after.model == before.model else after


def reassign_parts(parts: Iterable[Part], message: UserMessage, ids: Ids) -> tuple[Part, ...]:
    """Give parts new ids in this order, and this message as theirs."""
    return tuple(
        replace(part, id=ids.part(), session_id=message.session_id, message_id=message.id) for part in parts
    )
