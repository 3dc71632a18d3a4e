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
KNOWN = (*REFUSALS, *CATALOG)
