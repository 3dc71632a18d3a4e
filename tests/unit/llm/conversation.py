"""A conversation with everything that a wire has to carry."""

from asyncagents.llm.model import (
    Attachment,
    CallMade,
    FromModel,
    FromTool,
    FromUser,
    Said,
    Thought,
    Told,
    ToolSpec,
)

SYSTEM = "You are careful."
TOOLS = (
    ToolSpec("ls", "List a folder.", {"type": "object", "properties": {}}),
    ToolSpec("read", "Read a file.", {"properties": {"path": {"type": "string"}}, "required": ["path"]}),
)
SIGNED = {"anthropic": {"signature": "c2lnbmVk", "model": "sage-1"}}
HIDDEN = {"anthropic": {"redacted": "b3BhcXVl", "model": "sage-1"}}
FOREIGN = {"anthropic": {"signature": "Zm9yZWlnbg==", "model": "other"}}

ODD_NAMES = {
    "ls": "ls",
    "functions.echo x": "functions_echo_x",
    "": "unknown",
    "größe\n": "gr__e_",
    "x" * 200: "x" * 64,
}
"""Tools as models call them, and as the wires take them back."""

CONVERSATION: tuple[Told, ...] = (
    FromUser(
        "What is in here?",
        (
            Attachment("image/png", "data:image/png;base64,aGk=", "a.png"),
            Attachment("application/pdf", "data:application/pdf;base64,aGk=", "b.pdf"),
            Attachment("video/mp4", "data:video/mp4;base64,aGk=", "c.mp4"),
        ),
    ),
    FromModel(
        (
            Thought("I should look.", SIGNED),
            Thought("", HIDDEN),
            Thought("Someone else thought this.", FOREIGN),
            Said("Let me look."),
            CallMade("toolu_1", "ls", {}),
            CallMade("toolu_2", "read", {"path": "a.txt"}),
        )
    ),
    FromTool("toolu_1", "ls", "a.txt"),
    FromTool("toolu_2", "read", "no such file", failed=True),
    FromModel((Said("There is a file I cannot read."),)),
    FromUser("Try again."),
    FromModel((CallMade("functions.read:0", "read", {"path": "a.txt"}),)),
    FromTool("functions.read:0", "read", ""),
    FromUser("Well?"),
)
