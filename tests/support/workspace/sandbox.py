"""A home with secrets and a project, and the sandbox of that project."""

import os
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.tools.process.processes import Processes, ProcessResult, find_bwrap
from asyncagents.tools.process.sandbox import Sandboxes, SandboxPaths

SEARCH_PATH = os.environ.get("PATH", os.defpath)


needs_bwrap = pytest.mark.skipif(
    find_bwrap(SEARCH_PATH, outside=None) is None,
    reason="bwrap is not installed: there is no sandbox without it",
)


DAY_MS = 24 * 3_600_000


class SandboxGround(Struct, frozen=True):
    """A home with secrets and a project, and the sandbox of that project."""

    home: Path
    root: Path
    data: Path
    sandboxes: Sandboxes
    processes: Processes

    async def bash(
        self, command: str, sandbox: Sandbox | None = None, *, session: str = "ses_1"
    ) -> ProcessResult:
        chosen = sandbox or Sandbox(network=False)
        words = self.sandboxes.bwrap_arguments(
            chosen, session, shown=[self.home / ".config/asyncagents/skills/s"]
        )
        return await self.processes.run(("bash", "-c", command), cwd=self.root, timeout=60, sandbox=words)


def write_file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


SECRETS = (
    ".ssh/id_ed25519", ".netrc", ".npmrc", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json",
    ".config/asyncagents/asyncagents.json", ".config/asyncagents/trusted.json", "keys/of-a-provider",
    ".local/share/asyncagents/token", ".config/opencode/opencode.json",
)  # fmt: skip


def lay_out_ground(tmp_path: Path, root: Path) -> SandboxGround:
    home = tmp_path / "home"
    data = home / ".local/share/asyncagents"
    for each in SECRETS:
        write_file(home / each, "SECRET")
    write_file(home / "notes", "plain")
    write_file(home / ".config/asyncagents/skills/s/run", "skill")
    write_file(root / "asyncagents.json", "{}")
    write_file(root / "src/a.py", "1")
    (tmp_path / "tmp").mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    return SandboxGround(home, root, data, open_sandboxes(tmp_path, root), build_processes(data, home, root))


def open_sandboxes(tmp_path: Path, root: Path) -> Sandboxes:
    home = tmp_path / "home"
    data = home / ".local/share/asyncagents"
    configs = (home / ".config/asyncagents", home / ".config/opencode", home / "keys/of-a-provider")
    return Sandboxes(
        SandboxPaths(
            root=root,
            home=home,
            scratch=data / "scratch",
            own_paths=(data, *configs),
            temporary=(str(tmp_path / "tmp"),),
        )
    )


def build_processes(data: Path, home: Path, root: Path) -> Processes:
    return Processes({"PATH": SEARCH_PATH, "HOME": str(home)}, folder=data / "tool-output", root=root)
