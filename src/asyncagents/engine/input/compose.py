"""Build the parts of a prompt from typed text: fill in commands, look up mentions and files."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeAlias, assert_never
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.markdown.commands import CommandDefinition
from asyncagents.domain.agent.command import (
    FilePiece,
    Invocation,
    Mention,
    Piece,
    ShellPiece,
    TextPiece,
    fill_template,
    parse_mentions,
    split_arguments,
)
from asyncagents.domain.conversation.part import FileSource, PartSource, ResourceSource, TextSpan
from asyncagents.domain.conversation.part_input import (
    AgentInput,
    FileInput,
    PartInput,
    SubtaskInput,
    TextInput,
)
from asyncagents.domain.envelope import escape_tags
from asyncagents.domain.id import SessionId
from asyncagents.engine.model_input import wrap_file
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.mcp import McpContent
from asyncagents.engine.workplace.prompt_sources import (
    AttachedFile,
    FileLookup,
    FileRequest,
    ForbiddenFile,
    Judge,
    NoSuchFile,
    PromptSources,
    UnreadableFile,
)
from asyncagents.engine.workplace.workplace import UnusableWorkplace, Workplace
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.llm.model import Attachment

MAX_MENTIONS = 50
"""A text with more mentions is taken for pasted text, and none is looked up."""
MAX_SEARCHED_CHARS = 100_000
"""How many characters of a text are searched for mentions."""
NO_FILES = "no files can be read here: attach the content itself, as a data: URL"

File: TypeAlias = Attachment | Path | str


class FilledCommand(Struct, frozen=True):
    """A command filled in as a prompt: its text, and the parts of files and mentions."""

    text: str
    extra_parts: tuple[PartInput, ...] = ()


DEFAULT_MIME = "application/octet-stream"


def data_url(data: bytes, mime: str) -> str:
    return f"data:{mime or DEFAULT_MIME};base64,{b64encode(data).decode()}"


def _content_part(content: McpContent) -> PartInput:
    if content.text is not None:
        return TextInput(text=escape_tags(content.text, files=True))
    return FileInput(mime=content.mime or DEFAULT_MIME, url=data_url(content.data or b"", content.mime))


class Composer:
    """Builds the parts of one prompt in a directory. `judge` is awaited only if a file is looked up."""

    def __init__(
        self,
        workplace: Workplace,
        directory: str,
        judge: Callable[[], Awaitable[Judge]],
        *,
        session_id: SessionId,
    ) -> None:
        self._workplace = workplace
        self._session_id = session_id
        self._sources: PromptSources | None = workplace.prompt_sources
        self._directory = directory
        self._make_judge = judge
        self._judge: Judge | None = None

    async def text_parts(self, text: str) -> list[PartInput]:
        """Return the parts of a text: itself, and the files and agents that it mentions."""
        parts: list[PartInput] = [TextInput(text=text)] if text.strip() else []
        return parts + await self.mentioned_parts(text)

    async def mentioned_parts(self, text: str) -> list[PartInput]:
        """Return parts for mentioned files and agents that exist; any other `@word` stays plain text."""
        seen = parse_mentions(text[:MAX_SEARCHED_CHARS]) if self._sources else ()
        found = {mention.path: mention for mention in reversed(seen)}  # the first occurrence of each
        parts: list[PartInput] = []
        if len(found) <= MAX_MENTIONS:
            for mention in reversed(found.values()):
                parts += await self._mention_parts(mention)
        return parts

    async def _mention_parts(self, mention: Mention) -> list[PartInput]:
        at = TextSpan(value=mention.text, start=mention.start, end=mention.start + len(mention.text))
        match await self._look_up(self._file_request(mention.path)):
            case AttachedFile() as file:
                return _attached_file_parts(file, FileSource(path=file.path, text=at))
            case NoSuchFile():
                return self._agent_parts(mention.path, at)
            case ForbiddenFile(outside=True):
                return []
            case ForbiddenFile(why) | UnreadableFile(why):
                return [TextInput(text=f"[{mention.text} is not shown here: {why}]", synthetic=True)]
            case looked:
                assert_never(looked)

    def _agent_parts(self, name: str, at: TextSpan | None) -> list[PartInput]:
        """Return the parts that call a subagent; empty if no agent of that name may be called."""
        agent = self._sources.agent(name) if self._sources else None
        if agent is None or agent.mode == "primary":
            return []
        return _agent_call_parts(AgentInput(name=agent.name, source=at))

    def _file_request(self, path: str, *, first: int | None = None, last: int | None = None) -> FileRequest:
        directory, session_id = self._directory, self._session_id
        return FileRequest(path=path, directory=directory, session_id=session_id, first=first, last=last)

    def _parse_file_url(self, url: str) -> FileRequest:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InvalidInput(f"{url[:80]!r} is not a valid file URL: {error}") from error
        if parts.netloc not in ("", "localhost"):
            raise InvalidInput(f"{url[:80]!r} names another machine: a file: URL must begin with file:///")
        query = parse_qs(parts.query)
        path = unquote(parts.path) or "."
        return self._file_request(path, first=_line_number(query, "start"), last=_line_number(query, "end"))

    async def _look_up(self, request: FileRequest, *, meant: bool = False) -> FileLookup:
        if self._sources is None:
            raise InvalidInput(
                self._workplace.why if isinstance(self._workplace, UnusableWorkplace) else NO_FILES
            )
        if self._judge is None:
            self._judge = await self._make_judge()
        return await self._sources.look_up(request, self._judge, meant=meant)

    async def file_parts(self, files: Iterable[File]) -> list[PartInput]:
        """Return parts for attached files (path, URL or content); raise `InvalidInput` if one cannot be."""
        parts: list[PartInput] = []
        if not isinstance(files, list | tuple):
            raise InvalidInput("files must be a list of paths, file: URLs or Attachments")
        for file in files:
            match file:
                case Attachment():
                    parts += await self._complete_file(
                        FileInput(mime=file.mime, url=file.url, filename=file.filename)
                    )
                case str() if file.startswith("file:"):
                    parts += await self._complete_file(FileInput(mime="text/plain", url=file))
                case Path() | str():
                    parts += await self._attach_file(self._file_request(str(file)))
                case _:
                    raise InvalidInput(
                        "a file must be a path, a file: URL, or an Attachment with its content"
                    )
        return parts

    async def complete_parts(self, parts: Iterable[PartInput]) -> list[PartInput]:
        """Complete parts that a client sent: attach files, and check the agents they call."""
        made: list[PartInput] = []
        for part in parts:
            match part:
                case FileInput():
                    made += await self._complete_file(part)
                case AgentInput():
                    self._check_agent(part.name)
                    made += _agent_call_parts(part)
                case SubtaskInput():
                    self._check_agent(part.agent)
                    made.append(part)
                case TextInput():
                    made.append(part)
                case _:
                    assert_never(part)
        return made

    def _check_agent(self, name: str) -> None:
        if self._sources is None:
            return
        agent = self._sources.agent(name)
        if agent is None or agent.mode == "primary":
            raise InvalidInput(f"{name!r} is not a subagent of this directory: choose one that is")

    async def _complete_file(self, part: FileInput) -> list[PartInput]:
        if isinstance(part.source, ResourceSource):
            return await self._resource_parts(part, part.source)
        if part.url.startswith(("data:", "https:", "http:")):
            return [part]
        if not part.url.startswith("file:"):
            raise InvalidInput(f"{part.url[:80]!r} is not a valid file URL: use a file: or data: URL")
        return await self._attach_file(self._parse_file_url(part.url), part)

    async def _attach_file(self, request: FileRequest, part: FileInput | None = None) -> list[PartInput]:
        match await self._look_up(request, meant=True):
            case AttachedFile() as file:
                return _attached_file_parts(file, part.source if part else None, part)
            case NoSuchFile(why) | ForbiddenFile(why) | UnreadableFile(why):
                raise InvalidInput(why)
            case looked:
                assert_never(looked)

    async def _resource_parts(self, part: FileInput, source: ResourceSource) -> list[PartInput]:
        served = self._workplace.mcp_resources
        if served is None:
            raise InvalidInput(
                f"there is no MCP server {source.client_name!r} here to read {source.uri} from"
            )
        parts: list[PartInput] = []
        try:
            found = await served.read_resource(source.client_name, source.uri)
        except ToolError as error:
            raise InvalidInput(f"{source.uri} cannot be attached: {error}") from error
        for each in found:
            if each.text is not None:
                words = wrap_file(part.filename or source.uri, each.text)
                parts += [TextInput(text=words, synthetic=True), replace(part, url=source.uri)]
            elif each.data is not None:
                parts.append(
                    replace(part, mime=each.mime or DEFAULT_MIME, url=data_url(each.data, each.mime))
                )
        return parts

    async def server_prompt_parts(self, invocation: Invocation) -> list[PartInput] | None:
        """Return the parts of an MCP prompt, called as `server:prompt arguments…`; None: there is none."""
        served = self._workplace.mcp_resources
        if served is None or ":" not in invocation.name:
            return None
        known = {each.command: each for each in await served.list_prompts(invocation.name)}
        prompt = known.get(invocation.name)
        if prompt is None:
            return None
        names = [each.name for each in prompt.arguments]
        typed = split_arguments(invocation.arguments)
        values = (*typed[: len(names) - 1], " ".join(typed[len(names) - 1 :])) if names else ()
        given = {name: value for name, value in zip(names, values, strict=False) if value}
        if missing := [each.name for each in prompt.arguments if each.required and each.name not in given]:
            raise InvalidInput(f"/{invocation.name} needs {', '.join(missing)}: write it behind the command")
        try:
            found = await served.get_prompt(prompt.server, prompt.name, given)
        except ToolError as error:
            raise InvalidInput(f"/{invocation.name} cannot be used: {error}") from error
        return [_content_part(each) for each in found if each.text is not None or each.data is not None]

    async def fill_command(self, command: CommandDefinition, arguments: str) -> FilledCommand:
        """Fill a command's template with the typed arguments, the output of its shell and its files."""
        texts: list[str] = []
        beside: list[PartInput] = []
        for piece in fill_template(command.config.template, arguments):
            text, parts = await self._fill_piece(command, piece)
            texts.append(text)
            beside += parts
        return FilledCommand("".join(texts).strip(), (*beside, *await self.mentioned_parts(arguments)))

    async def _fill_piece(self, command: CommandDefinition, piece: Piece) -> tuple[str, list[PartInput]]:
        match piece:
            case TextPiece(text):
                return text, []
            case ShellPiece():
                return await self._run_shell(command, piece), []
            case FilePiece():
                return piece.text, await self._file_piece_parts(command, piece)
            case _:
                assert_never(piece)

    async def _run_shell(self, command: CommandDefinition, piece: ShellPiece) -> str:
        assert self._sources is not None, "the command comes from its sources"
        try:
            return escape_tags(await self._sources.run_shell(piece, self._directory), files=True)
        except ToolError as error:
            raise InvalidInput(f"/{command.name} cannot run `{piece.command}`: {error}") from error

    async def _file_piece_parts(self, command: CommandDefinition, piece: FilePiece) -> list[PartInput]:
        match await self._look_up(self._file_request(piece.path)):
            case AttachedFile() as file:
                return _attached_file_parts(file, None)
            case NoSuchFile():
                return self._agent_parts(piece.path, None)
            case ForbiddenFile(why) | UnreadableFile(why):
                raise InvalidInput(f"/{command.name} names {piece.text}: {why}")
            case looked:
                assert_never(looked)


