// node acp.mjs '{"modules": …, "command": […], "cwd": …, "capabilities": {…}, "steps": […]}': a client of the Agent Client
// Protocol by the published SDK, which checks all it gets. What it was sent goes to stdout as JSON, in order.
// A step is {"prompt": text}, {"load": id}, {"until": text} or {"touch": file}.
import { spawn } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Readable, Writable } from "node:stream"
import { pathToFileURL } from "node:url"

const given = JSON.parse(process.argv[2])
const folder = join(given.modules, "@agentclientprotocol", "sdk")
const published = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).exports
const acp = await import(pathToFileURL(join(folder, published["./unstable"].import)))
const { agent, client } = acp.methods

const sent = []
let heard = () => {}
let session

function keep(what) {
  sent.push(what)
  heard()
}

const text = () =>
  sent
    .filter((each) => each.session === session && each.update?.sessionUpdate === "agent_message_chunk")
    .map((each) => each.update.content.text)
    .join("")

async function until(wanted) {
  while (!text().includes(wanted)) await new Promise((resolve) => (heard = resolve))
}

function allow({ params }) {
  keep({ session: params.sessionId, asked: params.toolCall.title })
  const { optionId } = params.options.find((each) => each.kind === "allow_once")
  return { outcome: { outcome: "selected", optionId } }
}

async function play(context, step) {
  const place = { cwd: given.cwd, mcpServers: [] }
  if (step.load) {
    session = step.load
    await context.request(agent.session.load, { sessionId: session, ...place })
  }
  session ??= (await context.request(agent.session.new, place)).sessionId
  if (step.prompt) {
    const prompt = [{ type: "text", text: step.prompt }]
    try {
      keep(await context.request(agent.session.prompt, { sessionId: session, prompt }))
    } catch (error) {
      keep({ error: error.message, code: error.code })
    }
  }
  if (step.until) await until(step.until)
  if (step.touch) writeFileSync(step.touch, "")
}

const [program, ...words] = given.command
const child = spawn(program, words, { cwd: given.cwd, stdio: ["pipe", "pipe", "inherit"] })
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout))
await acp
  .client({ name: "driver" })
  .onNotification(client.session.update, ({ params }) =>
    keep({ session: params.sessionId, update: params.update }),
  )
  .onRequest(client.session.requestPermission, allow)
  .connectWith(stream, async (context) => {
    const info = { name: "driver", version: "1" }
    const { capabilities } = given
    const hello = { protocolVersion: 1, clientCapabilities: capabilities, clientInfo: info }
    await context.request(agent.initialize, hello)
    for (const step of given.steps) await play(context, step)
  })
child.kill()
process.stdout.write(JSON.stringify({ session, sent }))
