"""A program: an agent of the Agent Client Protocol with one answer. Its argument names what it does wrong."""

import json
import sys
from typing import Any

SESSION = "ses_1"


def send(frame: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
    sys.stdout.flush()


def update(name: str, **fields: Any) -> None:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": name, **fields}}
    send({"method": "session/update", "params": params})


def say(text: str, **more: Any) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text}, messageId="msg_1", **more)


def answer_prompt(wrong: str) -> None:
    entry = {"content": "Look", "priority": "high", "status": "pending"}
    update("plan", entries=[entry])
    update("tool_call", toolCallId="c1", title="Edit a.txt", kind="edit", status="pending")
    options = [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ]
    params = {"sessionId": SESSION, "toolCall": {"toolCallId": "c1"}, "options": options}
    send({"id": "p1", "method": "session/request_permission", "params": params})
    outcome = json.loads(sys.stdin.readline())["result"]["outcome"]
    send({"id": "q1", "method": "qwen/notify/done", "params": {}} if wrong == "method" else {"method": "_x"})
    if wrong == "method":
        assert json.loads(sys.stdin.readline())["error"]["code"] == -32601
    update("tool_call_update", toolCallId="c1", status="completed")
    say(f"It was {outcome.get('optionId', outcome['outcome'])}.", **({"odd": 1} if wrong == "field" else {}))
    if wrong == "line":
        sys.stdout.write("Traceback\n")
    if wrong == "update":
        update("tool_call_update", toolCallId="c2", status="completed")


def main(wrong: str) -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": 1},
            "session/new": {"sessionId": SESSION},
            "session/prompt": {"stopReason": "done" if wrong == "response" else "end_turn"},
        }
        if frame.get("method") == "session/prompt":
            if wrong == "exit":
                sys.exit("out of order")
            answer_prompt(wrong)
        send({"id": frame["id"], "result": results[frame["method"]]})


if __name__ == "__main__":
    main(*sys.argv[1:])
