"""Reads a small text file, or says in one sentence why it cannot be read."""

from pathlib import Path

from asyncagents.errors import ConfigError

MAX_BYTES = 10 * 1024 * 1024


def read_text(path: Path) -> str | None:
    """None if there is no such file."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ConfigError(
            f"{path} cannot be read ({reason or 'bad path'}): make it a readable file"
        ) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES >> 20} MiB: name a smaller file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: save it as UTF-8") from error
