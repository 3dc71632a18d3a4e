"""Load the texts of delegation that the model reads, from the text files beside this module."""

from functools import cache
from importlib.resources import files


@cache
def load_text(name: str) -> str:
    return files("asyncagents.delegation").joinpath(f"{name}.txt").read_text().strip()
