"""Where plugins and tools come from, in which order, and what an untrusted project cannot make us import."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import asyncagents.tools.builtin
from asyncagents.config.config import Config
from asyncagents.config.trust import distrust_project, is_trusted, project_root
from asyncagents.engine.workplace.hooks import PluginReport
from asyncagents.plugins.plugins import Plugins
from asyncagents.tools.project.extensions import Additions
from asyncagents.tools.project.extra_tools import BUILT_IN, ExtraTool, merge_tools
from tests.support.environment import ConfigDesk
from tests.support.tool import ECHO

PLUGIN = """
import asyncagents

async def plugin(context):
    async def text(input, output):
        output["text"] += {name!r}
    return {{"experimental.text.complete": text}}
"""
TOOL = """
from asyncagents import tool

@tool
def {name}(text: str) -> str:
    "Says {origin}."
    return "{origin}: " + text
"""
TRAP = "import pathlib; pathlib.Path({mark!r}).write_text('sprung')\nasync def plugin(context): return {{}}\n"


@pytest.fixture
def desk(tmp_path: Path) -> ConfigDesk:
    return ConfigDesk(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> ConfigDesk:
    return ConfigDesk(tmp_path, trusted=False)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test imports or puts on the path is forgotten."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


async def loaded(desk: ConfigDesk, config: Config | None = None) -> Additions:
    plugins = Plugins(desk.environment, output=desk.home / "output")
    config = config or desk.load().config
    found = plugins.find(str(desk.project), config, trusted=is_trusted(desk.environment, desk.project))
    assert found is not None
    additions = await plugins.load(found, config)
    await plugins.end()
    return additions


async def reports(desk: ConfigDesk, config: Config | None = None) -> tuple[PluginReport, ...]:
    return (await loaded(desk, config)).hooks.reports()


def installed(folder: Path, package: str, module: str, code: str, *, value: str | None = None) -> None:
    """A package as pip leaves it: a module, and its metadata beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[asyncagents.plugins]\n{package} = {value or module}\n")


@pytest.mark.spec("A-06")
async def test_plugins_come_from_packages_the_configuration_and_folders_in_this_order(
    desk: ConfigDesk, tmp_path: Path
) -> None:
    installed(tmp_path / "site", "zoo", "zoo_plugin", PLUGIN.format(name="zoo"), value="zoo_plugin:plugin")
    installed(tmp_path / "site", "ant", "ant_plugin", PLUGIN.format(name="ant"))
    sys.path.append(str(tmp_path / "site"))
    desk.write("~/lib/named.py", PLUGIN.format(name="named"))
    desk.write(
        "asyncagents.json", {"plugin": ["./own.py", ["~/lib/named.py", {"loud": True}], "zoo_plugin:plugin"]}
    )
    desk.write("own.py", PLUGIN.format(name="own"))
    for name in ("b", "a", "_left"):
        desk.write(f".asyncagents/plugins/{name}.py", PLUGIN.format(name=name))
    desk.write("~/.config/asyncagents/plugins/user.py", PLUGIN.format(name="user"))
    desk.write("~/.asyncagents/plugins/home.py", PLUGIN.format(name="home"))
    found = [(each.name, each.scope, each.error) for each in await reports(desk)]
    assert found == [
        ("ant", "user", None),
        ("zoo", "user", None),
        ("own", "project", None),
        ("named", "user", None),
        ("zoo_plugin:plugin", "user", None),
        ("a", "project", None),
        ("b", "project", None),
        ("user", "user", None),
        ("home", "user", None),
    ]


async def test_options_of_the_configuration_reach_their_plugin(desk: ConfigDesk) -> None:
    desk.write("p.py", "async def plugin(context):\n    raise ValueError(context.options['x'])\n")
    desk.write("asyncagents.json", {"plugin": [["./p.py", {"x": "forty-two"}]]})
    (report,) = await reports(desk)
    assert report.error == "could not start: ValueError: forty-two"


@pytest.mark.spec("A-06")
@pytest.mark.parametrize(
    ("named", "code", "why"),
    [
        ("./gone.py", None, "cannot be imported: FileNotFoundError"),
        ("./p.py", "syntax error", "cannot be imported: SyntaxError"),
        ("./p.py", "raise SystemExit(1)", "cannot be imported: SystemExit"),
        ("./p.py", "x = 1", "has no function 'plugin'"),
        ("./p.py", "plugin = 7", "has no function 'plugin'"),
        ("no_such_module_here", None, "there is no module 'no_such_module_here'"),
        ("asyncagents.no_such_part", None, "cannot be imported: ModuleNotFoundError"),
        ("asyncagents:nothing", None, "has no function 'nothing'"),
        ("oh-my-opencode@latest", None, "Plugins that are written for Node do not run here"),
        ("p.py", None, "Plugins that are written for Node do not run here"),
    ],
)
async def test_a_plugin_that_cannot_be_used_is_listed_and_the_rest_works(
    desk: ConfigDesk, named: str, code: str | None, why: str
) -> None:
    if code is not None:
        desk.write("p.py", code)
    desk.write("good.py", PLUGIN.format(name="good"))
    desk.write("asyncagents.json", {"plugin": [named, "./good.py"]})
    bad, good = await reports(desk)
    assert why.lower() in (bad.error or "").lower()
    assert good.error is None


