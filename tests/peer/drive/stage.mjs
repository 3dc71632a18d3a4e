// What a run remembers: answers by name, and all events with the order they came in.
import { once, EventEmitter } from "node:events"

export class Stage {
  constructor(caller, answers) {
    this.caller = caller
    this.answers = answers
    this.seen = []
    this.more = new EventEmitter().setMaxListeners(100)
  }

  // The same run in another project, with its own events, until `scene` ends.
  async at(directory, scene) {
    const there = new Stage(this.caller.elsewhere(directory), this.answers)
    await there.listen()
    await scene(there)
    there.stop()
    await there.reading
  }

  has(method) {
    return this.caller.has(method)
  }

  // The body of the answer; what it was is kept under `name` of that method.
  async call(method, given = {}, name = "") {
    return (await this.answer(method, given, name)).body
  }

  async answer(method, given = {}, name = "", caller = this.caller) {
    if (!caller.has(method)) return {}
    const answer = await caller.ask(method, given)
    this.keep(`${method}${name && " " + name}`, told(answer))
    return answer
  }

  keep(name, what) {
    const full = `${this.caller.version} ${name}`
    if (full in this.answers) throw new Error(`${full} is told twice`)
    this.answers[full] = what
  }

  async listen() {
    const { stream, stop } = await this.caller.events("event.subscribe")
    this.stop = stop
    this.reading = this.read(stream)
    await this.until((event) => event.type === "server.connected")
  }

  async read(stream) {
    try {
      for await (const event of stream) {
        this.seen.push(event)
        this.more.emit("event")
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error
    }
  }

  async until(wanted, from = 0, what = wanted.toString()) {
    const end = Date.now() + this.caller.place.patience
    for (;;) {
      const found = this.seen.slice(from).find(wanted)
      if (found) return found
      const left = end - Date.now()
      if (left <= 0) throw new Error(`no such event: ${what}`)
      await once(this.more, "event", { signal: AbortSignal.timeout(left) }).catch(() => undefined)
    }
  }

  async idle(sessionID, from) {
    await this.until(
      (event) => event.type === "session.idle" && event.properties.sessionID === sessionID,
      from,
      `idle ${sessionID}`,
    )
  }

  get now() {
    return this.seen.length
  }

  of(sessionID, from = 0) {
    return this.seen.slice(from).filter((event) => event.properties.sessionID === sessionID)
  }

  // An id as clients make them: the time, so that it stands after all there are.
  ownID(prefix) {
    const time = (BigInt(Date.now()) * 4096n) & 0xffffffffffffn
    return `${prefix}_${time.toString(16).padStart(12, "0")}00000000000001`
  }

  // With a title: nobody needs to ask a model for one.
  async session(given = { title: "A talk" }) {
    return (await this.caller.ask("session.create", given)).body
  }

  // One prompt in a session of its own, until it rests; what clients rely on in its events is kept as well.
  async turn(name, text, { session, ...more } = {}) {
    const { id } = session ?? (await this.session())
    const from = this.now
    const { body, status } = await this.answer(
      "session.prompt",
      { sessionID: id, parts: [{ type: "text", text }], ...more },
      name,
    )
    if (status !== 200) throw new Error(`${name} was refused`)
    await this.idle(id, from)
    this.keep(`events ${name}`, {
      story: story(this.of(id, from), this.of(id).slice(0, -this.of(id, from).length)),
    })
    return { id, from, body }
  }

  // A prompt that nobody looks at.
  async say(id, text) {
    const from = this.now
    await this.caller.ask("session.prompt", { sessionID: id, parts: [{ type: "text", text }] })
    await this.idle(id, from)
  }

  // The first event of each kind, whole.
  keepEvents() {
    const first = new Map()
    for (const event of this.seen) {
      const kind = kindOf(event)
      if (!first.has(kind)) first.set(kind, event)
    }
    for (const [kind, event] of first) this.keep(`event ${kind}`, { body: event })
  }
}

function told({ status, body, headers, thrown }) {
  if (thrown) return { thrown }
  const cursor = headers?.get("x-next-cursor")
  return {
    status,
    ...(body === undefined ? {} : { body }),
    ...(cursor ? { cursor, link: headers.get("link") } : {}),
  }
}

function kindOf({ type, properties }) {
  const { part, status, info } = properties
  const more = [
    part?.type,
    part?.state?.status,
    status?.type,
    info?.role,
    info?.time?.completed && "done",
    info?.error?.name,
  ]
  return [type, ...more].filter(Boolean).join(" ")
}

// What clients rely on, in its order: each message when it is first told, each call when it ended, every change of the
// status. Left out is what may come at any time, or twice.
function story(events, before) {
  const told = []
  const known = new Set(before.map(({ properties: { info } }) => info?.id))
  let status
  for (const event of events) {
    const label = labelOf(event, known)
    if (!label || label === told.at(-1) || label === status) continue
    if (event.type === "session.status") status = label
    told.push(label)
  }
  return told
}

function labelOf({ type, properties: { info, part, status } }, known) {
  switch (type) {
    case "message.updated":
      return known.size === known.add(info.id).size ? undefined : info.role
    case "message.part.updated":
      return /^(completed|error)$/.test(part.state?.status) && known.size !== known.add(part.id).size
        ? `call ${part.state.status}`
        : undefined
    case "message.part.delta":
      return "delta"
    case "session.status":
      return status.type
    case "session.error":
    case "session.idle":
    case "session.compacted":
    case "todo.updated":
      return type
  }
}
