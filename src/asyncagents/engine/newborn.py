"""Build the `Session` value of a new session."""

from collections.abc import Sequence

from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.port import Clock, Rng
from asyncagents.domain.session import Rule, Session, SessionTime, Tokens, default_title, project_id, slug
from asyncagents.engine.input import a_text, some_rules


class Newborn:
    """Builds the `Session` value of a new session."""

    def __init__(self, *, clock: Clock, rng: Rng, ids: Ids, version: str) -> None:
        self._clock = clock
        self._rng = rng
        self.ids = ids
        self._version = version

    def __call__(
        self, title: str | None, parent_id: SessionId | None, directory: str, permission: Sequence[Rule]
    ) -> Session:
        now = self._clock.now()
        title = a_text(title, "a title") if title is not None else None
        return Session(
            id=self.ids.session(),
            slug=slug(self._rng),
            project_id=project_id(directory),
            directory=directory,
            parent_id=parent_id,
            title=title or default_title(now, child=parent_id is not None),
            version=self._version,
            time=SessionTime(created=now, updated=now),
            cost=0,
            tokens=Tokens.zero(),
            permission=some_rules(permission) or None,
        )
