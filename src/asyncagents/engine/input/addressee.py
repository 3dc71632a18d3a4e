"""Choose the agent of a prompt or a command: one that answers in the session, or one that gets a task."""

from msgspec.structs import replace

from asyncagents.config.markdown.commands import CommandDefinition
from asyncagents.domain.agent.permission import TASK, RuleSet, rules_from_tools
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part_input import SubtaskInput, TextInput
from asyncagents.domain.conversation.session import Session, title_from
from asyncagents.engine.input.message import PromptOptions, model_ref, validate_parts
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import InvalidInput

DEFAULT_SUBAGENT = "general"
"""The agent of a subtask that names none."""


def choose_addressee(place: Workplace, session: Session, to: PromptOptions) -> PromptOptions:
    """Choose the agent and the model of a prompt; an agent with a model of its own sets that model."""
    chosen: PromptOptions = {**to}
    if chosen.get("agent") or not session.agent:
        agent = chosen.get("agent") or place.default_agent()
        if agent is not None:
            chosen["agent"] = agent
            chosen["model"] = chosen.get("model") or place.model(agent)
    if not chosen.get("model") and session.model is None:
        own = place.model(session.agent) if session.agent and not chosen.get("agent") else None
        chosen["model"] = own or place.default_model
    if chosen.get("variant") and not chosen.get("model") and session.model is not None:
        chosen["model"] = ModelRef(provider_id=session.model.provider_id, model_id=session.model.id)
    return chosen


def as_task(text: str, worker: str, to: PromptOptions) -> PromptOptions:
    """Replace a prompt's text by a task for a subagent."""
    parts = _make_task(text, worker, to), *(to.get("parts") or ())
    return {**to, "agent": None, "model": None, "parts": parts}


def _make_task(text: str, worker: str, to: PromptOptions) -> SubtaskInput:
    model = model_ref(to.get("model"))
    return SubtaskInput(prompt=text, description=title_from(text) or worker, agent=worker, model=model)


def texts_as_task(worker: str, to: PromptOptions) -> PromptOptions:
    """Replace the text parts that a client sent by one task. Without a text nothing changes."""
    parts = validate_parts(to.get("parts") or ())
    texts = [part for part in parts if isinstance(part, TextInput) and not part.ignored and part.text.strip()]
    if not texts:
        return to
    text = "\n\n".join(part.text for part in texts)
    task = replace(_make_task(text, worker, to), id=texts[0].id)
    kept = [task if part is texts[0] else part for part in parts if part is texts[0] or part not in texts]
    return {**to, "agent": None, "model": None, "parts": kept}


def find_asked_subagent(place: Workplace, session: Session, to: PromptOptions) -> str | None:
    """Return the subagent that a prompt names, to which the session gives the prompt as a task. None: the
    session answers, because it is that subagent's own, or because its rules deny launches, as in tasks."""
    name = to.get("agent")
    if not name or name == session.agent or place.subagents is None:
        return None
    own = RuleSet(session.permission or (), rules_from_tools(session.tools or {}))
    if own.evaluate(TASK, name) == "deny":
        return None
    agent = place.subagents.get(name)
    return name if agent is not None and agent.mode == "subagent" else None


def choose_by_command(place: Workplace, command: CommandDefinition, to: PromptOptions) -> PromptOptions:
    """Choose the agent and the model that a command's front matter names."""
    config = command.config
    chosen: PromptOptions = {**to}
    if config.agent is not None:
        chosen["agent"] = config.agent
        chosen["model"] = place.model(config.agent) or to.get("model")
    if config.model is not None:
        chosen["model"] = config.model
    if config.variant is not None:
        chosen["variant"] = config.variant
    return chosen


def find_command_worker(place: Workplace, command: CommandDefinition) -> str | None:
    """Return the subagent that a command is a task for; None: the session answers."""
    config = command.config
    if config.subtask is False or (config.subtask is None and config.agent is None):
        return None
    assert place.prompt_sources is not None, "the command comes from its sources"
    name = config.agent or DEFAULT_SUBAGENT
    agent = place.prompt_sources.agent(name)
    if agent is None:
        raise InvalidInput(
            f"/{command.name} needs the agent {name!r}, which does not exist here: name another one"
        )
    return name if config.subtask or agent.mode == "subagent" else None
