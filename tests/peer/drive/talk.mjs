// Sessions and prompts: what a client does all day.

export const play = (...steps) => `Play. [[${JSON.stringify(steps.length === 1 ? steps[0] : { steps })}]]`
export const tool = (name, args) => ({ name, args })
export const said = (text) => [{ type: "text", text }]

async function plain(stage) {
  const { id } = await stage.session({})
  await stage.turn("without a title", play({ text: "Hello." }), { session: { id } })
  await stage.turn("plain", play({ text: "Hello there.", chunks: 3 }))
  await stage.turn("reasoning", play({ text: "So.", reasoning: "Let me think." }))
}

async function lives(stage) {
  const made = await stage.call("session.create", { title: "A first one" })
  const sessionID = made?.id
  await stage.call("session.create", {}, "empty")
  await stage.call("session.get", { sessionID })
  await stage.call("session.update", { sessionID, title: "A better title" })
  await stage.call("session.update", { sessionID, time: { archived: 1_700_000_000_000 } }, "archived")
  await stage.call("session.update", { sessionID, metadata: { mine: 1 } }, "metadata")
  await stage.call(
    "session.update",
    { sessionID, permission: [{ permission: "bash", pattern: "*", action: "ask" }] },
    "permission",
  )
  const child = await stage.call("session.create", { parentID: sessionID, title: "A child" }, "child")
  await stage.call("session.create", { parentID: "ses_nobody" }, "child of nobody")
  await stage.call(
    "session.create",
    { agent: "plan", model: { providerID: "stage", id: "other" }, metadata: { a: 1 } },
    "all fields",
  )
  await stage.call("session.children", { sessionID })
  await stage.call("session.children", { sessionID: child?.id }, "none")
  await stage.call("session.todo", { sessionID }, "none")
  await stage.call("session.diff", { sessionID }, "none")
  await stage.call("session.messages", { sessionID }, "none")
  await stage.call("session.status", {}, "idle")
  await stage.call("session.abort", { sessionID }, "idle")
  await stage.call("session.list", { search: "better" }, "search")
  await stage.call("session.list", { search: "A child", roots: true }, "roots")
  await stage.call("session.list", { start: Date.now() + 3_600_000 }, "start")
  await stage.call("session.list", { limit: 1 }, "limit")
  await stage.call("session.share", { sessionID })
  await stage.call("session.unshare", { sessionID })
  const from = stage.now
  await stage.call("session.delete", { sessionID })
  await stage.until(
    (event) => event.type === "session.deleted" && event.properties.sessionID === sessionID,
    from,
    "deleted",
  )
  await stage.call("session.get", { sessionID: child?.id }, "child of a deleted one")
  await stage.call("session.delete", { sessionID }, "again")
}

async function tools(stage, { project }) {
  const { id } = await stage.turn(
    "bash",
    play({ tools: [tool("bash", { command: "echo hi", description: "Say hi" })] }, { text: "It said hi." }),
  )
  await stage.call("session.messages", { sessionID: id }, "bash")
  await stage.turn(
    "read",
    play({ tools: [tool("read", { filePath: `${project}/README.md` })] }, { text: "Read." }),
  )
  const two = [
    tool("read", { filePath: `${project}/src/old.txt` }),
    tool("bash", { command: "echo two", description: "Say two" }),
  ]
  await stage.turn("two tools", play({ tools: two, text: "Looking." }, { text: "Found." }))
  await stage.turn(
    "failing tool",
    play({ tools: [tool("read", { filePath: `${project}/nowhere.txt` })] }, { text: "Not there." }),
  )
  await stage.turn(
    "unknown tool",
    play({ tools: [tool("no_such_tool", { a: 1 })] }, { text: "No such tool." }),
  )
  await stage.turn(
    "bad arguments",
    play({ tools: [tool("bash", { nonsense: true })] }, { text: "Wrong arguments." }),
  )
}

async function todos(stage) {
  const todos = [
    { content: "Begin", status: "completed", priority: "high" },
    { content: "End", status: "pending", priority: "low" },
  ]
  const { id } = await stage.turn(
    "todos",
    play({ tools: [tool("todowrite", { todos })] }, { text: "Planned." }),
  )
  await stage.call("session.todo", { sessionID: id })
}

async function delegated(stage) {
  const task = { description: "Look around", prompt: play({ text: "I looked." }), subagent_type: "general" }
  const { id } = await stage.turn("task", play({ tools: [tool("task", task)] }, { text: "It looked." }))
  const children = await stage.call("session.children", { sessionID: id }, "task")
  await stage.call("session.messages", { sessionID: children?.[0]?.id }, "of the child")
}

