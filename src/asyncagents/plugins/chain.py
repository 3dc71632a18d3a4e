"""The hooks of one directory's plugins, called in order, each with the output of the one before."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import Config
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.call.call import Call, Completed, Failed
from asyncagents.domain.conversation.continuation import asks_to_continue
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import Part, TextPart
from asyncagents.domain.id import SessionId
from asyncagents.domain.text import error_text, replace_surrogates
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.hooks import (
    CompactionHints,
    ExpandedCommand,
    FinishedText,
    HookName,
    IncomingPrompt,
    PluginReport,
)
from asyncagents.errors import ToolError
from asyncagents.llm.model import Options
from asyncagents.plugins.config_check import check_config
from asyncagents.plugins.guarded_call import RaisedError, ReturnedValue
from asyncagents.plugins.hook_output import (
    AfterOutput,
    BeforeOutput,
    CommandOutput,
    CompactingOutput,
    EnvOutput,
    MessageHeader,
    MessageOutput,
    ParamsOutput,
    PermissionOutput,
    SystemOutput,
    TextOutput,
    encode_parts,
    read_parts,
)
from asyncagents.plugins.loaded_plugin import LoadedPlugin

S = TypeVar("S", bound=Struct)
AFTER_CONFIG = "config returns a Config, or None for no change"


class HookChain:
    """The `Hooks` of the plugins of one directory."""

    def __init__(self, plugins: Sequence[LoadedPlugin]) -> None:
        self._plugins = plugins
        self.names: frozenset[HookName] = frozenset().union(*(plugin.hooks for plugin in plugins))

    def reports(self) -> tuple[PluginReport, ...]:
        return tuple(plugin.report() for plugin in self._plugins)

    def _plugins_with(self, hook: HookName) -> list[LoadedPlugin]:
        return [plugin for plugin in self._plugins if hook in plugin.hooks]

    async def _change(self, hook: HookName, about: Mapping[str, Any], what: S) -> S:
        for plugin in self._plugins_with(hook):
            what = await plugin.apply_hook(hook, about, what)
        return what

    async def config(self, config: Config) -> Config:
        for plugin in self._plugins_with("config"):
            outcome = await plugin.call_hook("config", deepcopy(config))  # it holds mutable dicts
            health = plugin.health("config")
            if isinstance(outcome, RaisedError):
                health.record_error(outcome.error)
            elif isinstance(outcome, ReturnedValue):
                try:
                    config = config if outcome.value is None else check_config(outcome.value)
                except (msgspec.ValidationError, TypeError) as error:
                    health.record_bad_output(f"{AFTER_CONFIG}: {error}")
                else:
                    health.record_end()
        return config

    async def chat_message(self, prompt: IncomingPrompt) -> IncomingPrompt:
        about = {
            "sessionID": prompt.session_id,
            "messageID": prompt.message_id,
            "agent": prompt.agent,
            "model": msgspec.to_builtins(prompt.model),
        }
        for plugin in self._plugins_with("chat.message"):
            before = MessageOutput(MessageHeader(prompt.agent, prompt.model), encode_parts(prompt.parts))
            after = await plugin.apply_hook("chat.message", about, before)
            if after != before:
                parts = self._read_parts(plugin, "chat.message", after.parts, prompt.parts)
                prompt = replace(prompt, agent=after.message.agent, model=after.message.model, parts=parts)
        return prompt

    async def command(self, commanded: ExpandedCommand) -> tuple[Part, ...]:
        about = {
            "sessionID": commanded.session_id,
            "command": commanded.command,
            "arguments": commanded.arguments,
        }
        parts = commanded.parts
        for plugin in self._plugins_with("command.execute.before"):
            before = CommandOutput(encode_parts(parts))
            after = await plugin.apply_hook("command.execute.before", about, before)
            if after != before:
                parts = self._read_parts(plugin, "command.execute.before", after.parts, parts)
        return parts

    def _read_parts(
        self, plugin: LoadedPlugin, hook: HookName, left: list[dict[str, Any]], before: tuple[Part, ...]
    ) -> tuple[Part, ...]:
        try:
            return read_parts(left)
        except (msgspec.ValidationError, TypeError) as error:
            plugin.health(hook).record_bad_output(str(error))
            return before

    async def chat_params(self, message: AssistantMessage, options: Options) -> Options:
        before = ParamsOutput(
            temperature=options.temperature,
            top_p=options.top_p,
            max_output_tokens=options.max_output,
            options=options.body,
        )
        after = await self._change("chat.params", _step_input(message), before)
        return Options(
            temperature=after.temperature,
            top_p=after.top_p,
            max_output=after.max_output_tokens,
            body=after.options,
        )

    async def system(self, message: AssistantMessage, system: str) -> str:
        before = SystemOutput([system])
        after = await self._change("experimental.chat.system.transform", _step_input(message), before)
        return "\n\n".join(text for text in after.system if text)

    async def text_complete(self, part: TextPart) -> FinishedText:
        """Run `experimental.text.complete`; a note to continue counts unless a later plugin rewrites it."""
        about = {"sessionID": part.session_id, "messageID": part.message_id, "partID": part.id}
        text, continues = part.text, False
        for plugin in self._plugins_with("experimental.text.complete"):
            after = (await plugin.apply_hook("experimental.text.complete", about, TextOutput(text))).text
            continues = asks_to_continue(text, after) or (continues and after.startswith(text))
            text = after
        return FinishedText(text, continues)

    async def permission(self, call: Call, ask: Ask) -> Action:
        """Run `permission.ask`: one deny decides, else one allow."""
        about = _call_input(call) | {
            "permission": ask.permission,
            "patterns": list(ask.patterns),
            "always": list(ask.always),
            "metadata": dict(ask.metadata),
        }
        status: Action = "ask"
        for plugin in self._plugins_with("permission.ask"):
            after = await plugin.apply_hook("permission.ask", about, PermissionOutput("ask"))
            if after.status == "deny":
                return "deny"
            status = "allow" if after.status == "allow" else status
        return status

    async def tool_before(self, call: Call) -> dict[str, Any] | Failed:
        """Run `tool.execute.before`; a hook that raises refuses the call, and the model reads why."""
        what = BeforeOutput(call.input)
        for plugin in self._plugins_with("tool.execute.before"):
            what, error = await plugin.try_hook("tool.execute.before", _call_input(call), what)
            if isinstance(error, Exception):
                health = plugin.health("tool.execute.before")
                health.record_end() if isinstance(error, ToolError) else health.record_error(error)
                return Failed(replace_surrogates(_reason(error)))
            if error is not None:  # SystemExit, KeyboardInterrupt, a cancel: not about this call
                plugin.health("tool.execute.before").record_error(error)
        return what.args

    async def tool_after(self, call: Call, done: Completed) -> Completed:
        before = AfterOutput(done.title, done.output, done.metadata)
        after = await self._change("tool.execute.after", _call_input(call), before)
        return replace(done, output=after.output, title=after.title, metadata=after.metadata)

    async def shell_env(self, call: Call, directory: str) -> Mapping[str, str]:
        about = _call_input(call) | {"cwd": directory}
        return (await self._change("shell.env", about, EnvOutput({}))).env

    async def compacting(self, session_id: SessionId) -> CompactionHints:
        about = {"sessionID": session_id}
        after = await self._change("experimental.session.compacting", about, CompactingOutput([], None))
        return CompactionHints(tuple(after.context), after.prompt)


def _step_input(message: AssistantMessage) -> dict[str, Any]:
    return {
        "sessionID": message.session_id,
        "messageID": message.id,
        "agent": message.agent,
        "model": {"providerID": message.provider_id, "modelID": message.model_id},
    }


def _call_input(call: Call) -> dict[str, Any]:
    return {
        "sessionID": call.session_id,
        "messageID": call.message_id,
        "callID": call.call_id,
        "tool": call.tool,
        "agent": call.agent,
        "args": call.input,
    }


def _reason(error: Exception) -> str:
    """Return the text of an error as its author wrote it; its type name if it has none."""
    try:
        return str(error) or type(error).__name__
    except BaseException:  # noqa: BLE001  `__str__` is foreign code
        return error_text(error)
