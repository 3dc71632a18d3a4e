"""What was seen of both servers, side by side."""

from collections.abc import Callable, Iterable
from statistics import median
from typing import TypeAlias

from msgspec import Struct

from benchmarks.opencode.measure import KILLED, Fan, Seen
from benchmarks.report import three_digits

Read: TypeAlias = Callable[[Seen], float | None]
BIG = 500


class Line(Struct, frozen=True):
    name: str
    unit: str
    read: Read
    wanted: str = ""
    best: Callable[[Iterable[float]], float] = median
    """Of several rounds."""


def _fan(size: int, read: Callable[[Fan], float]) -> Read:
    return lambda seen: read(seen.fans[size]) if size in seen.fans else None


def _of(pick: Callable[[Seen], Fan | None], read: Callable[[Fan], float]) -> Read:
    def found(seen: Seen) -> float | None:
        fan = pick(seen)
        return None if fan is None else read(fan)

    return found


def _fan_lines(size: int) -> list[Line]:
    big = size >= BIG
    return [
        Line(
            f"fan-out of {size}: sessions a second",
            "1/s",
            _fan(size, lambda fan: fan.rate),
            "≥ 20 ×" if big else "",
        ),
        Line(
            "… CPU, a session",
            "ms",
            _fan(size, lambda fan: fan.cpu_ms),
            "≤ 1.5, ≤ 1/25" if big else "",
        ),
        Line(
            "… `prompt_async` meanwhile: p50",
            "ms",
            _fan(size, lambda fan: fan.p50_ms),
        ),
        Line("… p99", "ms", _fan(size, lambda fan: fan.p99_ms), "≤ 50" if big else ""),
        Line("… peak memory", "MB", _fan(size, lambda fan: fan.peak_mb), "≤ 120" if big else ""),
        Line("… events, a session", "", _fan(size, lambda fan: fan.events)),
    ]


def _lines(sizes: tuple[int, ...]) -> list[Line]:
    return [
        Line("ready", "s", lambda seen: seen.start.ready_s, "≤ 1"),
        Line("memory at rest", "MB", lambda seen: seen.start.idle_mb, "≤ 65"),
        Line("`POST /session`: p50", "ms", lambda seen: seen.latency.create_ms),
        Line("`prompt_async` at rest: p50", "ms", lambda seen: seen.latency.prompt_p50_ms),
        Line("… p99", "ms", lambda seen: seen.latency.prompt_p99_ms),
        Line("… until `session.idle`: p50", "ms", lambda seen: seen.latency.idle_ms),
        *(line for size in sizes for line in _fan_lines(size)),
        Line(
            f"{max(sizes)} children, a model of 2 s: all idle",
            "s",
            _of(lambda seen: seen.slow, lambda fan: fan.seconds),
            "≤ 3" if max(sizes) >= BIG else "",
        ),
        Line("… CPU, a session", "ms", _of(lambda seen: seen.slow, lambda fan: fan.cpu_ms)),
        Line("… peak memory", "MB", _of(lambda seen: seen.slow, lambda fan: fan.peak_mb), "≤ 120"),
        Line(
            "200 streams of 50 chunks, 1 s: all idle",
            "s",
            _of(lambda seen: seen.streams, lambda fan: fan.seconds),
        ),
        Line("… CPU, a session", "ms", _of(lambda seen: seen.streams, lambda fan: fan.cpu_ms)),
        Line("abort of an answer: until `session.idle`", "ms", lambda seen: seen.abort_ms),
        Line(
            f"kill -9 with {KILLED} answers under way: finished after the next start",
            "",
            lambda seen: seen.recovery.finished,
            str(KILLED),
            min,
        ),
        Line(
            "… still show the text that was streamed before",
            "",
            lambda seen: seen.recovery.kept,
            str(KILLED),
            min,
        ),
    ]


def _value(line: Line, rounds: list[Seen]) -> float | None:
    found = [value for each in rounds if (value := line.read(each)) is not None]
    return line.best(found) if found else None


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{three_digits(value)} {unit}".strip()


def _ratio(ours: float | None, peer: float | None) -> str:
    """How many times one is the other, the larger over the smaller."""
    if not ours or not peer:
        return ""
    return f"{three_digits(peer / ours)} × less" if ours < peer else f"{three_digits(ours / peer)} × more"


def table(ours: list[Seen], peer: list[Seen], sizes: tuple[int, ...]) -> str:
    """Medians of the rounds."""
    rows = ["| what | ours | OpenCode | ours against it | wanted |", "|---|---|---|---|---|"]
    for line in _lines(sizes):
        own, other = _value(line, ours), _value(line, peer)
        if own is not None:
            cells = (_cell(own, line.unit), _cell(other, line.unit), _ratio(own, other), line.wanted)
            rows.append(f"| {line.name} | {' | '.join(cells)} |")
    return "\n".join(rows)
