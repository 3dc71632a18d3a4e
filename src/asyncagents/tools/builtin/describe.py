"""Load the descriptions of tools that the model reads, from the text files beside this module."""

from functools import cache
from importlib.resources import files


@cache
def load_description(name: str) -> str:
    return files("asyncagents.tools.builtin").joinpath(f"{name}.txt").read_text().strip()
