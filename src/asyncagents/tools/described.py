"""What the model reads of a tool: a text file beside it."""

from functools import cache
from importlib.resources import files


@cache
def described(name: str) -> str:
    return files("asyncagents.tools").joinpath(f"{name}.txt").read_text().strip()
