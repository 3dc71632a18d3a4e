"""A figure, what was wanted of it, and the table of all."""

from msgspec import Struct


class Figure(Struct, frozen=True):
    name: str
    value: float
    unit: str
    wanted: str = ""

    def row(self) -> str:
        return f"| {self.name} | {three_digits(self.value)} {self.unit} | {self.wanted} |"


def three_digits(value: float) -> str:
    """Format a number with three significant digits and without an exponent, as in 6,970."""
    return f"{float(f'{value:.3g}'):,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def table(figures: list[Figure]) -> str:
    return "\n".join(["| what | seen | wanted |", "|---|---|---|", *(figure.row() for figure in figures)])
