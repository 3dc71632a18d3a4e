"""Read the replay of a loaded session: is the last prompt there, and did the agent work on it?"""

from asyncagents.remote.acp.content import block_text
from asyncagents.remote.acp.wire import Update

WORK = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"})
COMPARED = 400
"""Characters of a prompt that are compared: an agent may store it in another form."""


class Replay:
    def __init__(self) -> None:
        self._prompts: list[str] = []
        self._message_id: str | None = None
        self._in_prompt = False
        self._worked = False
        """Whether the agent did anything after the last prompt."""

    def add(self, update: Update) -> None:
        if update.session_update in WORK:
            self._worked, self._in_prompt = True, False
        elif update.session_update == "user_message_chunk":
            self._add_prompt_chunk(block_text(update.content), update.message_id)

    def _add_prompt_chunk(self, text: str, message_id: str | None) -> None:
        if self._in_prompt and message_id == self._message_id:
            self._prompts[-1] += f"\n{text}"
        else:
            self._prompts.append(text)
        self._in_prompt, self._worked, self._message_id = True, False, message_id

    def shows_work_on(self, prompt: str, *, number: int) -> bool:
        """Tell whether the agent worked on a prompt; `number`: how many prompts were sent with it.

        A replay without prompts cannot tell: what it shows then counts as work on this one.
        """
        present = not self._prompts or len(self._prompts) >= number or self._ends_with(prompt)
        return present and self._worked

    def _ends_with(self, prompt: str) -> bool:
        last, wanted = " ".join(self._prompts[-1].split()), " ".join(prompt.split())[:COMPARED]
        return bool(wanted) and wanted in last
