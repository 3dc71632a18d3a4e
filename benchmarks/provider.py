"""The local provider in a process of its own, and a configuration that knows it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncagents.config.config import Config, ModelConfig, ProviderConfig
from asyncagents.config.secret import Secret

MODEL = "local/local"


@contextmanager
def serve_local_provider() -> Iterator[str]:
    """Serve the provider in a process of its own, and yield its address."""
    command = [sys.executable, "-m", "asyncagents.testing.provider", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@contextmanager
def local_provider(directory: Path) -> Iterator[Config]:
    """Its CPU is not ours; the limit on requests at once is out of the way."""
    with serve_local_provider() as url:
        yield Config(
            data_dir=directory,
            provider={
                "local": ProviderConfig(
                    npm="@ai-sdk/openai-compatible",
                    base_url=f"{url}/v1",
                    api_key=Secret("local"),
                    concurrency=10_000,
                    models={"local": ModelConfig()},
                )
            },
        )
