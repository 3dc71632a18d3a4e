"""Guarded places of this machine outside the project: start-up files, programs and secrets."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.paths import FAMILIES, config_folder, data_folder
from asyncagents.config.trust import trust_file
from asyncagents.domain.agent.guarded import GuardedPlaces, GuardLevel, KnownPlace, is_below, split_path

_SEALED = "it is in the data folder of asyncagents"
_OURS = "asyncagents obeys it in every project"
_SHELL = "a shell runs it when it starts"
_GIT = "git obeys it in every repository"
_START = "the system starts what it names"
_KEYS = "it holds keys"
_PROGRAMS = "programs are started from this folder"
_SYSTEM = "it belongs to the system"

# Files of the data folder, by name; used where a project lies in that folder.
_DATA = (
    "asyncagents.db", "asyncagents.db-wal", "asyncagents.db-shm", "asyncagents.db-journal",
    "owners", "server.json", "server.lock", "server.log", "server.log.old", "snapshot", "token",
    "tool-output",
)  # fmt: skip
_SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh", ".kshrc",
    ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".envrc", ".direnvrc", ".xonshrc",
    ".pam_environment", ".tmux.conf", ".screenrc", ".vimrc", ".vim", ".exrc", ".emacs", ".emacs.d",
    ".pythonrc", ".pythonstartup", ".pdbrc", ".gdbinit", ".lldbinit", ".irbrc", ".Rprofile", ".lesskey",
    ".lessfilter", ".gvimrc", ".ideavimrc", ".spacemacs", ".kakrc", ".wezterm.lua", ".xbindkeysrc",
    ".psqlrc", ".sqliterc", ".ghci", ".pryrc", ".Renviron", ".ipython", ".jupyter", ".julia/config",
    ".curlrc", ".wgetrc", ".mailcap", ".mavenrc", ".bazelrc", ".subversion",
)  # fmt: skip
_CONFIG_SHELL = (
    "fish", "bash", "zsh", "direnv", "nushell", "xonsh", "elvish", "powershell", "starship.toml", "tmux",
    "nvim", "vim", "emacs", "gdb", "readline", "helix", "kak", "zed", "kitty", "wezterm", "alacritty",
    "zellij", "mise", "micro",
)  # fmt: skip
_GIT_FILES = (
    ".gitconfig",
    ".gitattributes",
    ".githooks",
    ".git-templates",
    ".git-template",
    ".hgrc",
    ".mrconfig",
)
_START_FILES = (
    ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".xserverrc", ".crontab", ".forward",
    ".procmailrc", "Library/LaunchAgents", "Library/LaunchDaemons", ".local/share/systemd",
    ".local/share/applications", ".local/share/dbus-1", ".local/share/bash-completion",
    ".local/share/fish", ".local/share/nvim", ".local/share/flatpak/exports", ".vscode/extensions",
    ".vscode-server",
)  # fmt: skip
_CONFIG_START = (
    "autostart", "systemd", "environment.d", "plasma-workspace", "i3", "sway", "hypr", "openbox",
    "awesome", "bspwm", "sxhkd", "mimeapps.list", "Code/User", "VSCodium/User",
)  # fmt: skip
_PROGRAM_FOLDERS = (
    "bin", ".local/bin", ".local/lib", ".local/share/pipx", ".local/share/uv", ".local/share/mise",
    ".cargo/bin", ".cargo/config", ".cargo/config.toml", ".cargo/env", "go/bin", ".npm-global", ".nvm",
    ".volta", ".bun/bin", ".deno/bin", ".pyenv", ".rbenv", ".asdf", ".sdkman", ".gem", ".krew",
    ".dotnet/tools", ".rustup", ".rye", ".local/share/pnpm", ".docker/cli-plugins", ".gradle/init.d",
    ".gradle/init.gradle", ".nix-profile",
)  # fmt: skip
_KEY_FILES = (
    ".ssh", ".gnupg", ".netrc", "_netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pip",
    ".git-credentials", ".aws", ".azure", ".kube", ".docker/config.json", ".gem/credentials",
    ".cargo/credentials", ".cargo/credentials.toml", ".pgpass", ".my.cnf", ".password-store",
    ".vault-token", ".terraformrc", ".terraform.d", ".m2/settings.xml", ".gradle/gradle.properties",
    ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json", ".local/share/opencode/mcp-auth.json", ".local/share/keyrings",
    ".mozilla", ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history",
    "Library/Keychains",
)  # fmt: skip
_CONFIG_KEYS = ("git/credentials", "gh", "hub", "glab-cli", "gcloud", "pip", "containers", "rclone", "op")
_SYSTEM_FOLDERS = (
    "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/sys", "/usr",
    "/var/lib", "/var/run", "/var/spool", "/Library", "/System",
)  # fmt: skip
# Variables that name a file which a program reads at its start.
_FILE_VARIABLES = {
    "BASH_ENV": _SHELL, "ENV": _SHELL, "INPUTRC": _SHELL, "PYTHONSTARTUP": _SHELL,
    "GIT_CONFIG_GLOBAL": _GIT, "GIT_CONFIG_SYSTEM": _GIT, "GIT_TEMPLATE_DIR": _GIT,
    "NPM_CONFIG_USERCONFIG": _KEYS, "PIP_CONFIG_FILE": _KEYS, "NETRC": _KEYS, "KUBECONFIG": _KEYS,
    "AWS_SHARED_CREDENTIALS_FILE": _KEYS, "DOCKER_CONFIG": _KEYS, "GNUPGHOME": _KEYS,
}  # fmt: skip


def guarded_places(
    environment: Environment, *, root: Path, output: Path, config: Config | None = None
) -> GuardedPlaces:
    """List the guarded places for a project at `root`; `output` is the folder of saved tool output.

    Shared folders (of PATH, of the system) are guarded only inside the project. A project inside such a
    folder may change it; elsewhere `external_directory` asks.
    """
    output = Path(os.path.abspath(output))
    strict = (
        *_data_places(environment, root, output),
        *_own_places(environment),
        *_home_places(environment),
        *_variable_places(environment),
        *_included_places(config),
    )
    top = split_path(os.path.realpath(root))
    shared = {each: split_path(os.path.realpath(each.path)) for each in _shared_places(environment)}
    broad = [each for each, parts in shared.items() if is_below(parts, top) and parts != top]
    return GuardedPlaces(known=(*strict, *broad), output=str(output))


def start_up_places(environment: Environment) -> tuple[Path, ...]:
    """List the start-up files of shells, git and the system, and the folders of this user's programs."""
    places = (*_home_places(environment), *_variable_places(environment))
    return tuple(Path(each.path) for each in places if each.level == "guarded")


