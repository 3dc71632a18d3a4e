"""The doctor's checks: versions, data directory, configuration and providers."""

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from asyncagents.cli.doctor.backends import check_backends
from asyncagents.cli.doctor.definitions import check_definitions
from asyncagents.cli.doctor.extensions import check_extensions
from asyncagents.cli.doctor.fleet import check_fleet
from asyncagents.cli.doctor.report import Check
from asyncagents.cli.doctor.sandbox import check_sandbox
from asyncagents.cli.doctor.system import check_environment, check_programs, check_system
from asyncagents.cli.exit import as_cli_error
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import fleet_config
from asyncagents.config.load import LoadedConfig, load_config
from asyncagents.config.paths import data_folder
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ConfigError, StoreError
from asyncagents.llm.roster import Roster
from asyncagents.llm.usable_model import UsableModel
from asyncagents.server.discovery import find_server, find_worker, is_server_lock_held
from asyncagents.store.sqlite.inspect import SqliteInspection, inspect, owners_in, sqlite_version
from asyncagents.version import VERSION

OLDEST_SQLITE = (3, 35)
MIN_FREE_BYTES = 100 * 1024 * 1024
MIB = 1024 * 1024
DATA = "data directory"
DATA_HINT = "choose another one with --data-dir or ASYNCAGENTS_DATA_DIR"


async def check_all(directory: Path, chosen: Path | None, *, online: bool) -> list[Check]:
    found = [*_check_versions(), *check_programs(), *check_system()]
    try:
        data = data_folder(system_environment(), chosen)[0]
        fleet = fleet_config(system_environment())
        found += _check_data(data, shared=fleet is not None)
        found += await check_fleet(fleet) if fleet is not None else ()
        loaded = load_config(system_environment(), directory=directory, data_dir=chosen)
    except ConfigError as error:
        return [*found, Check("fail", "config", str(error))]
    roster = Roster(loaded.config)
    found += [
        *_check_config(loaded),
        *check_environment(system_environment(), loaded.config),
        *check_definitions(directory, loaded),
        *await check_sandbox(directory, loaded, data),
        *await check_backends(directory, loaded, data),
        *await check_extensions(directory, loaded, data, online=online),
        _check_model(roster),
        *_check_providers(loaded, roster),
    ]
    return [*found, *await _check_online(roster)] if online else found


def _check_versions() -> Iterator[Check]:
    python = platform.python_version()
    yield Check(
        "ok", "asyncagents", f"{VERSION} on Python {python}, {platform.system()} {platform.machine()}"
    )
    version = sqlite_version()
    old = tuple(int(number) for number in version.split(".")[:2]) < OLDEST_SQLITE
    if old:
        yield Check("fail", "sqlite", f"{version} is too old", "use a Python with SQLite 3.35 or newer")
    else:
        yield Check("ok", "sqlite", version)


def _check_data(data: Path, *, shared: bool) -> Iterator[Check]:
    """Check the data directory; `shared`: sessions are in a shared database, and its file is unused."""
    if not data.exists():
        yield _check_missing_data(data)
    elif not data.is_dir():
        yield Check("fail", DATA, f"{data} is not a directory", DATA_HINT)
    elif not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield Check("fail", DATA, f"{data} is not writable", f"`chmod u+rwx {data}`, or {DATA_HINT}")
    else:
        yield from _check_privacy_and_space(data)
        yield from (
            _check_unused_database(data / "asyncagents.db")
            if shared
            else _check_database(data / "asyncagents.db")
        )


def _check_unused_database(path: Path) -> Iterator[Check]:
    yield _check_server(path.parent)
    if path.exists():
        text = f"{path} is not used while ASYNCAGENTS_STORE names a database"
        yield Check("ok", "file", f"{text}; `asyncagents migrate --from {path.parent}` moves its sessions")


