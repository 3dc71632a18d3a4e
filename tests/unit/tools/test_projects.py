"""The project of a directory, as its files change while a runtime looks at it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import Struct

from asyncagents.config.loaded_project import LoadedProject
from asyncagents.config.markdown.agents import find_agents
from asyncagents.domain.agent.sandbox import Sandbox
from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.session import Session, SessionTime
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import Ids
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.engine.workplace.project import Project
from asyncagents.errors import ConfigError
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.tools.project.projects import MOST_CACHED, Projects
from asyncagents.tools.project.toolbox import ToolDeps
from asyncagents.tools.web.web import open_web
from tests.support.environment import ConfigDesk


class Nothing(Struct, frozen=True):
    pass


async def _todos(session_id: str) -> tuple[Todo, ...]:
    return ()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def desk(tmp_path: Path) -> ConfigDesk:
    return ConfigDesk(tmp_path)


@pytest.fixture
async def projects(desk: ConfigDesk, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Projects]:
    async def run(args: Nothing, context: ToolContext) -> Completed:
        return Completed("x" * 100_000)

    async with open_web() as web:
        deps = ToolDeps(
            web=web,
            read_todos=_todos,
            ids=Ids(clock, SeededRng(1)),
            home=desk.home,
            output_folder=tmp_path / "output",
        )
        yield Projects(desk.environment, deps, clock=clock, tools=[Tool("own", Nothing, run)])


@pytest.fixture
async def preloaded(desk: ConfigDesk, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Projects]:
    """Projects whose directory was read before they were opened: with the agent `old`."""
    agent = desk.write(".asyncagents/agents/old.md", "---\ndescription: Old.\n---\nGo.\n")
    loaded = LoadedProject(
        directory=str(desk.project),
        read_at=clock.now(),
        config=desk.load().config,
        trusted=True,
        agents=find_agents(desk.environment, desk.project, trusted=True),
    )
    agent.unlink()
    async with open_web() as web:
        ids, output = Ids(clock, SeededRng(1)), tmp_path / "output"
        deps = ToolDeps(web=web, read_todos=_todos, ids=ids, home=desk.home, output_folder=output)
        yield Projects(desk.environment, deps, clock=clock, config=loaded)


async def at(projects: Projects, directory: Path) -> Project:
    workplace = await projects.at(str(directory))
    assert isinstance(workplace, Project)
    return workplace


def names(place: Project) -> list[str]:
    return [agent.name for agent in place.agents.list(hidden=True)]


def session(directory: Path) -> Session:
    time = SessionTime(created=1, updated=1)
    return Session(
        id="ses_1",  # type: ignore[arg-type]
        slug="calm-river",
        project_id="p",
        directory=str(directory),
        title="t",
        version="1",
        time=time,
    )


async def action(
    projects: Projects, desk: ConfigDesk, permission: str, pattern: str, *, agent: str = "build"
) -> str:
    place = await at(projects, desk.project)
    return place.rules(agent, session(desk.project)).evaluate(permission, pattern)


async def test_preloaded_files_are_used_for_the_first_load_alone(
    preloaded: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    clock.advance(1_999)
    assert "old" in names(await at(preloaded, desk.project))
    clock.advance(2_000)
    assert "old" not in names(await at(preloaded, desk.project))


async def test_files_that_were_read_too_long_ago_or_elsewhere_are_read_again(
    preloaded: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    assert "old" not in names(await at(preloaded, desk.home))
    clock.advance(2_000)
    assert "old" not in names(await at(preloaded, desk.project))


@pytest.mark.spec("A-03")
async def test_rules_that_are_tightened_count_at_once_and_loosened_ones_after_a_restart(
    projects: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    """Whoever may edit a file, or run a command that does, must not be able to open the rules for itself."""
    desk.write("asyncagents.json", {"permission": {"bash": "ask", "edit": "allow"}})
    assert await action(projects, desk, "bash", "ls") == "ask"
    desk.write("asyncagents.json", {"permission": {"bash": "allow", "edit": "deny"}})
    assert await action(projects, desk, "edit", "a.py") == "allow"
    clock.advance(2_000)
    assert await action(projects, desk, "edit", "a.py") == "deny"
    assert await action(projects, desk, "bash", "ls") == "ask"


async def test_an_agent_that_is_new_may_do_no_more_than_the_default_could(
    projects: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    desk.write("asyncagents.json", {"permission": {"bash": "ask"}})
    await at(projects, desk.project)
    desk.write(
        ".asyncagents/agents/free.md", "---\ndescription: Free.\npermission:\n  bash: allow\n---\nGo.\n"
    )
    clock.advance(2_000)
    place = await at(projects, desk.project)
    assert place.agents.get("free").prompt == "Go."
    assert await action(projects, desk, "bash", "ls", agent="free") == "ask"


async def test_a_sandbox_that_is_narrowed_counts_at_once_and_a_widened_one_after_a_restart(
    projects: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    async def sandbox(agent: str = "build") -> Sandbox | None:
        clock.advance(2_000)
        return (await at(projects, desk.project)).rules(agent, session(desk.project)).sandbox

    desk.write("asyncagents.json", {"sandbox": {"write": ["~/.cache"]}})
    cache = str(desk.home / ".cache")
    assert await sandbox() == Sandbox(write=(cache,), network=True)
    desk.write("asyncagents.json", {"sandbox": False, "agent": {"free": {"sandbox": False}}})
    assert await sandbox() == Sandbox(write=(cache,), network=True)
    assert await sandbox("free") == Sandbox(write=(cache,), network=True)
    desk.write("asyncagents.json", {"sandbox": {"write": ["~/.cache/pip", "/"], "network": False}})
    assert await sandbox() == Sandbox(write=(f"{cache}/pip", cache), network=False)


async def test_a_broken_file_keeps_the_last_valid_configuration_or_is_an_error(
    projects: Projects, clock: FakeClock, desk: ConfigDesk
) -> None:
    desk.write("asyncagents.json", "{")
    with pytest.raises(ConfigError, match=r"asyncagents\.json"):
        await projects.at(str(desk.project))
    desk.write("asyncagents.json", {})
    before = await at(projects, desk.project)
    desk.write("asyncagents.json", "{")
    clock.advance(2_000)
    assert await at(projects, desk.project) is before


@pytest.mark.slow
async def test_the_number_of_cached_directories_is_limited(projects: Projects, desk: ConfigDesk) -> None:
    first = await at(projects, desk.project)
    for number in range(MOST_CACHED):
        await projects.at(str(desk.project / f"d{number}"))
    assert await at(projects, desk.project) is not first


@pytest.mark.spec("A-07")
async def test_output_of_custom_tools_is_capped_too(
    projects: Projects, desk: ConfigDesk, tmp_path: Path
) -> None:
    tool = (await at(projects, desk.project)).tools["own"]
    context = ToolContext(session_id="s", message_id="m", call_id="c", agent="a", directory="/")  # type: ignore[arg-type]
    done = await tool.run(Nothing(), context)
    assert isinstance(done, Completed)
    assert len(done.output) <= 50_000
    assert Path(done.metadata["outputPath"]).parent == tmp_path / "output"
