// node later.mjs '{"url": …, "token": …, "modules": …, "project": …, "ahead": ms}': a conversation by the published SDK under
// ids that are made as OpenCode makes them, by a clock that is ahead; what was said and what is read goes to stdout as JSON.
import { Caller, entry } from "./client.mjs"
import { play, tool } from "./talk.mjs"

const place = JSON.parse(process.argv[2])
let counter = 0

// As `Identifier.ascending` does it: 48 bits of time and counter, then what is random.
function made(prefix) {
  const now = BigInt(Date.now() + place.ahead) * 0x1000n + BigInt(++counter)
  return `${prefix}_${(now & 0xffffffffffffn).toString(16).padStart(12, "0")}${"Z".repeat(14)}`
}

async function driven(version) {
  const sdk = await entry(place.modules, version)
  const directory = version === "v1" ? undefined : place.project
  const caller = new Caller(version, sdk, { ...place, directory })
  const answered = async (method, given) => {
    const { status, body, thrown } = await caller.ask(method, given)
    if (status !== 200) throw new Error(`${method}: ${status} ${JSON.stringify(body)} ${thrown ?? ""}`)
    return body
  }
  const sessionID = (await answered("session.create", { title: version })).id
  const said = []
  const speak = async (text) => {
    const messageID = made("msg")
    const parts = [{ id: made("prt"), type: "text", text: play(...text) }]
    const answer = await answered("session.prompt", { sessionID, messageID, parts })
    const read = (await answered("session.messages", { sessionID })).map((each) => each.info)
    const steps = read.filter((each) => each.parentID === messageID).map((each) => each.id)
    said.push(messageID, ...steps)
    return { messageID, answer: answer.info.id, steps }
  }
  const first = await speak([{ text: "One." }])
  const bash = tool("bash", { command: "echo two", description: "Say two" })
  const second = await speak([{ tools: [bash] }, { text: "Two." }])
  const third = await speak([{ text: "Three." }])
  const ids = async (id) => (await answered("session.messages", { sessionID: id })).map((each) => each.info.id)
  const texts = async (id) =>
    (await answered("session.messages", { sessionID: id })).flatMap((each) =>
      each.info.role === "assistant" ? each.parts.filter((part) => part.type === "text").map((part) => part.text) : [],
    )
  const told = { sessionID, said: [...said], read: await ids(sessionID), prompts: [first, second, third] }
  const one = await answered("session.message", { sessionID, messageID: second.messageID })
  told.found = one.info.id
  const fork = await answered("session.fork", { sessionID, messageID: third.messageID })
  told.fork = { id: fork.id, texts: await texts(fork.id) }
  const undone = await answered("session.revert", { sessionID, messageID: second.messageID })
  told.undone = undone.revert.messageID
  said.length = 2
  await speak([{ text: "Four." }])
  told.after = { said, read: await ids(sessionID), texts: await texts(sessionID) }
  told.sessions = (await answered("session.list", {})).map((each) => each.id)
  return told
}

const told = {}
for (const version of ["v1", "v2"]) told[version] = await driven(version)
process.stdout.write(JSON.stringify(told), () => process.exit(0))
