// One way to call both entry points of the SDK: parameters flat, as its second one takes them.
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

const READS =
  /\.(list|get|status|ids|agents|providers|auth|current|children|todo|diff|messages|message|text|files|symbols|read)$/
const V1_NAMES = { "permission.respond": "postSessionIdPermissionsPermissionId" }
const NAMESPACES = [
  "session",
  "app",
  "config",
  "provider",
  "project",
  "path",
  "find",
  "file",
  "command",
  "tool",
  "vcs",
  "mcp",
  "permission",
  "question",
  "event",
  "global",
  "part",
  "instance",
  "lsp",
  "formatter",
  "auth",
  "experimental",
]

export async function entry(modules, version) {
  const folder = join(modules, "@opencode-ai", "sdk")
  const published = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).exports
  const file = published[version === "v1" ? "." : "./v2"].import
  return await import(pathToFileURL(join(folder, file)))
}

export class Caller {
  constructor(version, sdk, { url, token, directory, patience = 60_000 }) {
    const headers = token
      ? { authorization: "Basic " + Buffer.from(`opencode:${token}`).toString("base64") }
      : {}
    this.version = version
    this.sdk = sdk
    this.place = { url, token, directory, patience }
    this.client = sdk.createOpencodeClient({ baseUrl: url, headers, ...(directory ? { directory } : {}) })
    this.called = new Set()
  }

  elsewhere(directory) {
    const other = new Caller(this.version, this.sdk, { ...this.place, directory })
    other.called = this.called
    return other
  }

  has(method) {
    return this.owner(method) !== undefined
  }

  owner(method) {
    const [owner, last] = this.named(method)
    return typeof owner?.[last] === "function" ? owner : undefined
  }

  named(method) {
    const words = ((this.version === "v1" && V1_NAMES[method]) || method).split(".")
    return [words.slice(0, -1).reduce((owner, word) => owner?.[word], this.client), words.at(-1)]
  }

  // Every method of the namespaces, as the classes of the SDK have them.
  methods() {
    const roots = NAMESPACES.filter((name) => this.client[name]).flatMap((name) =>
      walked(this.client[name], name),
    )
    return this.version === "v1" ? [...roots, "permission.respond"] : roots
  }

  async ask(method, given = {}) {
    this.called.add(method)
    const signal = AbortSignal.timeout(this.place.patience)
    const [owner, last] = this.named(method)
    try {
      const answer = await (this.version === "v1"
        ? owner[last]({ ...split(method, given), signal })
        : owner[last](given, { signal }))
      const { data, error, response } = answer
      return { status: response?.status, body: response?.ok ? data : error, headers: response?.headers }
    } catch (error) {
      return { thrown: `${error.name}: ${error.message}` }
    }
  }

  async events(method) {
    this.called.add(method)
    const stop = new AbortController()
    const [owner, last] = this.named(method)
    const options = { signal: stop.signal, sseMaxRetryAttempts: 1 }
    const { stream } = await (this.version === "v1" || method.startsWith("global.")
      ? owner[last](options)
      : owner[last]({}, options))
    return { stream, stop: () => stop.abort() }
  }
}

function walked(owner, name) {
  const found = []
  for (const [key, about] of Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(owner)))) {
    if (about.get) found.push(...walked(owner[key], `${name}.${key}`))
    else if (key !== "constructor") found.push(`${name}.${key}`)
  }
  for (const [key, value] of Object.entries(owner)) {
    if (value && typeof value === "object" && /^[a-z]/.test(key) && key !== "client")
      found.push(...walked(value, `${name}.${key}`))
  }
  return found
}

// The first entry point wants to be told what goes into the path, the query and the body.
function split(method, { sessionID, permissionID, providerID, auth, config, name, ...rest }) {
  const path = {}
  if (sessionID !== undefined) path.id = sessionID
  if (permissionID !== undefined) path.permissionID = permissionID
  if (name !== undefined && method !== "mcp.add") path.name = name
  else if (name !== undefined) rest.name = name
  if (method === "session.message") {
    path.messageID = rest.messageID
    delete rest.messageID
  }
  if (/^(provider\.oauth|auth)\./.test(method)) path.id = providerID
  else if (providerID !== undefined) rest.providerID = providerID
  if (auth !== undefined) Object.assign(rest, auth)
  if (config !== undefined) Object.assign(rest, method === "mcp.add" ? { config } : config)
  const asked = READS.test(method) ? { query: rest } : { body: Object.keys(rest).length ? rest : undefined }
  return { path, ...asked }
}
