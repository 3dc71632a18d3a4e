"""Where a session works: the tools there are, who uses them, and what each of them may do."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent import Agent
from asyncagents.domain.call import Effect, Failed
from asyncagents.domain.message import ModelRef
from asyncagents.domain.notice import Telling
from asyncagents.domain.permission import Effective
from asyncagents.domain.session import Rule, Session
from asyncagents.domain.window import words
from asyncagents.engine.agents import prompt_text
from asyncagents.engine.hook import NO_HOOKS, Hooks
from asyncagents.engine.material import Material
from asyncagents.engine.served import Served, Switchboard
from asyncagents.engine.snapshots import UNKEPT, NoSnapshots, Snapshots
from asyncagents.engine.tool import AnyTool, Policy, ask_everything
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.llm.model import Options, Request, ToolSpec
from asyncagents.store.verb.remind import Stepping

Silence: TypeAlias = Literal["park", "deny", "fail"]
NOBODY = "Nobody can answer whether this is allowed, so it was not done. Go on without it."
TOO_LATE = "Nobody answered in time whether this is allowed, so it was not done. Go on without it."


class Asking(Struct, frozen=True, kw_only=True):
    """What becomes of an ask that nobody answers."""

    silence: Silence = "park"
    """Wait; or be denied, and the model goes on; or be denied, and the turn ends."""
    seconds: float | None = None
    """How long it waits first, unless it is parked; None: not at all."""
    rejected_goes_on: bool = False
    """A no without a word does not end the turn."""

    @property
    def refusal(self) -> Failed | None:
        """The answer to an ask for which it makes no sense to wait."""
        if self.silence == "park" or self.seconds:
            return None
        return Failed(NOBODY, blocks=self.silence == "fail")


class Keeping(Struct, frozen=True, kw_only=True):
    """What becomes of a conversation that grows long."""

    auto: bool = True
    """It is summarised when it is too long for the model."""
    prune: bool = True
    """Old output of tools is left out."""
    reserved: int | None = None
    """Tokens of the window that stay free; None: as many as the model may write."""
    recent: int | None = None
    """Tokens of the newest messages that stay as they are."""
    turns: int | None = None
    """How many prompts back they reach at most."""


class Brief(Struct, frozen=True, kw_only=True):
    """What one agent's step is told besides the conversation."""

    system: str = ""
    specs: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    steps: int | None = None
    """How many steps may follow what a person says; None is no limit."""
    tool_choice: str | None = None
    """As in a `Request`."""

    weight: int | None = None
    """What it takes of the window, in tokens, if that was worked out before."""

    def also(self, system: str) -> "Brief":
        """With these words behind its system prompt."""
        if not system:
            return self
        return replace(self, system="\n\n".join(filter(None, (self.system, system))), weight=None)

    @property
    def tokens(self) -> int:
        """What it takes of the window, as far as one can tell."""
        if self.weight is not None:
            return self.weight
        return words(self.system) + sum(spec.tokens for spec in self.specs)


class Workplace(Protocol):
    """What a directory offers to its sessions. An agent that is gone raises `InvalidInput`."""

    @property
    def tools(self) -> Mapping[str, AnyTool]: ...

    @property
    def effects(self) -> Mapping[str, Effect]: ...

    @property
    def asking(self) -> Asking: ...

    @property
    def reminds(self) -> bool: ...

    @property
    def hooks(self) -> Hooks: ...

    @property
    def worktree(self) -> str:
        """The root of the project; nothing: the directory itself."""
        ...

    @property
    def nudges(self) -> int:
        """How often an agent that stops with todos left is told to go on."""
        ...

    @property
    def staff(self) -> Mapping[str, Agent] | None:
        """Who can be given a task, by name; None: anybody, whoever it is."""
        ...

    @property
    def telling(self) -> Telling:
        """How the ends of tasks are told."""
        ...

    @property
    def served(self) -> Served | None:
        """What servers offer besides tools; None: there are none."""
        ...

    @property
    def snapshots(self) -> Snapshots | NoSnapshots:
        """What its files were like."""
        ...

    def rules(self, agent: str, session: Session) -> Effective | None:
        """An agent's own, in one session; None: there is a policy and no rules."""
        ...

    def brief(self, agent: str, rules: Effective | None) -> Brief: ...

    def policy(self, agent: str, rules: Effective | None, approved: Sequence[Rule]) -> Policy:
        """By all the rules that count, and what was approved for good."""
        ...

    def default_agent(self) -> str | None:
        """Who answers if nobody was chosen; None: whoever the runtime says."""
        ...

    def reminders(self, stepping: Stepping) -> tuple[str, ...]: ...

    @property
    def default_model(self) -> ModelRef | None:
        """What a session is asked with first if nobody says; None: the default of the whole runtime."""
        ...

    def model(self, agent: str) -> ModelRef | None:
        """The one that the agent asks for; None: whichever the session uses."""
        ...

    @property
    def keeping(self) -> Keeping: ...

    def summarising(self, used: ModelRef) -> Request:
        """How a model is asked for a summary, with nothing told yet. `used`: the session's."""
        ...

    def titling(self, used: ModelRef) -> Request | None:
        """How a model is asked for a title, with nothing told yet; None: not here. `used`: the session's."""
        ...

    @property
    def material(self) -> Material | None:
        """What prompts may draw on; None: they are taken as they come."""
        ...


