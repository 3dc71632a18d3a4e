"""Where our answers differ from OpenCode's, each with its reason; docs/opencode.md tells people."""

from tests.peer.compare import because

REFUSALS = (
    *because(
        "a mistake of the caller is a 4xx that says so, not a 500 with a reference to a log",
        "* file.list missing.status value",
        "* file.list outside.status value",
        "* file.read outside.status value",
        "* find.text bad pattern.status value",
        "* session.share.status value",
        "* session.command unknown.status value",
        "* session.get bad id.status value",
        "* session.messages bad id.status value",
        "* session.prompt unknown agent.status value",
        "* session.prompt unknown model.status value",
        "* session.prompt unknown provider.status value",
        "* provider.oauth.*.status value",
    ),
    *because(
        "what is not there is a 404, not an empty answer or silence",
        "* project.directories unknown.status value",
        "* file.read missing.status value",
        "* session.create child of nobody.status value",
        "* session.fork unknown message.status value",
        "* session.revert unknown message.status value",
        "* session.deleteMessage unknown.status value",
        "* session.diff unknown session.status value",
        "* experimental.session.background unknown.status value",
    ),
    *because(
        "an id that cannot be one is a 404, as any other that is not there",
        "* permission.reply bad id.status value",
        "* session.message bad message id.status value",
    ),
    *because(
        "the same answer again to a permission is the same `true`: who lost the first one may ask again",
        "* permission.respond again.status value",
    ),
    *because(
        "a field that has an obvious value may be left out",
        "* session.shell no agent.status value",
        "* session.command no arguments.status value",
    ),
    *because(
        "keys of providers and settings do not come over HTTP: files and variables hold them",
        "* auth.set.status value",
        "* auth.remove.status value",
        "* config.update.status value",
    ),
    *because("texts of refusals are ours", "*.body.data.message value", "*.body.message value"),
    *because(
        "a refusal with a _tag has name and data, too, for clients that read those",
        "*.body.name added",
        "*.body.data added",
    ),
)
CATALOG = (
    *because("our agents have their own prompts and rules", "* app.agents.body.*"),
    *because("our tools have their own parameters and texts", "* tool.list.body.*", "* tool.ids.body length"),
    *because("commands that come with us have our texts", "* command.list.body.*"),
    *because(
        "keys are not shown",
        "*.options.apiKey missing",
        "* config.get.body.provider.stage.options.apiKey value",
    ),
    *because("settings that change nothing here are not shown", "*config.get.body.* missing"),
    *because("defaults are shown", "*config.get.body.* added"),
    *because(
        "of a model that the configuration describes in part, the rest is what a request would get",
        "*.stage.models.*.api.url value",
        "*.stage.models.*.family missing",
        "*.stage.models.*.capabilities.* value",
        "*.stage.models.*.cost.cache.* value",
    ),
    *because("the configured model is the default one", "*.body.default.stage value"),
    *because("our files lie elsewhere", "* path.get*.body.state value", "* path.get*.body.config value"),
    *because(
        "a folder without git is a project of its own, not one with all others",
        "* project.current no git.body.id value",
        "* no git.body.worktree value",
        "* path.get no folder.body.worktree value",
    ),
    *because("what is not known is left out", "* vcs.get no git.body.* missing"),
)
FILES = (
    *because(
        "OpenCode searches with a ripgrep that it downloads; ours is built in",
        "* find.text.status value",
        "* find.text nothing.status value",
        "* find.text.body*",
        sometimes=True,
    ),
    *because(
        "only names that have the query in them are found, letters in order", "* find.files.body length"
    ),
    *because("a file is told as it is, with its last line break", "* file.read.body.content value"),
    *because("files that git does not know yet are told", "v2 file.status.body length"),
    *because("a new file without lines has no patch", "v2 vcs.diff*.body*"),
    *because("patches are not applied for clients", "* vcs.apply *.status value"),
    *because("nobody runs `init` for a project", "* project.list.body*.time.initialized missing"),
    *because("a folder without git is no project until a session is there", "v2 project.list.body length"),
    *because("no skill comes with us", "v2 app.skills.body length"),
    *because(
        "copies of a project in other places are not offered",
        "* experimental.workspace.adapter.list.body length",
    ),
)
SESSIONS = (
    *because("a session says a variant only if one was chosen", "*.model.variant missing"),
    *because("a session in which no file was changed has no summary", "*.summary missing"),
    *because(
        "a fork goes on with the agent and the model it had",
        "* session.fork*.body.agent added",
        "* session.fork*.body.model added",
    ),
    *because(
        "what was spent on steps that were taken back was spent",
        "* session.get after revert.body.cost value",
        "* session.get after revert.body.tokens.* value",
    ),
    *because(
        "the summary of a session is that of its files as they are",
        "* session.get after revert.body.summary.* value",
    ),
    *because("a revert says how far it reaches: what comes later is kept", "*.revert.through added"),
    *because("the diff of a session is all that it changed", "* session.diff.body length"),
    *because("a child may not write its parent's todos", "* session.children task.body*.permission length"),
    *because(
        "links to the next page have the same parts in another order",
        "* session.messages next page.link value",
    ),
    *because(
        "an abort takes back what was asked for",
        "* permission.list after abort.body length",
        "* events aborted at a permission.story length",
    ),
)
STEPS = (
    *because(
        "snapshots lie in a repository of our own, and parts do not name them", "*.parts*.snapshot missing"
    ),
    *because("every step that began has an end, with its reason", "*.parts length", "*.info.finish added"),
    *because(
        "a step that was aborted or refused is counted and paid as far as it came",
        "*.info.cost value",
        "*.info.tokens.* value",
        "*.info.tokens.total added",
    ),
    *because(
        "what tools say to the model is ours",
        "*.state.output value",
        "*.state.title value",
        "*.state.error value",
        "*.parts*.text value",
    ),
    *because(
        "metadata of our tools",
        "*.state.metadata.* added",
        "*.state.metadata.* missing",
        "*.state.metadata.* value",
        "*.state.metadata.* type",
        "*.state.metadata missing",
    ),
    *because(
        "reasoning keeps what its provider wants to see again",
        "* session.prompt reasoning.body.parts*.metadata added",
    ),
    *because(
        "a command that was aborted has failed",
        "* session.prompt aborted tool.body.parts[tool].state.* missing",
        "* session.prompt aborted tool.body.parts[tool].state.error added",
    ),
    *because(
        "a tool that is not there is an error for the model, not a call of a tool called invalid",
        "* events unknown tool.story[*] value",
    ),
    *because("an open todo is brought to mind before an agent rests", "* events todos.story length"),
    *because("todos have ids", "*todo*.id added"),
    *because("a doom loop names the call that it stops", "* permission of a doom loop.body.tool added"),
    *because(
        "a refusal ends the turn, it is no error of the session",
        "* session.prompt the same three times.body.info.error missing",
    ),
    *because(
        "an abort during a wait for the provider leaves an error",
        "* session.prompt aborted retry.body.info.error added",
    ),
    *because(
        "a stream without an end is a failure of the provider, and is tried again after a wait",
        "* a stream without finish.body.endless value",
    ),
)
PROVIDER = (
    *because(
        "a provider's failure says who failed and how",
        "*.info.error.data.message value",
        "*.status*.message value",
    ),
    *because(
        "401 and 403 of a provider are ProviderAuthError",
        "*.info.error.name value",
        "*.info.error.data.* missing",
        "*.info.error.data.providerID added",
    ),
    *because("a step that did not fit keeps its error; the summary follows", "* session.messages overflow.*"),
    *because(
        "summaries keep the last messages as they are", "* session.messages summarized.*tail_start_id added"
    ),
)
EVENTS = (
    *because(
        "events of ours, which other clients ignore",
        "* event prompt.answered added",
        "* event task.* added",
        "* event message.part.updated retry added",
    ),
    *because("messages with errors that only we tell so", "* event message.updated assistant done *Error *"),
    *because(
        "OpenCode's own: plugins, catalogs, and the diff after every step",
        "* event plugin.added missing",
        "* event *.updated missing",
        "* event session.diff missing",
    ),
    *because("a delta says where it belongs", "* event message.part.delta.body.properties.offset added"),
    *because(
        "a call has its arguments from the first",
        "* event message.part.updated tool pending.body.properties.part.state.input.* added",
    ),
    *because("a stream says now and then that it is alive", "* event server.heartbeat *", sometimes=True),
)
KNOWN = (*REFUSALS, *CATALOG, *FILES, *SESSIONS, *STEPS, *PROVIDER, *EVENTS)
