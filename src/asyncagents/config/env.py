"""The environment of the process; the only module that reads it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from asyncagents.errors import ConfigError


class Environment(Struct, frozen=True, kw_only=True):
    """The variables and folders that configuration depends on; tests pass their own."""

    variables: Mapping[str, str]
    home: Path
    platform: str
    """As `sys.platform` names it."""
    cwd: Path

    def get(self, name: str) -> str:
        """Return the variable, or an empty text if it is not set."""
        return self.variables.get(name, "")

    def folder(self, text: str, *, base: Path | None = None) -> Path:
        """Resolve a path: with `~`, or relative to `base`, by default the current directory."""
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return Path(os.path.normpath((base or self.cwd) / text))

    def __repr__(self) -> str:
        return f"Environment({len(self.variables)} variables, home={self.home}, cwd={self.cwd})"


def system_environment() -> Environment:
    """Read the environment of this process."""
    try:
        home, cwd = Path.home(), Path.cwd()
    except RuntimeError as error:
        raise ConfigError("there is no home directory: set HOME to one") from error
    except OSError as error:
        raise ConfigError("the current directory is gone: change to one that exists") from error
    return Environment(variables=dict(os.environ), home=home, platform=sys.platform, cwd=cwd)
