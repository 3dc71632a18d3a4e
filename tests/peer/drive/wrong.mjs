// What goes wrong: with ids and bodies that cannot be, while a session works, and at the provider.
import { play, said, tool } from "./talk.mjs"

const GONE = "ses_ffffffffffffffffffffffffff"

async function missing(stage) {
  const sessionID = GONE
  const parts = said("Anybody?")
  for (const method of [
    "get",
    "children",
    "todo",
    "diff",
    "messages",
    "fork",
    "abort",
    "unrevert",
    "delete",
  ]) {
    await stage.call(`session.${method}`, { sessionID }, "unknown session")
  }
  await stage.call("session.update", { sessionID, title: "x" }, "unknown session")
  await stage.call("session.prompt", { sessionID, parts }, "unknown session")
  await stage.call("session.promptAsync", { sessionID, parts }, "unknown session")
  await stage.call("session.command", { sessionID, command: "greet", arguments: "" }, "unknown session")
  await stage.call("session.shell", { sessionID, agent: "build", command: "true" }, "unknown session")
  await stage.call("session.revert", { sessionID, messageID: "msg_nobody" }, "unknown session")
  await stage.call("session.summarize", { sessionID, providerID: "stage", modelID: "m" }, "unknown session")
  await stage.call("session.message", { sessionID, messageID: "msg_nobody" }, "unknown session")
  const { id } = await stage.session()
  await stage.call("session.message", { sessionID: id, messageID: "msg_nobody" }, "unknown message")
}

async function bad(stage) {
  const { id } = await stage.session()
  await stage.call("session.get", { sessionID: "nobody" }, "bad id")
  await stage.call("session.messages", { sessionID: "nobody" }, "bad id")
  await stage.call("session.message", { sessionID: id, messageID: "nobody" }, "bad message id")
  await stage.call("session.prompt", { sessionID: id }, "no parts")
  await stage.call("session.prompt", { sessionID: id, parts: [{ type: "text" }] }, "no text")
  await stage.call("session.prompt", { sessionID: id, parts: [{ type: "poem", text: "x" }] }, "unknown part")
  await stage.call("session.prompt", { sessionID: id, parts: said("x"), noReply: "maybe" }, "bad noReply")
  await stage.call("session.prompt", { sessionID: id, parts: said("x"), agent: "nobody" }, "unknown agent")
  const poor = await stage.session()
  await stage.call(
    "session.prompt",
    { sessionID: poor.id, parts: said("x"), model: { providerID: "stage", modelID: "nobody" } },
    "unknown model",
  )
  await stage.call(
    "session.prompt",
    {
      sessionID: poor.id,
      parts: said(play({ text: "Fine." })),
      model: { providerID: "stage", modelID: "m" },
    },
    "after an unknown model",
  )
  await stage.call(
    "session.prompt",
    { sessionID: id, parts: said("x"), model: { providerID: "nobody", modelID: "m" } },
    "unknown provider",
  )
  await stage.call("session.create", { title: 5 }, "bad title")
  await stage.call("session.update", { sessionID: id, title: 5 }, "bad title")
  await stage.call("session.shell", { sessionID: id, command: "true" }, "no agent")
  await stage.call("session.command", { sessionID: id, command: "greet" }, "no arguments")
  await stage.call("session.revert", { sessionID: id }, "no message")
  await stage.call("session.summarize", { sessionID: id }, "no model")
  await stage.call("session.init", { sessionID: id }, "no model")
}

async function busy(stage) {
  const { id } = await stage.session()
  await stage.say(id, "First.")
  const from = stage.now
  const sessionID = id
  const asked = stage.caller.ask("session.prompt", {
    sessionID,
    parts: said(play({ text: "A b c d", chunks: 4, hang_at: 700 })),
  })
  await stage.until(
    (event) => event.type === "message.part.delta" && event.properties.sessionID === id,
    from,
    "delta",
  )
  const messages = (await stage.caller.ask("session.messages", { sessionID })).body ?? []
  await stage.call("session.shell", { sessionID, agent: "build", command: "true" }, "busy")
  await stage.call("session.revert", { sessionID, messageID: messages[0]?.info.id }, "busy")
  await stage.call("session.unrevert", { sessionID }, "busy")
  await stage.call("session.deleteMessage", { sessionID, messageID: messages[0]?.info.id }, "busy")
  await stage.caller.ask("session.abort", { sessionID })
  await asked
}

