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


def choose_addressee(workplace: Workplace, session: Session, options: PromptOptions) -> PromptOptions:
    """Choose the agent and the model of a prompt; an agent with a model of its own sets that model."""
    chosen: PromptOptions = {**options}
    if chosen.get("agent") or not session.agent:
        agent = chosen.get("agent") or workplace.default_agent()
        if agent is not None:
            chosen["agent"] = agent
            chosen["model"] = chosen.get("model") or workplace.model(agent)
    if not chosen.get("model") and session.model is None:
        own = workplace.model(session.agent) if session.agent and not chosen.get("agent") else None
        chosen["model"] = own or workplace.default_model
    if chosen.get("variant") and not chosen.get("model") and session.model is not None:
        chosen["model"] = ModelRef(provider_id=session.model.provider_id, model_id=session.model.id)
    return chosen


def as_task(text: str, worker: str, options: PromptOptions) -> PromptOptions:
    """Replace a prompt's text by a task for a subagent."""
    parts = _make_task(text, worker, options), *(options.get("parts") or ())
    return {**options, "agent": None, "model": None, "parts": parts}


def _make_task(text: str, worker: str, options: PromptOptions) -> SubtaskInput:
    model = model_ref(options.get("model"))
    return SubtaskInput(prompt=text, description=title_from(text) or worker, agent=worker, model=model)


def texts_as_task(worker: str, options: PromptOptions) -> PromptOptions:
    """Replace the text parts that a client sent by one task. Without a text nothing changes."""
    parts = validate_parts(options.get("parts") or ())
    texts = [part for part in parts if isinstance(part, TextInput) and not part.ignored and part.text.strip()]
    if not texts:
        return options
    text = "\n\n".join(part.text for part in texts)
    task = replace(_make_task(text, worker, options), id=texts[0].id)
    new_parts = [
        task if part is texts[0] else part for part in parts if part is texts[0] or part not in texts
    ]
    return {**options, "agent": None, "model": None, "parts": new_parts}


def find_asked_subagent(workplace: Workplace, session: Session, options: PromptOptions) -> str | None:
    """Return the subagent that a prompt names, to which the session gives the prompt as a task. None: the
    session answers, because it is that subagent's own, or because its rules deny launches, as in tasks."""
    name = options.get("agent")
    if not name or name == session.agent or workplace.subagents is None:
        return None
    own = RuleSet(session.permission or (), rules_from_tools(session.tools or {}))
    if own.evaluate(TASK, name) == "deny":
        return None
    agent = workplace.subagents.get(name)
    return name if agent is not None and agent.mode == "subagent" else None


def choose_by_command(
    workplace: Workplace, command: CommandDefinition, options: PromptOptions
) -> PromptOptions:
    """Choose the agent and the model that a command's front matter names."""
    config = command.config
    chosen: PromptOptions = {**options}
    if config.agent is not None:
        chosen["agent"] = config.agent
        chosen["model"] = workplace.model(config.agent) or options.get("model")
    if config.model is not None:
        chosen["model"] = config.model
    if config.variant is not None:
        chosen["variant"] = config.variant
    return chosen


def find_command_worker(workplace: Workplace, command: CommandDefinition) -> str | None:
    """Return the subagent that a command is a task for; None: the session answers."""
    config = command.config
    if config.subtask is False or (config.subtask is None and config.agent is None):
        return None
    assert workplace.prompt_sources is not None, "the command comes from its sources"
    name = config.agent or DEFAULT_SUBAGENT
    agent = workplace.prompt_sources.agent(name)
    if agent is None:
        raise InvalidInput(
            f"/{command.name} needs the agent {name!r}, which does not exist here: name another one"
        )
    return name if config.subtask or agent.mode == "subagent" else None
