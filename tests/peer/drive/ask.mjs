// Permissions and questions: what waits for a person, and what becomes of the answer.
import { play, said, tool } from "./talk.mjs"

const asked = (command) =>
  play({ tools: [tool("bash", { command, description: "Make a file" })] }, { text: "Done." })

// A prompt that stops at a question; `answer` replies to it.
async function stopped(stage, name, text, type, answer) {
  const { id } = await stage.session()
  const from = stage.now
  const prompt = stage.answer("session.prompt", { sessionID: id, parts: said(text) }, name)
  const { properties } = await stage.until(
    (event) => event.type === type && event.properties.sessionID === id,
    from,
    type,
  )
  await answer(properties, id)
  await prompt
  await stage.idle(id, from)
  stage.keep(`events ${name}`, {
    story: stage
      .of(id, from)
      .map((event) => event.type)
      .filter((kind) => /^(permission|question|session\.(idle|error))/.test(kind)),
  })
  return id
}

const permission = (stage, name, command, answer) =>
  stopped(stage, name, asked(command), "permission.asked", answer)

async function once(stage) {
  await permission(stage, "allowed once", "touch asked-once", async ({ id }, sessionID) => {
    await stage.call("permission.list")
    await stage.call("session.status", {}, "asking")
    await stage.call(
      "permission.respond",
      { sessionID, permissionID: id, response: "sometimes" },
      "bad answer",
    )
    await stage.call("permission.respond", { sessionID, permissionID: id, response: "once" })
    await stage.call("permission.respond", { sessionID, permissionID: id, response: "once" }, "again")
  })
}

async function refused(stage) {
  const refuse = (name, more) => (request) =>
    stage.call("permission.reply", { requestID: request.id, reply: "reject", ...more }, name)
  await permission(stage, "refused", "touch asked-no", refuse("reject"))
  await permission(
    stage,
    "refused with a reason",
    "touch asked-why",
    refuse("reject with a reason", { message: "Not here." }),
  )
}

// Comes last: from then on this command runs unasked. OpenCode also lets other files be touched, we do not.
async function always(stage) {
  const allow = ({ id }) => stage.call("permission.reply", { requestID: id, reply: "always" }, "always")
  await permission(stage, "allowed always", "touch asked-always", allow)
  await stage.turn("after always", asked("touch asked-always"))
}

async function unknown(stage) {
  const { id } = await stage.session()
  await stage.call(
    "permission.respond",
    { sessionID: id, permissionID: "per_nobody", response: "once" },
    "unknown",
  )
  await stage.call("permission.reply", { requestID: "per_nobody", reply: "once" }, "unknown")
  await stage.call("permission.reply", { requestID: "nobody", reply: "once" }, "bad id")
  await stage.call("question.reply", { requestID: "que_nobody", answers: [["A"]] }, "unknown")
  await stage.call("question.reject", { requestID: "que_nobody" }, "unknown")
}

async function abortedAsk(stage) {
  await permission(stage, "aborted at a permission", "touch asked-abort", (_, sessionID) =>
    stage.call("session.abort", { sessionID }, "asking"),
  )
  await stage.call("permission.list", {}, "after abort")
}

const questions = [
  {
    question: "Which one?",
    header: "Choice",
    options: [
      { label: "A", description: "The first." },
      { label: "B", description: "The second." },
    ],
  },
]
const question = play({ tools: [tool("question", { questions })] }, { text: "Thanks." })

async function answered(stage) {
  if (!stage.has("question.reply")) return
  await stopped(stage, "question", question, "question.asked", async ({ id }) => {
    await stage.call("question.list")
    await stage.call("question.reply", { requestID: id }, "no answers")
    await stage.call("question.reply", { requestID: id, answers: [["A"]] })
  })
  await stopped(stage, "question rejected", question, "question.asked", ({ id }) =>
    stage.call("question.reject", { requestID: id }),
  )
}

export const ask = [once, unknown, answered]
export const askOnce = [abortedAsk, refused, always]
