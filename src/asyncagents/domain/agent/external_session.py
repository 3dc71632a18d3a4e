"""External sessions: the session of an external agent in which a session of ours works."""

from msgspec import Struct

from asyncagents.domain.id import MessageId, SessionId


class PromptUnderWay(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that was sent, or is about to be, and whose answer is not stored yet."""

    step_id: MessageId
    """The step that streams the answer."""
    sent: int
    after: MessageId | None = None
    """The message before the input of this prompt; None: the conversation begins with it."""
    continues: bool = False
    """Whether the text was a request to continue, because the prompt itself had been sent before."""


class ExternalSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the external session: enough to go on with it after a crash."""

    session_id: SessionId
    external_id: str
    """The external agent's own id of the session."""
    agent: str
    command: tuple[str, ...]
    loads: bool = False
    """Whether the external agent can load a session and replay it."""
    resumes: bool = False
    """Whether it can resume a session without a replay."""
    introduced: bool = False
    """Whether a prompt had an effect there; until then each begins with what a new session must know."""
    newest_input: MessageId | None = None
    """The newest input that was sent to it."""
    prompts: int = 0
    """How many prompts were sent to it."""
    cost: float = 0.0
    """The cost that it has reported for the whole session."""
    prompt: PromptUnderWay | None = None
    """None: no prompt is under way."""
