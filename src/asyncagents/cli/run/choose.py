"""Chooses agent and model of a prompt, from the options, the session and the config."""

from msgspec import Struct

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.run.arguments import RunArguments
from asyncagents.config.config import Config
from asyncagents.config.file.builtin_providers import suggest_model
from asyncagents.config.file.check import suggestion
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Session
from asyncagents.engine.input.message import model_ref
from asyncagents.engine.workplace.agents import Agents
from asyncagents.errors import InvalidInput, ModelError, NotTrusted
from asyncagents.llm.roster import Roster

MODELS_HINT = "`asyncagents models` lists the models that can be used"


class AgentChoice(Struct, frozen=True):
    """Agent and model of a prompt; None: the host chooses."""

    agent: str | None
    model: ModelRef | None


def choose_agent_and_model(
    config: Config, agents: Agents, arguments: RunArguments, session: Session | None
) -> AgentChoice:
    """Choose agent and model. Raises if they are known to be unusable without a request."""
    roster = Roster(config)
    agent = _choose_agent(agents, arguments, session)
    own = agents.get(agent).model
    candidates = (
        parse_model(arguments.model, config),
        own if arguments.agent else None,
        _last_model(session),
        own,
        roster.default_model(),
    )
    model = next((each for each in candidates if each is not None), None)
    if model is None:
        error = roster.default_problem().error()
        raise error if isinstance(error, NotTrusted) else CliError(str(error), hint=MODELS_HINT, code=USAGE)
    try:
        roster.check(model)
    except NotTrusted:
        raise
    except (InvalidInput, ModelError) as error:
        mine = arguments.model is None and model == _last_model(session)
        hint = "this session used it last; --model chooses another" if mine else MODELS_HINT
        raise CliError(str(error), hint=hint, code=USAGE) from error
    return AgentChoice(agent, model)


def parse_model(model: str | None, config: Config | None = None) -> ModelRef | None:
    """Parse --model. Raises `CliError` with a suggestion if the provider is missing."""
    configured = {name: each.models for name, each in config.provider.items()} if config else {}
    meant = suggest_model(model, configured) if model and "/" not in model else None
    if meant is not None:
        raise CliError(f"{model!r} is not a model: did you mean {meant}?", hint=MODELS_HINT, code=USAGE)
    return model_ref(model)


def _last_model(session: Session | None) -> ModelRef | None:
    used = session.model if session else None
    return ModelRef(provider_id=used.provider_id, model_id=used.id, variant=used.variant) if used else None


def _choose_agent(agents: Agents, arguments: RunArguments, session: Session | None) -> str:
    """Choose the agent: --agent, else the session's, else the default. Raises if it is not defined here."""
    before = session.agent if session is not None else None
    name = arguments.agent or before or agents.default().name
    known = [agent.name for agent in agents.list(hidden=True)]
    agents.check_trust(name)
    if name not in known:
        shown = [agent.name for agent in agents.list()]
        near = suggestion(name, known)
        instead = f"did you mean {near!r}?" if near else f"there are {', '.join(shown)}"
        gone = (
            f"this session's agent {name!r} is gone"
            if arguments.agent is None
            else f"there is no agent {name!r}"
        )
        raise CliError(f"{gone}: {instead}", hint="--agent chooses another" if before else "", code=USAGE)
    return name
