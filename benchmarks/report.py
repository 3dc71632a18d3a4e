"""A figure, what was wanted of it, and the table of all."""

from msgspec import Struct


class Figure(Struct, frozen=True):
    name: str
    value: float
    unit: str
    wanted: str = ""

    def row(self) -> str:
        return f"| {self.name} | {self.value:,.3g} {self.unit} | {self.wanted} |"


def table(figures: list[Figure]) -> str:
    return "\n".join(["| what | seen | wanted |", "|---|---|---|", *(figure.row() for figure in figures)])
