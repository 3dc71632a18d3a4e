"""Read a small text file."""

import errno
import os
import stat
from pathlib import Path

from asyncagents.errors import ConfigError

MAX_BYTES = 10 * 1024 * 1024


def read_text(path: Path) -> str | None:
    """Return the text; None if there is no such file. Raises `ConfigError` if it cannot be read."""
    try:
        raw = _read(path)
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


def _read(path: Path) -> bytes:
    """Read a regular file; pipes and devices are refused, since reading them may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "a pipe or a device")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