class Workplaces(Protocol):
    @property
    def switchboard(self) -> Switchboard | None:
        """Of servers of tools; None: there can be none."""
        ...

    @property
    def bare(self) -> bool:
        """Whether every directory is the same, without agents and rules of its own."""
        ...

    @property
    def hooked(self) -> bool:
        """Whether hooks of plugins may have to be asked, with or without files."""
        ...

    async def at(self, directory: str, *, working: bool = False) -> Workplace:
        """As its files are now; `ConfigError` if they cannot be used. With `working` somebody is about to:
        what takes time to begin with, such as a server of tools, is waited for, within bounds."""
        ...

    @property
    def known(self) -> tuple[str, ...]:
        """Directories of which something is kept."""
        ...

    def forget(self, directory: str) -> None:
        """Its files are read again when somebody asks for them next."""
        ...


class Bare:
    """The same few tools everywhere, under one policy, for whatever agent."""

    reminds = False
    nudges = 0
    bare = True
    hooked = False
    known: tuple[str, ...] = ()
    switchboard: Switchboard | None = None
    keeping = Keeping()
    served: Served | None = None
    material: Material | None = None
    staff: Mapping[str, Agent] | None = None
    hooks: Hooks = NO_HOOKS
    worktree = ""
    default_model: ModelRef | None = None
    snapshots: Snapshots | NoSnapshots = UNKEPT

    def __init__(
        self,
        tools: Sequence[AnyTool],
        policy: Policy,
        asking: Asking | None = None,
        *,
        reader: str | None = None,
    ) -> None:
        """`reader`: the tool that reads what tasks came to."""
        self.tools: Mapping[str, AnyTool] = {tool.name: tool for tool in tools}
        self.effects: Mapping[str, Effect] = {tool.name: tool.effect for tool in tools}
        self.asking = asking or Asking()
        self.telling = Telling(tool=reader)
        self._policy = policy
        self._brief = Brief(specs=tuple(tool.spec() for tool in tools))

    async def at(self, directory: str, *, working: bool = False) -> Workplace:
        return self

    def forget(self, directory: str) -> None:
        """There are no files."""

    def rules(self, agent: str, session: Session) -> Effective | None:
        return None

    def brief(self, agent: str, rules: Effective | None) -> Brief:
        return self._brief

    def policy(self, agent: str, rules: Effective | None, approved: Sequence[Rule]) -> Policy:
        return self._policy

    def default_agent(self) -> str | None:
        return None

    def reminders(self, stepping: Stepping) -> tuple[str, ...]:
        return ()

    def model(self, agent: str) -> ModelRef | None:
        return None

    def summarising(self, used: ModelRef) -> Request:
        return Request(model=used, messages=(), system=prompt_text("compaction"))

    def titling(self, used: ModelRef) -> Request | None:
        return None


class Unusable(Bare):
    """A directory whose configuration cannot be used: nobody works there until it is mended."""

    def __init__(self, why: str) -> None:
        super().__init__((), ask_everything)
        self.why = why

    def brief(self, agent: str, rules: Effective | None) -> Brief:
        raise InvalidInput(self.why)


async def enter(workplaces: Workplaces, directory: str, *, working: bool = False) -> Workplace:
    """Whatever its files are like: what is wrong with them is told by whoever needs them."""
    try:
        return await workplaces.at(directory, working=working)
    except ConfigError as error:
        return Unusable(str(error))
