"""The demo's deploy: an async tool, and a model that reports its result."""

from collections.abc import AsyncGenerator

from asyncagents.cli.demo.ledger import Ledger
from asyncagents.engine.tool import AnyTool, Pending, ToolContext
from asyncagents.llm.model import ChatRequest, Model, ModelEvent, ToolTurn
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.plugins.tool.decorate import async_tool

SHIP = "Deploy v2."
SHIP_LATE = "Deploy v3, and give up after a second."
HOUR = 3600.0
LATE_SECONDS = 1.0


def deploy_tool(ledger: Ledger) -> AnyTool:
    """Build the async tool; its result comes from the `worker` process."""

    @async_tool
    async def deploy(version: str, give_up_after: float, context: ToolContext) -> Pending:
        """Deploy a version."""
        ledger.write("deploy", context.effect_key)
        return Pending(note=f"{version} is being deployed", seconds=give_up_after, external_ref="job 77")

    return deploy


def report_text(result: str) -> str:
    return f"I asked for it, and heard: {result}."


class Reporter:
    """A model that calls `deploy` and then repeats the newest tool result."""

    def __init__(self) -> None:
        self._model = ScriptedModel(
            {
                SHIP: [[call("deploy", version="v2", give_up_after=HOUR)]],
                SHIP_LATE: [[call("deploy", version="v3", give_up_after=LATE_SECONDS)]],
            },
            remember=False,
        )

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in self._choose_model(request).stream(request):
            yield event

    def _choose_model(self, request: ChatRequest) -> Model:
        match request.messages[-1]:
            case ToolTurn(output=result):
                return ScriptedModel({}, otherwise=[say(report_text(result))], remember=False)
            case _:
                return self._model
