"""The demo's shop: four tools and a scripted model."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from asyncagents.cli.demo.crew import FOREVER, Foreman, crew_script
from asyncagents.cli.demo.ledger import SOLD, Ledger
from asyncagents.domain.call.call import Completed
from asyncagents.engine.tool import AnyTool, Pending, Tool, ToolContext
from asyncagents.llm.model import ChatRequest, Model, ModelEvent, TextDelta
from asyncagents.llm.scripted import Script, ScriptedModel, ScriptStep, call, pause, say

LOOK_UP = "What is in order 1042?"
REFUND = "Refund order 1042."
NEWSLETTER = "Write the newsletter."
SHIP = "Ship order 1043."

WORD_SECONDS = 0.045

NEWS = (
    "Dear friends of good light, autumn is here and so are our new lamps. They are made by hand from oak "
    "and glass, they use four watts, and the first thirty come with a spare bulb. Come by on Saturday: "
    "there is tea, there is cake, and every lamp is lit."
)
NEWS_HALF = 30
"""This many words stream longer than the second after which streamed text is stored."""

Midway: TypeAlias = Callable[[str], Awaitable[None]]
"""Called with a tool's name between its effect and its result."""


class LookUp(Struct):
    """Look up an order."""

    order: int


class Refund(Struct):
    """Refund an order. The manager approves it first."""

    order: int


class UpdateStock(Struct):
    """Take sold things out of stock."""

    item: str
    sold: int


class ChargeCard(Struct):
    """Charge the customer's card."""

    order: int
    euros: int


class Shop:
    def __init__(self, ledger: Ledger, midway: Midway) -> None:
        self._ledger = ledger
        self._midway = midway

    def tools(self) -> list[AnyTool]:
        return [
            Tool("look_up", LookUp, self._look_up, effect="none"),
            Tool("refund", Refund, self._refund),
            Tool("update_stock", UpdateStock, self._update_stock, effect="idempotent"),
            Tool("charge_card", ChargeCard, self._charge_card, effect="once"),
        ]

    async def _look_up(self, args: LookUp, context: ToolContext) -> Completed:
        return Completed("two lamps, 80 EUR, paid")

    async def _refund(self, args: Refund, context: ToolContext) -> Pending:
        return Pending(note="waits for the manager")

    async def _update_stock(self, args: UpdateStock, context: ToolContext) -> Completed:
        self._ledger.write("update_stock", context.call_id)
        await self._midway("update_stock")
        return Completed(f"{self._ledger.stock()} lamps left")

    async def _charge_card(self, args: ChargeCard, context: ToolContext) -> Completed:
        self._ledger.write("charge_card", context.call_id)
        await self._midway("charge_card")
        return Completed(f"charged {args.euros} EUR")


class SlowModel:
    """A model that delays each text delta, as a real one does."""

    def __init__(self, model: Model, seconds: float) -> None:
        self._model = model
        self._seconds = seconds

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in self._model.stream(request):
            if isinstance(event, TextDelta):
                await asyncio.sleep(self._seconds)
            yield event


def shop_model(*, word_seconds: float = WORD_SECONDS, stuck: bool = False) -> Model:
    """Build the shop's model; `stuck`: some answers block halfway."""
    words = _words(NEWS)
    letter: ScriptStep = [say(*words[:NEWS_HALF]), pause(FOREVER)] if stuck else [say(*words)]
    script: Script = {
        LOOK_UP: [
            [call("look_up", order=1042)],
            [say(*_words("Order 1042 is two lamps for 80 EUR, and it is paid."))],
        ],
        REFUND: [
            [call("refund", order=1042)],
            [say(*_words("The manager agreed: the 80 EUR for order 1042 are on their way back."))],
        ],
        NEWSLETTER: [letter],
        SHIP: [
            [call("update_stock", item="lamp", sold=SOLD), call("charge_card", order=1043, euros=80)],
            [
                say(
                    *_words(
                        "The stock is right. I will ask the bank about the card before I charge it again."
                    )
                )
            ],
        ],
    }
    crew = crew_script(stuck=stuck)
    return Foreman(SlowModel(ScriptedModel({**script, **crew}, remember=False), word_seconds))


def _words(text: str) -> list[str]:
    """Split a text into the deltas of a model: words, each but the first with its space."""
    first, *others = text.split(" ")
    return [first, *(f" {word}" for word in others)]
