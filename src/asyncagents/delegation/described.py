"""What the model reads of delegation: text files beside it."""

from functools import cache
from importlib.resources import files


@cache
def described(name: str) -> str:
    return files("asyncagents.delegation").joinpath(f"{name}.txt").read_text().strip()
