"""Approvals of a project: answers `always`, as people list and withdraw them."""

import hashlib

from asyncagents.domain.agent.permission import exact_permission, pattern_permission
from asyncagents.domain.shape import Shape

ID_PREFIX = "apr_"
_DIGITS = 10


class ApprovalTime(Shape, frozen=True, kw_only=True):
    """In ms since the epoch."""

    created: int


class Approval(Shape, frozen=True, kw_only=True):
    """An answer `always`: in this project, requests that match `pattern` are not asked for again.

    `exact`: the pattern is compared as plain text. `directory` is left out if all sessions of the project
    are deleted.
    """

    id: str
    project_id: str
    directory: str | None = None
    permission: str
    pattern: str
    exact: bool = False
    time: ApprovalTime


def approval_of(
    project_id: str, kept_as: str, pattern: str, *, at: int, directory: str | None = None
) -> Approval:
    """Build an approval from a row; `kept_as`: the stored permission, which also says whether it is exact."""
    named = pattern_permission(kept_as)
    return Approval(
        id=approval_id(project_id, kept_as, pattern, at),
        project_id=project_id,
        directory=directory,
        permission=named,
        pattern=pattern,
        exact=kept_as == exact_permission(named),
        time=ApprovalTime(created=at),
    )


def approval_id(project_id: str, kept_as: str, pattern: str, at: int) -> str:
    """Derive the id from content and time, so that an approval given anew after a withdrawal differs."""
    content = "\0".join((project_id, kept_as, pattern)).encode("utf-8", "surrogatepass")
    return f"{ID_PREFIX}{hashlib.sha256(content).hexdigest()[:_DIGITS]}{at:x}"


def time_in_id(approval_id: str) -> int | None:
    """Read the time of an approval from its id; None if the id is not one of an approval."""
    digits = approval_id.removeprefix(ID_PREFIX)[_DIGITS:]
    if not approval_id.startswith(ID_PREFIX) or not 0 < len(digits) < 15:
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None
