"""Open the external session of a step, and decide what is sent to it."""

from functools import cache
from importlib.resources import files
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.external_session import ExternalSession, PromptUnderWay
from asyncagents.engine.external.agent import ExternalStep
from asyncagents.llm.model import UserTurn
from asyncagents.remote.acp.client import AcpClient
from asyncagents.remote.acp.content import prompt_blocks
from asyncagents.remote.acp.wire import JsonObject
from asyncagents.remote.json_rpc import RpcError

BEGUN_ANEW = (
    "The agent could not go on with its earlier session, so it began a new one with a transcript of this "
    "conversation."
)
TextName: TypeAlias = Literal["continue", "repeat", "transcript"]


class Opening(Struct, frozen=True, kw_only=True):
    """An open external session, and the prompt to send to it."""

    session: ExternalSession
    blocks: list[JsonObject]
    note: str = ""
    """What people should know about how the session was opened."""


class Doubt(Struct, frozen=True):
    """Nothing may be sent: how far the agent got with the last prompt cannot be known."""

    why: str


@cache
def load_text(name: TextName) -> str:
    return (files("asyncagents.remote.acp") / f"{name}.txt").read_text(encoding="utf-8").strip()


class SessionOpener:
    def __init__(self, step: ExternalStep, client: AcpClient, *, now: int) -> None:
        self._step = step
        self._client = client
        self._now = now

    async def open(self) -> Opening | Doubt:
        """Open a new session, or go on with the known one; after a crash find out what was done."""
        known = self._step.known
        same = known is not None and known.command == self._step.backend.command
        if known is None or (not same and known.prompt is None):
            return await self._begin(anew=known is not None)
        if not same:
            return Doubt("its command is another one now")
        if known.prompt is not None:
            return await self._recover(known, known.prompt)
        return await self._go_on(known)

    async def _begin(self, *, anew: bool = False) -> Opening:
        """Begin a new session; it is sent the conversation so far, which it does not know."""
        step = self._step
        external_id = await self._client.new_session()
        session = ExternalSession(
            session_id=step.session_id,
            external_id=external_id,
            agent=step.agent,
            command=step.backend.command,
            loads=self._client.capabilities.load_session,
            resumes=self._client.capabilities.resumes,
        )
        note = BEGUN_ANEW if anew and step.input.transcript else ""
        return self._opening(session, (*self._introduction(session), *step.input.unsent), note=note)

    def _introduction(self, session: ExternalSession) -> tuple[UserTurn, ...]:
        """Return what prompts of a new session begin with, until one of them has had an effect there."""
        if session.introduced:
            return ()
        step = self._step
        texts = [step.instructions] if step.instructions else []
        if step.input.transcript:
            texts.append(f"{load_text('transcript')}\n\n{step.input.transcript}")
        return tuple(map(UserTurn, texts))

    async def _go_on(self, known: ExternalSession) -> Opening:
        """Go on with a session in which no prompt is under way; begin a new one if that is impossible."""
        capabilities = self._client.capabilities
        for offered, reopen in (
            (capabilities.resumes, self._client.resume_session),
            (capabilities.load_session, self._client.load_session),
        ):
            if offered:
                try:
                    await reopen(known.external_id)
                except RpcError:  # the agent does not know the session any more
                    continue
                return self._opening(known, (*self._introduction(known), *self._step.input.unsent))
        return await self._begin(anew=True)

    async def _recover(self, known: ExternalSession, prompt: PromptUnderWay) -> Opening | Doubt:
        """Go on after a crash in the middle of a prompt: send it again only if nothing was done for it."""
        capabilities, given = self._client.capabilities, self._step.input
        go_on: tuple[UserTurn, ...] = (UserTurn(load_text("continue")),)
        introduced = (*self._introduction(known), *given.again)
        try:
            if capabilities.load_session:
                replay = await self._client.load_session(known.external_id)
                last = (*go_on, *given.again) if prompt.continues else given.again
                if not replay.shows_work_on("\n".join(turn.text for turn in last), number=known.prompts):
                    again = (*go_on, *introduced) if prompt.continues else introduced
                    return self._opening(known, (*again, *given.unsent), again=prompt)
                arrived = replace(known, introduced=True)
                return self._opening(arrived, (*go_on, *given.unsent), continues=True)
            if not capabilities.resumes:
                return Doubt("it can neither load nor resume a session")
            await self._client.resume_session(known.external_id)
        except RpcError as error:
            return Doubt(f"its session cannot be opened again ({error})")
        # Whether the prompt reached it cannot be known, so it stands at the end for that case.
        repeated = (UserTurn(load_text("repeat")), *introduced) if introduced else ()
        turns = (*go_on, *given.unsent, *repeated)
        return self._opening(known, turns, again=replace(prompt, continues=True))

    def _opening(
        self,
        session: ExternalSession,
        turns: tuple[UserTurn, ...],
        *,
        note: str = "",
        again: PromptUnderWay | None = None,
        continues: bool = False,
    ) -> Opening:
        prompt = PromptUnderWay(
            step_id=self._step.step_id,
            sent=self._now,
            after=again.after if again else self._step.input.after,
            continues=again.continues if again else continues,
        )
        marked = replace(
            session, prompt=prompt, newest_input=self._step.input.newest, prompts=session.prompts + 1
        )
        accepted = self._client.capabilities.prompt_capabilities
        return Opening(session=marked, blocks=prompt_blocks(turns, accepted), note=note)
