"""An environment on a temporary disk, and files in it."""

import json
from pathlib import Path
from typing import Any

from asyncagents.config.env import Environment
from asyncagents.config.load import LoadedConfig, load_config
from asyncagents.config.trust import project_root, trust_project


class ConfigDesk:
    """A home and a project side by side; nothing of the real environment shines through.

    The project is trusted unless a test is about one that is not.
    """

    def __init__(
        self, root: Path, *, platform: str = "linux", trusted: bool = True, **variables: str
    ) -> None:
        self.home = root / "home"
        self.project = root / "work" / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir(parents=True)
        self.variables = variables
        self.platform = platform
        if trusted:
            trust_project(self.environment, project_root(self.environment, self.project))

    @property
    def environment(self) -> Environment:
        return Environment(variables=self.variables, home=self.home, platform=self.platform, cwd=self.project)

    def write(self, path: str, content: str | dict[str, Any]) -> Path:
        """At a path from the project, or from home with `~`; an object is written as JSON."""
        file = self.environment.folder(path, base=self.project)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return file

    def load(self, *, directory: Path | None = None) -> LoadedConfig:
        return load_config(self.environment, directory=directory or self.project)
