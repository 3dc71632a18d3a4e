"""The choices of a session: agent (a mode), model and effort."""

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.acp.shape import ConfigOption, Mode, ModeState, OptionValue
from asyncagents.client.catalog import AgentSummary, ProviderCatalog
from asyncagents.domain.conversation.session import Session
from asyncagents.errors import InvalidInput

AGENT, MODEL, EFFORT = "agent", "model", "effort"
DEFAULT_EFFORT = "default"


class Choices(Struct, frozen=True, kw_only=True):
    """What a person chose for the next prompt; None: as the session has it."""

    agent: str | None = None
    model: str | None = None
    effort: str | None = None


class ChoiceCatalog(Struct, frozen=True, kw_only=True):
    """The agents and models that a session can be changed to."""

    agents: tuple[AgentSummary, ...]
    """Those that speak to people; the default one first."""
    models: ProviderCatalog
    default_model: str | None = None


class SessionChoices:
    """The choices of one session, as modes for older clients and as options for newer ones."""

    def __init__(self, catalog: ChoiceCatalog, session: Session) -> None:
        self._catalog = catalog
        self._session_agent = session.agent
        self._session_model = (
            f"{session.model.provider_id}/{session.model.id}" if session.model is not None else None
        )
        self._session_effort = session.model.variant if session.model is not None else None
        self.chosen = Choices()

    @property
    def agent(self) -> str:
        default = self._catalog.agents[0].name if self._catalog.agents else ""
        return self.chosen.agent or self._session_agent or default

    @property
    def model(self) -> str | None:
        return self.chosen.model or self._session_model or self._catalog.default_model

    @property
    def effort(self) -> str | None:
        return self.chosen.effort if self.chosen.effort is not None else self._session_effort

    def modes(self) -> ModeState | None:
        if not self._catalog.agents:
            return None
        modes = tuple(
            Mode(id=each.name, name=each.name.capitalize(), description=each.description)
            for each in self._catalog.agents
        )
        return ModeState(current_mode_id=self.agent, available_modes=modes)

    def config_options(self) -> tuple[ConfigOption, ...]:
        options = [self._agent_option(), self._model_option(), self._effort_option()]
        return tuple(each for each in options if each is not None)

    def _agent_option(self) -> ConfigOption | None:
        values = tuple(
            OptionValue(value=each.name, name=each.name.capitalize(), description=each.description)
            for each in self._catalog.agents
        )
        return _option(AGENT, "Agent", "mode", current=self.agent, values=values)

    def _model_option(self) -> ConfigOption | None:
        values = tuple(
            OptionValue(value=name, name=model.name or name)
            for name, model in self._catalog.models.models.items()
        )
        return _option(MODEL, "Model", "model", current=self.model, values=values)

    def _effort_option(self) -> ConfigOption | None:
        efforts = self._efforts()
        if not efforts:
            return None
        values = tuple(OptionValue(value=each, name=each.capitalize()) for each in efforts)
        current = self.effort if self.effort in efforts else DEFAULT_EFFORT
        return _option(EFFORT, "Effort", "thought_level", current=current, values=values)

    def _efforts(self) -> tuple[str, ...]:
        model = self._catalog.models.models.get(self.model or "")
        return (DEFAULT_EFFORT, *model.variants) if model is not None and model.variants else ()

    def choose(self, option: str, value: str | bool) -> None:
        """Change a choice. Raises `InvalidInput` for an unknown option or value."""
        known = {each.id: each for each in self.config_options()}
        if option not in known:
            raise InvalidInput(f"there is no option {option!r}: use one of {', '.join(known)}")
        values = [each.value for each in known[option].options]
        if not isinstance(value, str) or value not in values:
            raise InvalidInput(f"{option} cannot be {value!r}: use one of {', '.join(values[:50])}")
        match option:
            case "agent":
                self.chosen = replace(self.chosen, agent=value)
            case "model":
                self.chosen = Choices(agent=self.chosen.agent, model=value)
            case _:
                self.chosen = replace(self.chosen, effort="" if value == DEFAULT_EFFORT else value)


def _option(
    id: str, name: str, category: str, *, current: str | None, values: tuple[OptionValue, ...]
) -> ConfigOption | None:
    """Build an option; None if nothing can be chosen. A current value that is gone is listed as well."""
    if not values and current is None:
        return None
    if current is not None and current not in {each.value for each in values}:
        values = (OptionValue(value=current, name=current), *values)
    return ConfigOption(
        id=id, name=name, category=category, current_value=current or values[0].value, options=values
    )
