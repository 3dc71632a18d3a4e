// What was said can be paged, forked, taken back, changed and summarised.
import { play, said, tool } from "./talk.mjs"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"

async function talked(stage, count) {
  const { id } = await stage.session()
  for (let number = 1; number <= count; number++) {
    await stage.say(id, play({ text: `Answer ${number}.` }))
  }
  return id
}

async function paging(stage) {
  const sessionID = await talked(stage, 3)
  const first = await stage.answer("session.messages", { sessionID, limit: 2 }, "limit")
  const before = first.headers?.get("x-next-cursor") ?? undefined
  await stage.call("session.messages", { sessionID, limit: 3, before }, "next page")
  await stage.call("session.messages", { sessionID, limit: 100 }, "all at once")
  await stage.call("session.messages", { sessionID, before }, "before without limit")
  await stage.call("session.messages", { sessionID, limit: 2, before: "nonsense" }, "bad cursor")
  await stage.call("session.messages", { sessionID, limit: -1 }, "bad limit")
}

async function forking(stage) {
  const sessionID = await talked(stage, 2)
  const messages = (await stage.caller.ask("session.messages", { sessionID })).body
  const whole = await stage.call("session.fork", { sessionID })
  await stage.call("session.messages", { sessionID: whole?.id }, "forked")
  const part = await stage.call(
    "session.fork",
    { sessionID, messageID: messages?.[2]?.info.id },
    "before a message",
  )
  await stage.call("session.messages", { sessionID: part?.id }, "forked before a message")
  await stage.call("session.fork", { sessionID: whole?.id }, "of a fork")
  await stage.call("session.fork", { sessionID, messageID: "msg_nobody" }, "unknown message")
  await stage.turn("in a fork", play({ text: "Going on." }), { session: { id: whole?.id } })
}

async function changing(stage) {
  if (!stage.has("part.update")) return
  const sessionID = await talked(stage, 2)
  const messages = (await stage.caller.ask("session.messages", { sessionID })).body ?? []
  const [{ info, parts }] = messages
  const ids = { sessionID, messageID: info.id, partID: parts[0].id }
  await stage.call("part.update", { ...ids, part: { ...parts[0], text: "Said otherwise." } })
  await stage.call("part.update", { ...ids, partID: "prt_other", part: parts[0] }, "other id")
  const from = stage.now
  await stage.call("part.delete", ids)
  await stage.call("session.deleteMessage", { sessionID, messageID: messages.at(-1).info.id })
  await stage.until((event) => event.type === "message.removed", from, "removed")
  await stage.call("session.deleteMessage", { sessionID, messageID: "msg_nobody" }, "unknown")
  await stage.call("session.messages", { sessionID }, "changed")
}

// Files are remembered there alone.
const reverting = (stage, { other }) => stage.at(other, (there) => reverted(there, other))

async function reverted(stage, project) {
  const file = join(project, `made-by-${stage.caller.version}.txt`)
  const { id } = await stage.session()
  const write = (content) =>
    play({ tools: [tool("write", { filePath: file, content })] }, { text: "Written." })
  await stage.turn("write", write("first\n"), { session: { id } })
  await stage.turn(
    "write again",
    play(
      { tools: [tool("edit", { filePath: file, oldString: "first", newString: "second" })] },
      { text: "Edited." },
    ),
    { session: { id } },
  )
  await stage.call("session.diff", { sessionID: id })
  const messages = (await stage.caller.ask("session.messages", { sessionID: id })).body ?? []
  const prompts = messages.filter(({ info }) => info.role === "user").map(({ info }) => info.id)
  await stage.call("session.diff", { sessionID: id, messageID: prompts[0] }, "of a message")
  const now = () => (existsSync(file) ? readFileSync(file, "utf8") : null)
  const story = [now()]
  await stage.call("session.revert", { sessionID: id, messageID: prompts[1] })
  story.push(now())
  await stage.call("session.revert", { sessionID: id, messageID: prompts[0] }, "further")
  story.push(now())
  await stage.call("session.messages", { sessionID: id }, "reverted")
  await stage.call("session.unrevert", { sessionID: id })
  story.push(now())
  await stage.call("session.unrevert", { sessionID: id }, "again")
  await stage.call("session.revert", { sessionID: id, messageID: "msg_nobody" }, "unknown message")
  await stage.call("session.revert", { sessionID: id, messageID: prompts[1] }, "for good")
  await stage.turn("after revert", play({ text: "Another way." }), { session: { id } })
  await stage.call("session.messages", { sessionID: id }, "after revert")
  await stage.call("session.get", { sessionID: id }, "after revert")
  stage.keep("files of a revert", { body: [...story, now()] })
}

async function summarizing(stage) {
  const sessionID = await talked(stage, 2)
  const from = stage.now
  await stage.call("session.summarize", { sessionID, providerID: "stage", modelID: "m" })
  await stage.until(
    (event) => event.type === "session.compacted" && event.properties.sessionID === sessionID,
    from,
    "compacted",
  )
  await stage.idle(sessionID, from)
  await stage.call("session.messages", { sessionID }, "summarized")
  await stage.turn("after a summary", play({ text: "Going on." }), { session: { id: sessionID } })
}

async function behind(stage) {
  if (!stage.has("experimental.session.background")) return
  const task = {
    description: "Take time",
    prompt: play({ text: "Took time.", chunks: 3, gap: 1.5 }),
    subagent_type: "general",
  }
  const { id } = await stage.session()
  const from = stage.now
  const prompt = stage.answer(
    "session.prompt",
    { sessionID: id, parts: said(play({ tools: [tool("task", task)] }, { text: "Went on." })) },
    "sent to the background",
  )
  await stage.until(
    ({ type, properties: { info } }) => type === "session.created" && info.parentID === id,
    from,
    "child",
  )
  await stage.until(
    ({ type, properties: { part } }) =>
      type === "message.part.updated" && part.sessionID === id && part.state?.metadata?.sessionId,
    from,
    "task with a session",
  )
  await stage.call("experimental.session.background", { sessionID: id })
  await prompt
  await stage.call("experimental.session.background", { sessionID: "ses_nobody" }, "unknown")
  await stage.call("experimental.session.list", { limit: 1, roots: true })
}

export const history = [paging, forking, changing, reverting, summarizing, behind]
