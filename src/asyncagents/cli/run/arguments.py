"""The arguments of a run as one value, with the prompt from the argument and stdin."""

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

import click
from msgspec import Struct

from asyncagents.cli.exit import USAGE, CliError
from asyncagents.config.env import system_environment
from asyncagents.config.secret import Secret
from asyncagents.domain.agent.permission import Action, ConfiguredRules, permission_of, rules_from_config
from asyncagents.domain.conversation.session import Rule

Format: TypeAlias = Literal["text", "json", "stream-json"]
SELECT_SECONDS = 0.2
READ_BYTES = 65_536
LONGEST_PROMPT = 10 * 1024 * 1024


class RunArguments(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    """The argument, then stdin."""
    files: tuple[Path, ...] = ()
    model: str | None = None
    agent: str | None = None
    session: str | None = None
    newest: bool = False
    """Continue the newest session of the directory."""
    title: str | None = None
    key: str | None = None
    detach: bool = False
    format: Format = "text"
    directory: Path
    data_dir: Path | None = None
    rules: tuple[Rule, ...] = ()
    """Rules of the new session, from --allow and --deny."""
    attach: str | None = None
    """URL of the server that runs the session."""
    token: Secret | None = None
    placed: bool = False
    """--directory was given: a foreign server must use it."""
    api: bool = False
    """Serve the HTTP API during the run."""
    port: int | None = None

    @property
    def has_prompt(self) -> bool:
        return bool(self.prompt or self.files)

    @property
    def resumes(self) -> bool:
        return self.newest or self.session is not None


def parse_arguments(
    *,
    prompt: str | None,
    as_json: bool,
    allow: Sequence[str],
    deny: Sequence[str],
    token: str | None,
    **given: Any,
) -> RunArguments:
    """Build the arguments from the options of `run`; reads stdin if it is piped."""
    if as_json:
        given["format"] = "json"
    rules = session_rules(allow, deny, str(system_environment().home))
    secret = Secret(token) if token is not None else None
    return RunArguments(prompt=read_prompt(prompt), rules=rules, token=secret, **given)


def check_arguments(arguments: RunArguments) -> None:
    """Raise for contradicting options, before anything is opened."""
    if arguments.session is not None and arguments.newest:
        raise click.UsageError("--session and --continue both choose the session: give one of them.")
    if arguments.title is not None and arguments.resumes:
        raise click.UsageError("--title is for a new session; leave out --session and --continue.")
    if arguments.rules and arguments.resumes:
        raise click.UsageError(
            "--allow and --deny are for a new session; leave out --session and --continue."
        )
    if not arguments.has_prompt and not arguments.resumes:
        raise CliError(
            "the prompt is empty",
            hint='pass one, as in `asyncagents run "Hello"`, or pipe it in; '
            "`--continue` continues the last session",
            code=USAGE,
        )
    _check_server_options(arguments)
    for option, given in (("--detach", arguments.detach), ("--key", arguments.key is not None)):
        if given and not arguments.has_prompt:
            raise click.UsageError(f"{option} needs a prompt.")


def _check_server_options(arguments: RunArguments) -> None:
    if arguments.api and (arguments.attach is not None or arguments.detach):
        other = "--attach" if arguments.attach is not None else "--detach"
        raise click.UsageError(f"--api is for runs in this process; leave out {other}.")
    if arguments.port is not None and not arguments.api:
        raise click.UsageError("--port requires --api.")
    if arguments.token is not None and arguments.attach is None:
        raise click.UsageError("--token requires --attach.")


def session_rules(allow: Sequence[str], deny: Sequence[str], home: str) -> tuple[Rule, ...]:
    """Parse --allow, then --deny: of matching rules the last one wins."""
    written = [*(_parse_rule(word, "allow") for word in allow), *(_parse_rule(word, "deny") for word in deny)]
    return tuple(rule for each in written for rule in rules_from_config(each, home))


def _parse_rule(word: str, action: Action) -> ConfiguredRules:
    """Parse `edit` or `edit:docs/*`; the name of a tool, such as `write`, means its permission, `edit`."""
    permission, _, pattern = word.partition(":")
    if not permission.strip():
        raise click.UsageError(f"--{action} takes PERMISSION or PERMISSION:PATTERN, not {word!r}.")
    return {permission_of(permission.strip()): {pattern.strip() or "*": action}}


def read_prompt(argument: str | None) -> str:
    """Return the argument followed by stdin."""
    pieces = [argument or "", _read_stdin()]
    return "\n\n".join(piece for piece in pieces if piece.strip())


def _read_stdin() -> str:
    """Read stdin; empty for a terminal or a device such as /dev/null."""
    if sys.stdin is None or _is_device(sys.stdin):
        return ""
    raw = _read_stream(sys.stdin)
    if len(raw) > LONGEST_PROMPT:
        raise CliError("stdin has more than 10 MiB", hint="attach files with --file", code=USAGE)
    try:
        return raw.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise CliError("stdin is not UTF-8 text", hint="attach it with --file", code=USAGE) from error


def _read_stream(stream: TextIO) -> bytes:
    """Read up to the limit. Polls with `select`: a Ctrl-C just before a blocking read would be delayed."""
    try:
        fd = stream.fileno()
    except (OSError, ValueError):  # no file at all
        return stream.buffer.read(LONGEST_PROMPT + 1)
    raw = bytearray()
    while len(raw) <= LONGEST_PROMPT:
        if select.select([fd], [], [], SELECT_SECONDS)[0]:
            piece = os.read(fd, READ_BYTES)
            if not piece:
                break
            raw += piece
    return bytes(raw)


def _is_device(stream: TextIO) -> bool:
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # no file at all
        return False