def _attached_file_parts(
    file: AttachedFile, source: PartSource | None, part: FileInput | None = None
) -> list[PartInput]:
    """Return the text that the model reads of a file, then the file part that people see."""
    part = part or FileInput(mime=file.mime, url=Path(file.path).as_uri(), source=source)
    part = replace(part, mime=file.mime, filename=part.filename or file.name)
    if file.data is not None:
        return [replace(part, url=file.data)]
    words = wrap_file(part.filename or file.name, file.words or "")
    return [TextInput(text=words, synthetic=True), part]


def _agent_call_parts(part: AgentInput) -> list[PartInput]:
    return [part, TextInput(text=prompt_text("agent-mention").format(name=part.name), synthetic=True)]


def _line_number(query: dict[str, list[str]], name: str) -> int | None:
    values = query.get(name)
    if not values:
        return None
    if not (values[0].isascii() and values[0].isdigit() and len(values[0]) < 10):
        raise InvalidInput(f"{name}={values[0][:20]} is not a line number: write one as in ?start=3&end=9")
    return int(values[0])


def subtask_input(command: CommandDefinition, agent: str, filled: FilledCommand) -> SubtaskInput:
    """Build the subtask of a command as one text, with the text of its files; pictures are only named."""
    words = [part.text for part in filled.extra_parts if isinstance(part, TextInput)]
    config = command.config
    model = config.model and replace(config.model, variant=config.variant or config.model.variant)
    return SubtaskInput(
        prompt="\n\n".join([filled.text, *words]),
        description=config.description or f"/{command.name}",
        agent=agent,
        model=model,
        command=command.name,
    )
