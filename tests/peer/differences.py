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
        "a caller whose prompt is answered gets that answer, not the reply to a prompt that came later",
        "* queued.body.same value",
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
    *because(
        "every refusal has a name and data.message, too; OpenCode has several forms",
        "* mcp.*.body.*",
        "v1 auth.remove.body.*",
        "* project.update unknown.body.*",
        "* provider.oauth.callback.body.*",
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
        "*config.get.body.provider.stage.options.apiKey value",
    ),
    *because("settings that change nothing here are not shown", "*config.get.body.* missing"),
    *because("defaults are shown", "*config.get.body.* added"),
    *because(
        "of a model that the configuration describes in part, the rest is what a request would get",
        "*.stage.models.*.api.url value",
        "*.stage.models.*.capabilities.* value",
        "*.stage.models.*.cost.cache.* value",
    ),
    *because("the configured model is the default one", "*.body.default.stage value"),
    *because("our files lie elsewhere", "* path.get*.body.state value", "* path.get*.body.config value"),
    *because(
        "a folder without git is a project of its own, not one with all others",
        "* project.current no git.body.id value",
        "* project.initGit.body.id value",
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
    *because(
        "a session in which no file was changed has no summary, nor has a prompt",
        "* session.get used.body.summary missing",
        "* session.get after revert.body.summary missing",
        "* session.children task.body[0].summary missing",
        "* experimental.session.list.body[0].summary missing",
        "* session.messages after revert.body[3].info.summary missing",
    ),
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
        "a child says what its parent could do when it was launched: it may never do more",
        "*.launchRights added",
    ),
    *because(
        "an answer `always` covers what was shown, not every use of a program",
        "* event permission.asked*.always[*] value",
        "* permission.list*.always[*] value",
    ),
    *because("a revert says how far it reaches: what comes later is kept", "*.revert.through added"),
    *because("the diff of a session is all that it changed", "* session.diff.body length"),
    *because(
        "patches are git's own",
        "* session.diff of a message.body[*].patch value",
        "*.info.summary.diffs[*].patch value",
    ),
    *because("a child may not write its parent's todos", "* session.children task.body[0].permission length"),
    *because("parts of a link come in another order", "* session.messages *.link value", sometimes=True),
    *because(
        "an abort takes back what was asked for",
        "* permission.list after abort.body length",
        "* events aborted at a permission.story length",
    ),
)
STEPS = (
    *because(
        "snapshots lie in a repository of our own, and steps do not name them", "*.parts[*].snapshot missing"
    ),
    *because(
        "every step that began has an end with a reason, and is paid as far as it came",
        *(f"* session.prompt {name}.body.parts length" for name in ("400", "401", "403", "aborted retry")),
        "* session.prompt aborted tool.body.parts length",
        "* session.prompt aborted at a permission.body.parts length",
        "*.info.finish added",
        "* session.prompt aborted *.body.info.cost value",
        "* session.prompt aborted *.body.info.tokens.* value",
        "* session.prompt aborted *.body.info.tokens.total added",
    ),
    *because(
        "what tools and people's commands say to the model is ours",
        "*.state.output value",
        "*.state.title value",
        "*.state.error value",
        "* session.messages shell.body[0].parts[0].text value",
    ),
    *because(
        "metadata of our tools",
        "*.state.metadata.* added",
        "*.state.metadata.* missing",
        "*.state.metadata.diff value",
        "*.state.metadata missing",
    ),
    *because(
        "reasoning keeps what its provider wants to see again",
        "* session.prompt reasoning.body.parts[*].metadata added",
    ),
    *because(
        "a command that was aborted has failed",
        "* session.prompt aborted tool.body.parts[tool].state.* missing",
        "* session.prompt aborted tool.body.parts[tool].state.error added",
    ),
    *because(
        "blanks at the end of an unfinished text are not kept",
        "* session.prompt aborted.body.parts[1].text value",
    ),
    *because(
        "a tool that is not there is an error, not a call of a tool called invalid",
        "* events unknown tool.story[*] value",
    ),
    *because(
        "an agent that would rest with open todos is reminded of them once",
        "* events todos.story length",
        "* session.prompt todos.body.parts[1].text value",
    ),
    *because(
        "todos have ids",
        "* session.todo.body[*].id added",
        "* event todo.updated.body.properties.todos[*].id added",
    ),
    *because("a doom loop names the call that it stops", "* permission of a doom loop.body.tool added"),
    *because(
        "a refusal ends the turn and is no error; in OpenCode the other calls race with it",
        "* session.prompt the same three times.body.*",
    ),
)
PROVIDER = (
    *because(
        "a provider's failure says who failed and how",
        "*.info.error.data.message value",
        "* session.status of one that retries.body.message value",
        "* event session.status retry.body.properties.status.message value",
    ),
    *because(
        "401 and 403 of a provider are ProviderAuthError",
        "* session.prompt 40*.body.info.error.name value",
        "* session.prompt 40*.body.info.error.data.* missing",
        "* session.prompt 40*.body.info.error.data.providerID added",
    ),
    *because(
        "of a provider's headers those are kept that say something about the failure",
        "* event message.updated assistant done APIError.*.responseHeaders.* missing",
    ),
    *because(
        "each attempt leaves a part",
        "* session.prompt 429.body.parts length",
        "* session.prompt 500.body.parts length",
    ),
    *because(
        "an abort during a wait for the provider leaves an error",
        "* session.prompt aborted retry.body.info.error added",
    ),
    *because(
        "a stream that breaks off is a failure of the provider: tried again after a wait, not for ever",
        "* a stream that breaks off.body.endless value",
    ),
    *because(
        "it depends on how far each came when it was stopped",
        "* session.prompt broken off.body.*",
        sometimes=True,
    ),
    *because(
        "a step that did not fit keeps its error; the prompt stays behind the summary and is not told again",
        "* session.messages overflow.*",
        "* session.prompt overflow.body.parts[1].text value",
        "* events overflow.story length",
    ),
    *because(
        "summaries keep the last messages as they are, and say so",
        "* session.messages summarized.body[*].parts length",
        "* session.messages summarized.body[*].parts[compaction].tail_start_id added",
    ),
)
EVENTS = (
    *because(
        "events of ours, which other clients ignore",
        "* event prompt.answered added",
        "* event task.* added",
        "* event message.part.updated retry added",
    ),
    *because(
        "messages with errors that only one of both tells so",
        "* event message.updated assistant done *Error *",
    ),
    *because(
        "OpenCode's own: plugins, catalogs, and the diff after every step",
        "v1 event plugin.added missing",
        "v1 event *.updated missing",
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