def _check_missing_data(data: Path) -> Check:
    nearest = next(folder for folder in data.parents if folder.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check("ok", DATA, f"{data} does not exist yet; the first run creates it")
    return Check("fail", DATA, f"{data} does not exist, and {nearest} is not writable", DATA_HINT)


def _check_privacy_and_space(data: Path) -> Iterator[Check]:
    mode = stat.S_IMODE(data.stat().st_mode)
    free = shutil.disk_usage(data).free
    if mode & 0o077:
        yield Check("warn", DATA, f"{data} is accessible to other users ({mode:o})", f"`chmod 700 {data}`")
    else:
        yield Check("ok", DATA, f"{data}, private, {free // MIB} MiB free")
    if free < MIN_FREE_BYTES:
        yield Check("warn", "disk", f"only {free // MIB} MiB are free at {data}", "free some space")


def _check_database(path: Path) -> Iterator[Check]:
    if not path.exists():
        yield Check("ok", "database", "none yet; the first run creates it")
        return
    owners = owners_in(path.parent / "owners")
    try:
        inspection = inspect(path, owners)
    except StoreError as error:
        cli_error = as_cli_error(error)
        yield Check("fail", "database", cli_error.message, cli_error.hint)
        return
    yield _check_inspection(path, inspection)
    yield _check_server(path.parent)
    alive, dead = sum(owners.values()), sum(not lives for lives in owners.values())
    yield Check("ok", "processes", f"{alive} running" + (f", {dead} died" if dead else ""))
    if inspection.left and find_worker(path.parent) is None:
        yield Check(
            "warn",
            "sessions",
            f"{inspection.left} have work that no process does",
            "`asyncagents sessions --all` lists them; `asyncagents run --session ID` continues one",
        )


def _check_server(data: Path) -> Check:
    found = find_server(data)
    if found is None and is_server_lock_held(data):
        return Check("ok", "server", "one is starting or stopping")
    if found is None:
        return Check("ok", "server", "none runs here; `asyncagents serve` starts one")
    what = "runs all sessions" if found.serves_all else "belongs to a run, and runs its sessions only"
    what = what if found.runs else "serves the API, and leaves all work to workers (--concurrency 0)"
    ends = "" if found.rest_seconds is None else f"; it ends after {found.rest_seconds:g} s of rest"
    return Check("ok", "server", f"{found.url}, process {found.pid}, {what}{ends}")


def _check_inspection(path: Path, inspection: SqliteInspection) -> Check:
    files = [path, path.with_name(f"{path.name}-wal")]
    size = sum(file.stat().st_size for file in files if file.exists()) / MIB
    text = f"{path.name}: schema {inspection.schema}, {inspection.sessions} sessions, {size:.1f} MiB"
    if inspection.needs > inspection.ours:
        newer = f"{path.name} has schema {inspection.schema}; this version supports {inspection.ours}"
        return Check("fail", "database", newer, "`pip install --upgrade asyncagents`")
    if inspection.complaint:
        hint = "keep a copy of the file, then restore a backup"
        return Check("fail", "database", f"{path.name} is damaged: {inspection.complaint}", hint)
    if inspection.locked:
        return Check("warn", "database", f"{text}; another program has it locked", "stop that program")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return Check("warn", "database", f"{text}; other users can read it", f"`chmod 600 {path}`")
    if inspection.schema < inspection.ours:
        return Check("ok", "database", f"{text}; the next run upgrades it and keeps a backup")
    return Check("ok", "database", text)


def _check_config(loaded: LoadedConfig) -> Iterator[Check]:
    read = [location.label for location in loaded.files if location.found]
    yield Check("ok", "config", ", ".join(read) if read else "no file; the environment and defaults apply")
    if any(location.found and location.scope == "project" for location in loaded.files):
        yield _check_trust(loaded)
    for warning in loaded.warnings:
        yield Check("warn", "config", warning)


def _check_trust(loaded: LoadedConfig) -> Check:
    if loaded.trusted:
        return Check("ok", "trust", "the project is trusted: all of its config applies")
    hint = "`asyncagents trust` shows what it asks for, and trusts it"
    return Check("warn", "trust", "the project is not trusted: its config may only choose models", hint)


def _check_model(roster: Roster) -> Check:
    ref = roster.default_model()
    if ref is None:
        return Check(
            "warn", "model", "there is no default model; `--model` is required", roster.default_problem().text
        )
    problem = roster.problem(ref)
    name = f"{ref.provider_id}/{ref.model_id}"
    if problem is not None:
        return Check("fail", "model", f"{name} cannot be used", problem.text)
    return Check("ok", "model", f"{name} is the default; `--model` overrides it")


def _check_providers(loaded: LoadedConfig, roster: Roster) -> Iterator[Check]:
    """Check the providers that have a key or stand in a config file; skip the other known ones."""
    usable = _usable_models(roster)
    for provider_id, known in loaded.keys.items():
        if known.found:
            lacks = (
                "" if provider_id in usable else "; none of its models can be used: see `asyncagents models`"
            )
            yield Check("warn" if lacks else "ok", provider_id, f"its key comes from {known.origin}{lacks}")
        elif provider_id in usable:
            yield Check("ok", provider_id, "it needs no key")


def _usable_models(roster: Roster) -> dict[str, ModelRef]:
    """Return one usable model of each provider."""
    return {each.ref.provider_id: each.ref for each in reversed(roster.models()) if each.available}


async def _check_online(roster: Roster) -> list[Check]:
    from asyncagents.llm.probe import probe_provider  # half a second to import

    found = []
    for provider_id, ref in _usable_models(roster).items():
        offer = roster.offer(ref)
        assert isinstance(offer, UsableModel), "a usable model has an offer"
        seen = await probe_provider(offer)
        found.append(Check("fail" if seen.reached is False else "ok", f"{provider_id} online", seen.text))
    return found
