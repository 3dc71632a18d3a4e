"""The inner objects of a runtime, for tests that read rows, subscribe to the bus or call a sweep."""

from msgspec import Struct

from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.input.message import InputBuilder
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.store.store import Store


class Inside(Struct, frozen=True):
    """What a runtime is made of. It may change between versions without notice."""

    store: Store
    bus: Bus
    dispatcher: Dispatcher
    inputs: InputBuilder


def inside(runtime: Runtime) -> Inside:
    """Return the store, the bus, the dispatcher and the input builder of a runtime.

    This is for tests alone: names and types behind it follow the code and may change between versions. A
    program uses the methods of `Runtime`.
    """
    return Inside(
        store=runtime._store,
        bus=runtime._bus,
        dispatcher=runtime._dispatcher,
        inputs=runtime._input_builder,
    )
