// node drive.mjs '{"url": …, "token": …, "project": …, "other": …, "plain": …, "modules": …}': drives any server that
// speaks OpenCode's API with both entry points of the published SDK; what it was told goes to stdout as JSON.
import { Caller, entry } from "./client.mjs"
import { Stage } from "./stage.mjs"
import { ask, askOnce } from "./ask.mjs"
import { history } from "./history.mjs"
import { read, write } from "./read.mjs"
import { talk, talkOnce } from "./talk.mjs"
import { wrong, wrongOnce } from "./wrong.mjs"

const SCENES = { read, talk, talkOnce, ask, askOnce, history, wrong, wrongOnce, write }
const ONCE = new Set([...talkOnce, ...askOnce, ...wrongOnce])

const place = JSON.parse(process.argv[2])
const wanted = (place.scenes ?? Object.keys(SCENES)).flatMap((name) => SCENES[name])
// One entry point is enough for what differs in the answers of a model alone.
const inBoth = (scene) => place.all || !ONCE.has(scene)
const told = { answers: {}, methods: {}, called: {} }
for (const version of place.versions ?? ["v1", "v2"]) {
  const sdk = await entry(place.modules, version)
  const caller = new Caller(version, sdk, {
    ...place,
    directory: version === "v1" ? undefined : place.project,
  })
  const stage = new Stage(caller, told.answers)
  await stage.listen()
  for (const scene of wanted.filter((scene) => version === "v2" || inBoth(scene))) {
    const start = Date.now()
    try {
      await scene(stage, place)
    } catch (error) {
      stage.keep(`scene ${scene.name}`, { broken: String(error.stack ?? error) })
    }
    if (place.verbose) console.error(version, scene.name, Date.now() - start, "ms")
  }
  stage.keepEvents()
  stage.stop()
  await stage.reading
  told.methods[version] = caller.methods()
  told.called[version] = [...caller.called]
}
process.stdout.write(JSON.stringify(told), () => process.exit(0))
