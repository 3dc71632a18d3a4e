"""Convert old and short forms of settings to the current form before merging."""

from msgspec.structs import replace

from asyncagents.config.file.shape import AgentEntry
from asyncagents.config.tree import Branch, ConfigLeaf, Tree, branch, merge_trees

# Tools that ask for the permission of another name.
_PERMISSION_OF = {"write": "edit", "patch": "edit", "apply_patch": "edit", "multiedit": "edit"}
_AGENT_KEYS = set(AgentEntry.__struct_encode_fields__)


def modernise(tree: Branch, origin: str) -> Branch:
    """Convert `mode` to `agent`, `tools` and single actions to `permission`, and `api` to `baseURL`."""
    rest = {key: value for key, value in tree.items() if key not in {"mode", "tools"}}
    agents = merge_trees(_agents_of_modes(branch(tree, "mode"), origin), branch(tree, "agent"))
    providers = branch(tree, "provider")
    return (
        rest
        | _permission(tree)
        | {
            "agent": {name: _agent(branch(agents, name)) for name in agents},
            "provider": {name: _provider(branch(providers, name)) for name in providers},
        }
    )


def _agents_of_modes(modes: Branch, origin: str) -> Branch:
    return {name: {"mode": ConfigLeaf("primary", origin)} | branch(modes, name) for name in modes}


def _provider(provider: Branch) -> Branch:
    rest = {key: value for key, value in provider.items() if key != "api"}
    if "api" in provider:
        rest["options"] = {"baseURL": provider["api"]} | branch(provider, "options")
    return rest


def _agent(agent: Branch) -> Branch:
    """Move unknown keys to `options`; `steps` wins over `maxSteps`."""
    known = {key: value for key, value in agent.items() if key in _AGENT_KEYS and key != "maxSteps"}
    if "maxSteps" in agent:
        known.setdefault("steps", agent["maxSteps"])
    extra = {key: value for key, value in agent.items() if key not in _AGENT_KEYS}
    if extra:
        known["options"] = merge_trees(extra, branch(agent, "options"))
    return known | _permission(agent)


def _permission(tree: Branch) -> Branch:
    """Merge `tools` and `permission`, which wins."""
    rules = merge_trees(
        _rules_of_tools(branch(tree, "tools")), _as_rules(tree.get("permission")), ("permission",)
    )
    return {"permission": rules} if rules else {}


def _as_rules(permission: Tree | None) -> Branch:
    if isinstance(permission, ConfigLeaf):
        return {"*": permission}
    return permission or {}


def _rules_of_tools(tools: Branch) -> Branch:
    return {
        _PERMISSION_OF.get(name, name): replace(leaf, value="allow" if leaf.value else "deny")
        for name, leaf in tools.items()
        if isinstance(leaf, ConfigLeaf)
    }
