"""Sandboxes of commands: which folders they may write, and whether they may use the network."""

import os
from collections.abc import Iterable

from msgspec import Struct


class Sandbox(Struct, frozen=True, kw_only=True):
    write: tuple[str, ...] = ()
    """Absolute paths that may be written beside the project and a temporary folder."""
    network: bool | None = None
    """None: allowed unless `webfetch` is denied for everything."""


def narrowest(sandboxes: Iterable[Sandbox]) -> Sandbox | None:
    """Combine sandboxes into one that is no wider than any of them; None if there are none."""
    result: Sandbox | None = None
    for each in sandboxes:
        result = each if result is None else _narrow(result, each)
    return result


def is_beneath(path: str, above: str) -> bool:
    """Tell by names alone whether an absolute path is another one or lies below it."""
    return path == above or path.startswith(above.rstrip(os.sep) + os.sep)


def _narrow(one: Sandbox, other: Sandbox) -> Sandbox:
    write = [path for path in one.write if any(is_beneath(path, each) for each in other.write)]
    write += [path for path in other.write if any(is_beneath(path, each) for each in one.write)]
    known = [each for each in (one.network, other.network) if each is not None]
    return Sandbox(write=tuple(dict.fromkeys(write)), network=all(known) if known else None)
