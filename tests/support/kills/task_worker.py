"""A process that serves a data directory whose agents delegate, by a provider over HTTP, until it is killed.

`python -m tests.support.kills.task_worker DATA LEDGER NUMBER URL CONCURRENT`.
"""

import asyncio
import sys
from pathlib import Path

from msgspec import Struct

from asyncagents import Completed, Tool, ToolContext, open_runtime
from asyncagents.config.config import Config, DelegationConfig, ModelConfig, ProviderConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.agent.permission import Action
from asyncagents.engine.tool import AnyTool, Ask
from tests.support.kills.worker import Ledger

MODEL = "local/local"


class Work(Struct, frozen=True):
    """Touch the world."""

    ms: int


def local_config(data: Path, url: str, *, key: str = "local") -> Config:
    provider = ProviderConfig(
        npm="@ai-sdk/openai-compatible",
        base_url=f"{url}/v1",
        api_key=Secret(key),
        concurrency=1000,
        models={"local": ModelConfig()},
    )
    return Config(data_dir=data, provider={"local": provider})


def tools(ledger: Ledger) -> tuple[AnyTool, ...]:
    """Each works a little before and after it touches the world."""

    async def run(args: Work, context: ToolContext) -> Completed:
        await asyncio.sleep(args.ms / 1000)
        ledger.write("effect", session=context.session_id, call=context.call_id)
        await asyncio.sleep(args.ms / 1000)
        return Completed("paid")

    return Tool("pay", Work, run), Tool("put", Work, run, effect="idempotent")


def anything(ask: Ask, context: ToolContext) -> Action:
    return "allow"


async def serve(data: Path, ledger: Ledger, url: str, concurrent: int) -> None:
    """Until its standard input ends, as it also does when whoever started it dies."""
    async with open_runtime(
        data,
        model=MODEL,
        config=local_config(data, url),
        tools=tools(ledger),
        policy=anything,
        delegation=DelegationConfig(concurrent=concurrent),
    ):
        ledger.write("up")
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    _, where, written_to, number, its_url, at_once = sys.argv
    asyncio.run(serve(Path(where), Ledger(Path(written_to), int(number)), its_url, int(at_once)))
