// What can be read of a server, its projects and their files; and the little that can be written there.

async function server(stage) {
  const again = (method, given, name) => stage.call(method, given, name)
  await again("global.health")
  await again("path.get")
  const current = await again("project.current")
  await again("project.list")
  await again("project.directories", { projectID: current?.id })
  await again("project.directories", { projectID: "nobody" }, "unknown")
  await again("app.agents")
  await again("app.skills")
  await again("app.log", { service: "drive", level: "info", message: "hello", extra: { a: 1 } })
  await again("app.log", { service: "drive", level: "loud", message: "hello" }, "bad level")
  await again("config.get")
  await again("config.providers")
  await again("global.config.get")
  await again("provider.list")
  await again("provider.auth")
  await again("command.list")
  await again("tool.ids")
  await again("tool.list", { provider: "stage", model: "m" })
  await again("tool.list", { provider: "stage" }, "no model")
  await again("lsp.status")
  await again("formatter.status")
  await again("permission.list", {}, "none")
  await again("question.list", {}, "none")
  await again("experimental.capabilities.get")
  await again("experimental.console.get")
  await again("experimental.console.listOrgs")
  await again("experimental.workspace.adapter.list")
  await again("experimental.resource.list")
  await again("experimental.workspace.list")
  await again("experimental.workspace.status")
}

async function files(stage) {
  await stage.call("file.list", { path: "" })
  await stage.call("file.list", { path: "src" }, "folder")
  await stage.call("file.list", { path: "nowhere" }, "missing")
  await stage.call("file.list", { path: "../.." }, "outside")
  await stage.call("file.read", { path: "src/app.py" })
  await stage.call("file.read", { path: "nowhere.txt" }, "missing")
  await stage.call("file.read", { path: "../../etc/passwd" }, "outside")
  await stage.call("file.read", {}, "no path")
  await stage.call("file.status")
  await stage.call("find.text", { pattern: "needle" })
  await stage.call("find.text", { pattern: "nothing like this" }, "nothing")
  await stage.call("find.text", { pattern: "(" }, "bad pattern")
  await stage.call("find.files", { query: "app" })
  await stage.call("find.files", { query: "src", type: "directory", limit: 5 }, "folders")
  await stage.call("find.files", { query: "zzzz" }, "nothing")
  await stage.call("find.symbols", { query: "main" })
}

async function vcs(stage) {
  await stage.call("vcs.get")
  await stage.call("vcs.status")
  await stage.call("vcs.diff", { mode: "git" })
  await stage.call("vcs.diff", { mode: "branch" }, "branch")
  await stage.call("vcs.diff", { mode: "sideways" }, "bad mode")
  await stage.call("vcs.diff2.raw")
}

async function mcp(stage) {
  await stage.call("mcp.status")
  await stage.call("mcp.connect", { name: "nobody" }, "unknown")
  await stage.call("mcp.disconnect", { name: "nobody" }, "unknown")
  await stage.call("mcp.auth.remove", { name: "nobody" }, "unknown")
  await stage.call("mcp.auth.start", { name: "nobody" }, "unknown")
  await stage.call("mcp.auth.callback", { name: "nobody", code: "x" }, "unknown")
  await stage.call("mcp.auth.authenticate", { name: "nobody" }, "unknown")
  await stage.call("mcp.add", { name: "bad" }, "no config")
  await stage.call(
    "mcp.add",
    { name: "gone", config: { type: "local", command: ["/nowhere/at/all"], enabled: false } },
    "off",
  )
}

// The same server, asked for several projects: each has its own answers.
async function places(stage, { other, plain }) {
  const there = stage.caller.elsewhere(other)
  const answer = (method, given, name) => stage.answer(method, given, name, there)
  await answer("path.get", {}, "elsewhere")
  await answer("project.current", {}, "elsewhere")
  const { body } = await answer("session.create", { title: "Elsewhere" }, "elsewhere")
  const mine = (await stage.caller.ask("session.list")).body ?? []
  const theirs = (await there.ask("session.list")).body ?? []
  stage.keep("session.list by directory", {
    body: {
      here: mine.some(({ id }) => id === body?.id),
      there: theirs.filter(({ id }) => id === body?.id).map(({ title }) => title),
    },
  })
  await stage.answer("session.get", { sessionID: body?.id }, "of elsewhere", stage.caller)
  const bare = stage.caller.elsewhere(plain)
  await stage.answer("project.current", {}, "no git", bare)
  await stage.answer("vcs.get", {}, "no git", bare)
  await stage.answer("path.get", {}, "no git", bare)
  await stage.answer("path.get", {}, "no folder", stage.caller.elsewhere("/nowhere/at/all"))
}

// What changes the server for everybody comes last, in another project.
async function changes(stage, { other, plain }) {
  const there = stage.caller.elsewhere(other)
  const answer = (method, given, name) => stage.answer(method, given, name, there)
  const { body } = await answer("project.current", {}, "before update")
  await answer("project.update", { projectID: body?.id, name: "Other name" })
  await answer("project.update", { projectID: "nobody", name: "x" }, "unknown")
  await answer("auth.set", { providerID: "stage", auth: { type: "api", key: "sk-new" } })
  await answer("auth.set", { providerID: "stage", auth: { type: "api" } }, "no key")
  await answer("auth.remove", { providerID: "stage" })
  await answer("provider.oauth.authorize", { providerID: "stage", method: 0 })
  await answer("provider.oauth.callback", { providerID: "stage", method: 0, code: "x" })
  await answer("config.update", { config: { username: "Somebody" } })
  await answer("vcs.apply", { patch: "" }, "empty")
  await answer("vcs.apply", { patch: "no patch at all" }, "nonsense")
  await answer("instance.dispose")
  await stage.answer("project.initGit", {}, "", stage.caller.elsewhere(plain))
}

// A stream of the whole server tells of every project, each event with its directory.
async function everywhere(stage, { other }) {
  const { stream, stop } = await stage.caller.events("global.event")
  const seen = []
  const reading = (async () => {
    for await (const { directory, payload } of stream) {
      seen.push({ directory, type: payload.type })
      if (payload.type === "session.created") return
    }
  })()
  // Again and again: OpenCode says that it is connected a little before it listens.
  const speaking = setInterval(
    () => stage.caller.elsewhere(other).ask("session.create", { title: "Heard" }),
    500,
  )
  await reading
  clearInterval(speaking)
  stop()
  const wanted = seen.filter(({ type }) => /^(server\.connected|session\.created)$/.test(type))
  stage.keep("global.event", { body: wanted.map((each) => (each.directory ? each : { type: each.type })) })
}

export const read = [server, files, vcs, mcp, places]
export const write = [everywhere, changes]
