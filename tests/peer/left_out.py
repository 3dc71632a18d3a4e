"""Methods of the SDK that are not driven, each with its reason."""

_TWICE = "one class of the SDK serves mcp.auth and auth: this method has a route under the other name only"
_COPIES = (
    "OpenCode's copies of a project in other places: an experiment, with git worktrees and a paid service"
)

LEFT_OUT = {
    "v1": {
        "auth.authenticate": _TWICE,
        "auth.callback": _TWICE,
        "auth.start": _TWICE,
        "mcp.auth.set": _TWICE,
    },
    "v2": {
        "experimental.console.switchOrg": "an account with OpenCode's makers is needed",
        "experimental.controlPlane.moveSession": _COPIES,
        "experimental.projectCopy.generateName": _COPIES,
        "experimental.workspace.create": _COPIES,
        "experimental.workspace.remove": _COPIES,
        "experimental.workspace.syncList": _COPIES,
        "experimental.workspace.warp": _COPIES,
        "global.config.update": "it rewrites the configuration that both servers stand on",
        "global.dispose": "every other stream of the run would end with it; instance.dispose is driven",
        "global.upgrade": "it installs another version of OpenCode",
    },
}