@pytest.mark.spec("A-06")
async def test_tools_come_from_files_the_nearest_first(desk: ConfigDesk) -> None:
    (desk.project / ".git").mkdir()
    desk.write(".asyncagents/tools/a.py", TOOL.format(name="greet", origin="project"))
    desk.write("~/.config/asyncagents/tools/b.py", TOOL.format(name="greet", origin="user"))
    desk.write("~/.config/asyncagents/tools/c.py", TOOL.format(name="read", origin="user"))
    additions = await loaded(desk)
    tools, told = merge_tools((ECHO.with_name("read"), ECHO.with_name("list")), additions.tools)
    assert [tool.description for tool in tools] == [
        "Says user.",
        "Does something with a text.",
        "Says project.",
    ]
    (clash,) = told
    assert clash.startswith(str(desk.home / ".config/asyncagents/tools/b.py"))


async def test_projects_replace_no_built_in_tool_and_users_no_tool_of_the_program(desk: ConfigDesk) -> None:
    own, theirs = (
        ExtraTool(ECHO.with_name("read"), "mine", own=True),
        ExtraTool(ECHO.with_name("read"), "theirs", own=False),
    )
    assert merge_tools((ECHO.with_name("read"),), [theirs])[1] == [
        "theirs: the tool read is ignored: a project may not replace a built-in tool"
    ]
    assert merge_tools((ECHO.with_name("read"),), [own])[1] == []
    assert merge_tools((ECHO,), [ExtraTool(ECHO, "mine", own=True)])[1] == [
        "mine: the tool echo is ignored: the program defines it already"
    ]


@pytest.mark.parametrize("code", ["syntax error", "raise KeyboardInterrupt", "x = 1"])
async def test_an_unusable_tool_file_gives_a_warning_and_the_rest_works(desk: ConfigDesk, code: str) -> None:
    bad = desk.write(".asyncagents/tools/bad.py", code)
    desk.write(".asyncagents/tools/good.py", TOOL.format(name="greet", origin="good"))
    additions = await loaded(desk)
    assert [added.tool.name for added in additions.tools] == ["greet"]
    (warning,) = additions.warnings
    assert warning.startswith(str(bad))


async def test_importing_a_tool_file_leaves_no_other_file(desk: ConfigDesk) -> None:
    file = desk.write(".asyncagents/tools/a.py", TOOL.format(name="greet", origin="source"))
    await loaded(desk)
    assert list(file.parent.iterdir()) == [file]