def _data_places(environment: Environment, root: Path, output: Path) -> Iterator[KnownPlace]:
    """Yield the data folder in use, and the default one."""
    for folder in dict.fromkeys((output.parent, data_folder(environment, None)[0])):
        real = split_path(os.path.realpath(folder))
        inside = is_below(split_path(os.path.realpath(root)), real)
        for path in (folder / name for name in _DATA) if inside else (folder,):
            yield KnownPlace(path=str(path), level="sealed", why=_SEALED)


def _own_places(environment: Environment) -> Iterator[KnownPlace]:
    for family in FAMILIES:
        folder = config_folder(environment, family)
        yield KnownPlace(path=str(folder), why=_OURS)
        for name in (f"{family}.json", f"{family}.jsonc"):
            yield KnownPlace(path=str(folder / name), level="secret", why=f"{_OURS}, and may hold keys")
        if named := environment.get(f"{family.upper()}_CONFIG"):
            yield KnownPlace(
                path=str(environment.folder(named)), level="secret", why=f"{_OURS}, and may hold keys"
            )
    yield KnownPlace(
        path=str(trust_file(environment)), level="secret", why="it says which projects you trust"
    )


def _home_places(environment: Environment) -> Iterator[KnownPlace]:
    home, config = environment.home, _config_home(environment)
    yield from _places_in(home, _SHELL_FILES, _SHELL)
    yield from _places_in(config, _CONFIG_SHELL, _SHELL)
    yield from _places_in(home, _GIT_FILES, _GIT)
    yield from _places_in(config, ("git", "hg"), _GIT)
    yield from _places_in(home, _START_FILES, _START)
    yield from _places_in(config, _CONFIG_START, _START)
    yield from _places_in(home, _PROGRAM_FOLDERS, _PROGRAMS)
    yield from _places_in(home, _KEY_FILES, _KEYS, "secret")
    yield from _places_in(config, _CONFIG_KEYS, _KEYS, "secret")


def _config_home(environment: Environment) -> Path:
    return config_folder(environment, "asyncagents").parent


def _places_in(
    folder: Path, names: Iterable[str], why: str, level: GuardLevel = "guarded"
) -> Iterator[KnownPlace]:
    for name in names:
        yield KnownPlace(path=str(folder / name), level=level, why=why)


def _variable_places(environment: Environment) -> Iterator[KnownPlace]:
    for name, why in _FILE_VARIABLES.items():
        for path in environment.get(name).split(os.pathsep):
            if os.path.isabs(path) and path != os.devnull:
                yield KnownPlace(path=path, level="secret" if why == _KEYS else "guarded", why=why)
    zsh = environment.get("ZDOTDIR")
    if os.path.isabs(zsh):
        yield from _places_in(Path(zsh), (name for name in _SHELL_FILES if name.startswith(".z")), _SHELL)


def _included_places(config: Config | None) -> Iterator[KnownPlace]:
    """Yield the files that the configuration includes."""
    for path, secret in (config.included if config else {}).items():
        why = "the configuration takes a text from it"
        yield KnownPlace(path=path, level="secret" if secret else "guarded", why=why)


def _shared_places(environment: Environment) -> Iterator[KnownPlace]:
    for folder in environment.get("PATH").split(os.pathsep):
        if os.path.isabs(folder):
            yield KnownPlace(path=folder, why=_PROGRAMS)
    yield KnownPlace(path=sys.prefix, why="asyncagents itself runs from this folder")
    yield from (KnownPlace(path=folder, why=_SYSTEM) for folder in _SYSTEM_FOLDERS)
