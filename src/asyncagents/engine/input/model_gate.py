"""Handle a runtime without a model: refuse prompts that need one, leave sessions that wait for one alone."""

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Session, SessionModel
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import SessionId
from asyncagents.engine.input.message import PromptDefaults
from asyncagents.errors import InvalidInput, ModelError
from asyncagents.store.store import Store


class ModelGate:
    """Checks that a model can be asked; without effect where there is a default model."""

    def __init__(self, store: Store, defaults: PromptDefaults) -> None:
        self._store = store
        self._defaults = defaults

    async def check_input(self, fact: Admit, session: Session | None = None) -> Admit:
        """Return input that a model can answer, or that was stored before; else raise `InvalidInput`."""
        if self._defaults.missing is None:
            return fact
        if session is None:
            if await self._store.is_admitted(fact.session_id, fact.key):
                return fact
            session = await self._store.session(fact.session_id)
        ref = fact.message.model
        if fact.same_model and session.model is not None:
            ref = _model_ref(session.model)
        if not self._can_ask(ref):
            raise InvalidInput(self._defaults.missing)
        return fact

    async def lacks_model(self, session_id: SessionId) -> str | None:
        """Return why a session waits for a model that cannot be asked here; None: it does not.

        A session with open calls or a cancel can run: that needs no model.
        """
        if self._defaults.missing is None:
            return None
        situation = await self._store.situation(session_id)
        waits = situation.control.in_turn or situation.queued or situation.due
        if not waits or situation.cancelled or situation.calls:
            return None
        own = (await self._store.session(session_id)).model
        can_ask = self._can_ask(self._defaults.model if own is None else _model_ref(own))
        return None if can_ask else self._defaults.missing

    def _can_ask(self, ref: ModelRef) -> bool:
        try:
            self._defaults.check(ref)
        except (InvalidInput, ModelError):
            return False
        return True


def _model_ref(model: SessionModel) -> ModelRef:
    return ModelRef(provider_id=model.provider_id, model_id=model.id)