async def test_a_loaded_plugin_stays_in_use_until_the_next_start(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/plugins/a.py", PLUGIN.format(name="a"))
    plugins = Plugins(desk.environment, output=desk.home)
    config = desk.load().config
    for _ in range(2):
        found = plugins.find(str(desk.project), config, trusted=True)
        assert found is not None
        additions = await plugins.load(found, config)
        desk.write(".asyncagents/plugins/a.py", "broken(")
        desk.write(".asyncagents/plugins/b.py", PLUGIN.format(name="b"))
        assert [report.error for report in additions.hooks.reports()] == [None]


def test_a_project_without_plugins_and_tools_yields_none(desk: ConfigDesk) -> None:
    plugins = Plugins(desk.environment, output=desk.home)
    assert plugins.find(str(desk.project), desk.load().config, trusted=True) is None


class Mark:
    """What a trap leaves when it is sprung."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.trap = TRAP.format(mark=str(path))

    @property
    def sprung(self) -> bool:
        return self._path.exists()


@pytest.fixture
def mark(tmp_path: Path) -> Mark:
    return Mark(tmp_path / "mark")


async def test_files_of_an_untrusted_project_are_not_imported(stranger: ConfigDesk, mark: Mark) -> None:
    trap = mark.trap
    stranger.write(".asyncagents/plugins/a.py", trap)
    stranger.write(".asyncagents/tools/a.py", trap)
    stranger.write("p.py", trap)
    stranger.write("asyncagents.json", {"plugin": ["./p.py", str(stranger.project / "p.py")]})
    additions = await loaded(stranger)
    assert not mark.sprung
    assert additions.tools == ()
    assert additions.hooks.reports() == ()
    assert sum("not trusted" in warning for warning in additions.warnings) == 2


async def test_an_untrusted_project_on_the_path_adds_and_hides_no_package(
    stranger: ConfigDesk, mark: Mark, tmp_path: Path
) -> None:
    """`python -m` puts the current directory first: a project may bring metadata, and modules of any name."""
    trap = mark.trap
    installed(tmp_path / "site", "guard", "guard_plugin", PLUGIN.format(name="guard"))
    installed(stranger.project, "guard", "evil_plugin", trap)
    installed(stranger.project / "src", "other", "other_plugin", trap)
    sys.path[:0] = [str(stranger.project), str(stranger.project / "src")]
    sys.path.append(str(tmp_path / "site"))
    (report,) = await reports(stranger)
    assert report.name == "guard"
    assert report.error is None
    assert not mark.sprung


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_module_of_an_untrusted_project_is_not_imported_as_a_user_plugin(
    stranger: ConfigDesk, mark: Mark, trusted: bool
) -> None:
    stranger.write("my_plugin/__init__.py", mark.trap)
    stranger.write(
        "~/.config/asyncagents/asyncagents.json", {"plugin": ["my_plugin", "my_plugin.inner:plugin"]}
    )
    sys.path.insert(0, str(stranger.project))
    if trusted:
        stranger.variables = {"ASYNCAGENTS_TRUST": "1"}
    first, second = await reports(stranger)
    assert mark.sprung == trusted
    if not trusted:
        assert "not trusted" in (first.error or "")
        assert "not trusted" in (second.error or "")
    else:
        assert first.error is None


async def test_packages_of_an_untrusted_start_directory_are_ignored(
    stranger: ConfigDesk, mark: Mark, tmp_path: Path
) -> None:
    """The session works elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    installed(stranger.project, "evil", "evil_plugin", mark.trap)
    sys.path.insert(0, str(stranger.project))
    plugins = Plugins(stranger.environment, output=stranger.home)
    assert plugins.find(str(elsewhere), stranger.load().config, trusted=False) is None
    assert not mark.sprung


async def test_trust_that_is_taken_back_counts_at_once(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/tools/a.py", TOOL.format(name="greet", origin="project"))
    plugins = Plugins(desk.environment, output=desk.home)
    config = desk.load().config
    counts = []
    for trusted in (True, False, True):
        found = plugins.find(str(desk.project), config, trusted=trusted)
        assert found is not None
        counts.append(len((await plugins.load(found, config)).tools))
    assert counts == [1, 0, 1]
    assert distrust_project(desk.environment, project_root(desk.environment, desk.project))


async def test_packages_below_the_home_are_found_when_it_is_the_start_directory(stranger: ConfigDesk) -> None:
    """All of the user's own lies in it, and it cannot be trusted as a project."""
    installed(stranger.home / "src", "mine", "mine_plugin", PLUGIN.format(name="mine"))
    sys.path.append(str(stranger.home / "src"))
    environment = replace(stranger.environment, cwd=stranger.home)
    found = Plugins(environment, output=stranger.home).find(
        str(stranger.home), stranger.load().config, trusted=False
    )
    assert found is not None
    assert [source.name for source in found.plugins] == ["mine"]


async def test_a_package_with_broken_metadata_is_passed_over(desk: ConfigDesk, tmp_path: Path) -> None:
    site = tmp_path / "site"
    installed(site, "good", "good_plugin", PLUGIN.format(name="good"))
    installed(site, "odd", "odd_plugin", PLUGIN.format(name="odd"))
    (site / "odd-1.0.dist-info" / "entry_points.txt").write_bytes(b"[asyncagents.plugins\n\xff")
    (site / "empty-1.0.dist-info").mkdir()
    sys.path.append(str(site))
    assert [report.name for report in await reports(desk)] == ["good"]


BAD_TOOLS = """
from msgspec import Struct
from asyncagents import Tool

class Args(Struct):
    x: int

class Odd(Struct):
    x: type

async def run(args, context): ...

good = Tool("good", Args, run)
spaced = Tool("not a name", Args, run)
long = Tool("x" * 65, Args, run)
number = Tool(7, Args, run, description="x")
effect = Tool("effect", Args, run, effect="never")
timeout = Tool("timeout", Args, run, timeout=float("inf"))
late = Tool("late", Args, run, timeout="soon")
odd = Tool("odd", Odd, run)
plain = Tool("plain", int, run)
"""


async def test_an_invalid_tool_of_a_file_is_left_out_with_a_warning(desk: ConfigDesk) -> None:
    desk.write(".asyncagents/tools/bad.py", BAD_TOOLS)
    additions = await loaded(desk)
    assert [added.tool.name for added in additions.tools] == ["good"]
    assert len(additions.warnings) == 8


def test_the_list_of_built_in_names_matches_the_tools() -> None:
    folder = Path(asyncagents.tools.builtin.__path__[0])
    assert {file.stem for file in folder.glob("*.txt")} == BUILT_IN


def test_the_timeout_of_hooks_comes_from_the_configuration(desk: ConfigDesk) -> None:
    assert desk.load().config.hook_seconds == 5
    desk.write("asyncagents.json", {"hook_seconds": 0.5})
    assert desk.load().config.hook_seconds == 0.5


async def test_tools_and_plugins_for_node_are_named_in_one_warning(desk: ConfigDesk) -> None:
    for name in ("tool/hello.ts", "plugin/p.js", "plugin/types.d.ts", "plugin/notes.md"):
        desk.write(f".opencode/{name}", "")
    warnings = (await loaded(desk)).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith(".opencode/tool/hello.ts, .opencode/plugin/p.js: written for Node")
    assert "not run here" in warnings[0]
