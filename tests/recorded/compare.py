"""A session of an inventory as it was and as it is: what of it is lost."""

from typing import Any


def lost_messages(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name messages that are gone, and parts that were complete and are not as they were."""
    known = {message["id"]: message for message in now["messages"]}
    lost = [message["id"] for message in was["messages"] if message["id"] not in known]
    for message in was["messages"]:
        parts = {part["id"]: part for part in known.get(message["id"], message)["parts"]}
        over = "of" not in message or "finish" in message or "error" in message
        lost += [part["id"] for part in message["parts"] if over and _changed(part, parts.get(part["id"]))]
    return lost


def _changed(was: dict[str, Any], now: dict[str, Any] | None) -> bool:
    if now is None or was.get("type") != "tool":
        return was != now
    if was["state"]["status"] not in ("completed", "error"):
        return False  # it was under way
    return any(was["state"].get(name) != now["state"].get(name) for name in ("output", "error", "input"))


def lost_results(was: dict[str, Any], now: dict[str, Any], given: dict[str, str]) -> list[str]:
    """Name calls whose result has changed, or is not the one that was given."""
    lost = []
    for call_id, call in was["calls"].items():
        after = now["calls"][call_id]
        if call["state"] == "settled" and (call["result"], call["at"]) != (after["result"], after["at"]):
            lost.append(call_id)
        if call_id in given and after["result"].get("output") != given[call_id]:
            lost.append(call_id)
    return lost


def unanswered(session: dict[str, Any]) -> list[str]:
    """Name prompts without an answer; what an abort held back is answered when somebody speaks again."""
    return [
        message_id
        for message_id, state, source, answer_id in session["inputs"]
        if source == "person" and answer_id is None and state == "promoted"
    ] + [message_id for message_id, state, *_ in session["inputs"] if state == "queued"]
