"""What the model says in the scenes of the terminal UI: every answer has words that no other screen has."""

from typing import Any

from asyncagents.testing.provider import Reply, Script, ToolUse, openai_bytes

WORDS = " ".join(f"word{number}" for number in range(40))
HALF = Reply(text="it begins well and never ends", chunks=7)
CUT_SHORT = "no ending either"
GOES_ON = "the story goes on after the crash"
STORY = "tell a story of so many words that it needs a title of its own, whoever gives it"
COLOURS = (
    {"label": "Red", "description": "a warm one"},
    {"label": "Blue", "description": "a cold one"},
)


def _uses(tool: str, **args: Any) -> ToolUse:
    return ToolUse(name=tool, args=args)


def _todos(**states: str) -> ToolUse:
    todos = [
        {"content": f"{name} thing", "status": state, "priority": "high"} for name, state in states.items()
    ]
    return _uses("todowrite", todos=todos)


def _bash(command: str) -> ToolUse:
    return _uses("bash", command=command, description="Do it")


def _task(prompt: str, description: str) -> ToolUse:
    return _uses("task", description=description, prompt=prompt, subagent_type="general")


def _then(tool: ToolUse, *more: ToolUse, answer: str) -> list[Reply]:
    return [Reply(text="", tools=(tool, *more)), Reply(text=answer)]


def _up_to(reply: Reply, pieces: int) -> int:
    return sum(len(write) for write in openai_bytes(reply)[:pieces])


SCRIPT: Script = {
    STORY: [Reply(text=WORDS, chunks=40, gap=0.06)],
    "list and note": [
        Reply(
            text="",
            tools=(
                _bash("printf 'shown-by-%s' a-tool"),
                _todos(first="completed", second="in_progress"),
            ),
        ),
        *_then(_todos(first="completed", second="completed"), answer="tools are done"),
    ],
    "look and change": [
        Reply(text="", tools=(_uses("read", filePath="README.md"),)),
        *_then(
            _uses("edit", filePath="README.md", oldString="a needle", newString="a thread"),
            answer="looked and changed",
        ),
    ],
    "touch it once": _then(_bash("touch asked-once"), answer="touched once"),
    "touch it for ever": _then(_bash("touch asked-twice"), answer="touched twice"),
    "touch it unasked": _then(_bash("touch asked-twice"), answer="touched thrice"),
    "please ask": _then(
        _uses(
            "question",
            questions=[{"question": "Which colour?", "header": "Colour", "options": list(COLOURS)}],
        ),
        answer="now it is known",
    ),
    "delegate this": _then(_task("child work", "look around"), answer="the child has answered"),
    "child work": [Reply(text="here speaks the child")],
    "delegate a wish": _then(_task("child wishes", "wish for it"), answer="the parent has heard"),
    "child wishes": _then(_bash("mkdir wished"), answer="then i do without"),
    "hang on": [Reply(text=HALF.text, chunks=7, hang_at=_up_to(HALF, 4))],
    "write a file": _then(
        _uses("write", filePath="made.txt", content="made by the model\n"), answer="it is written"
    ),
    "delegate slowly": _then(_task("slow child", "take time"), answer="meanwhile the parent speaks"),
    "slow child": [Reply(text="slowly it comes", chunks=15, gap=0.2)],
    "deploy it": [Reply(text="", tools=(_uses("deploy", version="v2"),))],
    "how is it": [Reply(text="it still takes its time"), Reply(text="so much for the deployment")],
    "survive this": [
        Reply(text=HALF.text, chunks=7, hang_at=_up_to(HALF, 4), times=1),
        Reply(text=GOES_ON, chunks=7),
    ],
}