const fails = (stage, name, step, more = {}) =>
  stage.turn(name, `${stage.caller.version} ` + play(...[].concat(step)), more)

async function provider(stage) {
  await fails(stage, "400", {
    status: 400,
    error: "That is not how it works.",
    error_type: "invalid_request_error",
  })
  await fails(stage, "401", { status: 401, error: "Who are you?" })
  await fails(stage, "403", { status: 403, error: "Not you." })
  const full = {
    status: 400,
    error: "This model's maximum context length is 8000 tokens.",
    error_code: "context_length_exceeded",
    times: 1,
  }
  const { id } = await stage.session()
  for (const text of ["One.", "Two."]) await stage.say(id, text)
  await fails(stage, "overflow", [full, { text: "It fits now." }], { session: { id } })
  await stage.call("session.messages", { sessionID: id }, "overflow")
  await fails(stage, "length", { text: "Cut sho", finish: "length" })
  await fails(stage, "content filter", { text: "I sh", finish: "content-filter" })
}

async function retried(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const turn = fails(
    stage,
    "429",
    [
      { status: 429, headers: { "retry-after-ms": "400" }, error: "Slow down.", times: 1 },
      { text: "At last." },
    ],
    { session: { id } },
  )
  await stage.until(
    (event) =>
      event.type === "session.status" &&
      event.properties.sessionID === id &&
      event.properties.status.type === "retry",
    from,
    "retry",
  )
  await stage.caller
    .ask("session.status")
    .then(({ body }) => stage.keep("session.status of one that retries", { body: body?.[id] }))
  await turn
  await fails(stage, "500", [
    { status: 500, headers: { "retry-after-ms": "20" }, error: "Oh no.", times: 1 },
    { text: "At last." },
  ])
}

async function abortedRetry(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const text =
    `${stage.caller.version} ` + play({ status: 503, headers: { "retry-after": "60" }, error: "Come back." })
  const asked = stage.answer("session.prompt", { sessionID: id, parts: said(text) }, "aborted retry")
  await stage.until(
    (event) =>
      event.type === "session.status" &&
      event.properties.sessionID === id &&
      event.properties.status.type === "retry",
    from,
    "retry",
  )
  await stage.caller.ask("session.abort", { sessionID: id })
  await asked
}

// OpenCode asks again at once, without an end: it is stopped at the third time. Others take it for a failure.
async function cut(stage) {
  const { id } = await stage.session()
  const from = stage.now
  const text = `${stage.caller.version} ` + play(...Array(9).fill({ text: "Half a sen", finish: null }))
  const asked = stage.answer("session.prompt", { sessionID: id, parts: said(text) }, "broken off")
  const steps = new Set()
  const over = ({ type, properties: { sessionID, info, status } }) => {
    if (sessionID !== id) return false
    if (type === "message.updated" && info.role === "assistant") steps.add(info.id)
    return type === "session.idle" || status?.type === "retry" || steps.size > 2
  }
  await stage.until(over, from, "broken off")
  stage.keep("a stream that breaks off", { body: { endless: steps.size > 2 } })
  await stage.caller.ask("session.abort", { sessionID: id })
  await asked
}

async function loops(stage) {
  const same = tool("bash", { command: "true", description: "Nothing" })
  const { id } = await stage.session()
  const from = stage.now
  const prompt = stage.answer(
    "session.prompt",
    { sessionID: id, parts: said(play({ tools: [same, same, same] }, { text: "Done." })) },
    "the same three times",
  )
  const { properties } = await stage.until(
    (event) => event.type === "permission.asked" && event.properties.sessionID === id,
    from,
    "doom loop",
  )
  stage.keep("permission of a doom loop", { body: properties })
  await stage.caller.ask("permission.respond", {
    sessionID: id,
    permissionID: properties.id,
    response: "reject",
  })
  await prompt
}

export const wrong = [missing, bad]
export const wrongOnce = [busy, provider, retried, abortedRetry, cut, loops]
