"""A conversation with everything that a wire has to carry."""

from asyncagents.llm.model import (
    Attachment,
    ModelTurn,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolSpec,
    ToolTurn,
    UserTurn,
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

CONVERSATION: tuple[RequestMessage, ...] = (
    UserTurn(
        "What is in here?",
        (
            Attachment("image/png", "data:image/png;base64,aGk=", "a.png"),
            Attachment("application/pdf", "data:application/pdf;base64,aGk=", "b.pdf"),
            Attachment("video/mp4", "data:video/mp4;base64,aGk=", "c.mp4"),
        ),
    ),
    ModelTurn(
        (
            ThinkingBlock("I should look.", SIGNED),
            ThinkingBlock("", HIDDEN),
            ThinkingBlock("Someone else thought this.", FOREIGN),
            TextBlock("Let me look."),
            ToolCallBlock("toolu_1", "ls", {}),
            ToolCallBlock("toolu_2", "read", {"path": "a.txt"}),
        )
    ),
    ToolTurn("toolu_1", "ls", "a.txt"),
    ToolTurn("toolu_2", "read", "no such file", failed=True),
    ModelTurn((TextBlock("There is a file I cannot read."),)),
    UserTurn("Try again."),
    ModelTurn((ToolCallBlock("functions.read:0", "read", {"path": "a.txt"}),)),
    ToolTurn("functions.read:0", "read", ""),
    UserTurn("Well?"),
)
