"""Describes what the answer `always` covers, for people."""

from asyncagents.cli.terminal.screen import plain
from asyncagents.domain.call.ask import PermissionRequest

EXACT_LINE = "this exact line"


def describe_always(request: PermissionRequest) -> str:
    """Describe all that `always` would allow: a person must not approve more than is shown."""
    if request.exact and _is_exact_command(request):
        return EXACT_LINE
    return describe_scope(request.permission, request.always, exact=request.exact)


def describe_scope(permission: str, patterns: tuple[str, ...], *, exact: bool) -> str:
    """Describe what is allowed without asking once these patterns, or exact texts, are approved."""
    named = " ".join(plain(", ".join(patterns)).split())
    if exact:
        return f"{permission}: exactly {named}"
    if patterns != ("*",):
        return f"{permission}: {named}{', to read' if permission == 'external_directory' else ''}"
    return "all edits in this project" if permission == "edit" else f"every call of {permission}"


def _is_exact_command(request: PermissionRequest) -> bool:
    """Return whether a text is the command itself, alone or after a `cd` to its workdir."""
    command = request.metadata.get("command")
    return any(text == command or text.endswith(f" || exit\n{command}") for text in request.always)