async function choices(stage) {
  const { id } = await stage.session()
  const sessionID = id
  await stage.call("session.prompt", { sessionID, noReply: true, parts: said("For later.") }, "noReply")
  await stage.turn("agent and model", play({ text: "Planned." }), {
    session: { id },
    agent: "plan",
    model: { providerID: "stage", modelID: "other" },
  })
  await stage.turn("system", play({ text: "Yes." }), { system: "Be brief." })
  await stage.turn("tools off", play({ text: "Yes." }), { tools: { bash: false } })
  const url = "data:text/plain;base64," + Buffer.from("a small file").toString("base64")
  const parts = [
    ...said(play({ text: "Seen." })),
    { type: "file", mime: "text/plain", filename: "small.txt", url },
  ]
  await stage.call("session.prompt", { sessionID: (await stage.session()).id, parts }, "file")
  await stage.call(
    "session.prompt",
    {
      sessionID: (await stage.session()).id,
      parts: [...said(play({ text: "Asked." })), { type: "agent", name: "general" }],
    },
    "agent part",
  )
  const own = { id: stage.ownID("msg"), part: stage.ownID("prt") }
  const mine = {
    sessionID: (await stage.session()).id,
    messageID: own.id,
    parts: [{ ...said("Mine.")[0], id: own.part }],
    noReply: true,
  }
  const kept = await stage.call("session.prompt", mine, "own ids")
  stage.keep("own ids", { body: { kept: kept?.info?.id === own.id && kept?.parts?.[0]?.id === own.part } })
}

async function later(stage) {
  const { id } = await stage.session()
  const from = stage.now
  await stage.call("session.promptAsync", {
    sessionID: id,
    parts: said(play({ text: "One two three.", chunks: 4 })),
  })
  await stage.until(
    (event) => event.type === "message.part.delta" && event.properties.sessionID === id,
    from,
    "delta",
  )
  await stage.idle(id, from)
  const messages = await stage.call("session.messages", { sessionID: id }, "async")
  await stage.call("session.message", { sessionID: id, messageID: messages?.at(-1)?.info.id })
  await stage.call("session.get", { sessionID: id }, "used")
}

// Two prompts while one is worked on are answered together.
async function queued(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const ask = (text) => stage.caller.ask("session.prompt", { sessionID: id, parts: said(text) })
  const first = ask(play({ text: "Slow.", chunks: 3, gap: 2 }))
  await stage.until(
    (event) => event.type === "message.part.delta" && event.properties.sessionID === id,
    from,
    "delta",
  )
  const rest = [ask("Second."), ask(play({ text: "All of them." }))]
  const all = await Promise.all([first, ...rest])
  stage.keep("queued", {
    body: {
      statuses: all.map(({ status }) => status),
      same: new Set(all.map(({ body }) => body?.info?.id)).size,
    },
  })
  await stage.idle(id, from)
  await stage.call("session.messages", { sessionID: id }, "queued")
}

async function aborted(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const asked = stage.answer(
    "session.prompt",
    { sessionID: id, parts: said(play({ text: "A b c d e f", chunks: 6, hang_at: 700 })) },
    "aborted",
  )
  await stage.until(
    (event) => event.type === "message.part.delta" && event.properties.sessionID === id,
    from,
    "delta",
  )
  await stage.call("session.status", {}, "busy")
  await stage.call("session.abort", { sessionID: id }, "streaming")
  await asked
  await stage.idle(id, from)
  stage.keep("events aborted", { story: ended(stage.of(id, from)) })
}

const ended = (events) =>
  events.map(({ type }) => type).filter((type) => /^session\.(error|idle)$/.test(type))

async function abortedTool(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const text = play(
    { tools: [tool("bash", { command: "sleep 60", description: "Wait" })] },
    { text: "Waited." },
  )
  const asked = stage.answer("session.prompt", { sessionID: id, parts: said(text) }, "aborted tool")
  await stage.until(
    ({ type, properties: { part } }) =>
      type === "message.part.updated" && part.sessionID === id && part.state?.status === "running",
    from,
    "running",
  )
  await stage.call("session.abort", { sessionID: id }, "tool")
  await asked
  await stage.idle(id, from)
}

async function shell(stage) {
  const { id } = await stage.session()
  const from = stage.now
  await stage.call("session.shell", { sessionID: id, agent: "build", command: "echo from the shell" })
  await stage.idle(id, from)
  await stage.call("session.messages", { sessionID: id }, "shell")
  await stage.call(
    "session.shell",
    { sessionID: (await stage.session()).id, agent: "build", command: "exit 3" },
    "failing",
  )
}

async function commands(stage) {
  const { id } = await stage.session()
  const from = stage.now
  await stage.call("session.command", {
    sessionID: id,
    command: "greet",
    arguments: play({ text: "Hello you." }),
  })
  await stage.until((event) => event.type === "command.executed", from, "command.executed")
  await stage.call("session.command", { sessionID: id, command: "no_such_command", arguments: "" }, "unknown")
  const init = (await stage.session()).id
  await stage.call("session.init", {
    sessionID: init,
    providerID: "stage",
    modelID: "m",
    messageID: stage.ownID("msg"),
  })
}

export const talk = [lives, plain, later, aborted, shell, commands]
export const talkOnce = [choices, tools, todos, delegated, queued, abortedTool]
