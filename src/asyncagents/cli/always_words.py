"""What an answer "always" covers, in words."""

from asyncagents.cli.screen import plain
from asyncagents.domain.ask import PermissionRequest

LINE = "this exact line"


def lasting(request: PermissionRequest) -> str:
    """Say what an `always` would allow, in full: no more may be approved than was shown."""
    if request.exact and _is_line(request):
        return LINE
    return covered(request.permission, request.always, exact=request.exact)


def covered(permission: str, patterns: tuple[str, ...], *, exact: bool) -> str:
    """Name what is not asked for any more once these patterns, or exact texts, are approved."""
    named = " ".join(plain(", ".join(patterns)).split())
    if exact:
        return f"{permission}: exactly {named}"
    if patterns != ("*",):
        return f"{permission}: {named}{', to read' if permission == 'external_directory' else ''}"
    return "all edits in this project" if permission == "edit" else f"every call of {permission}"


def _is_line(request: PermissionRequest) -> bool:
    """Whether the text is the command that stands there; one that starts elsewhere goes there first."""
    command = request.metadata.get("command")
    return any(text == command or text.endswith(f" || exit\n{command}") for text in request.always)
