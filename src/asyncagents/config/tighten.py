"""Merge an untrusted project's permissions into the user's, so that they only become stricter.

The last rule that matches wins. A rule is therefore changed in place, never moved, and a new one is
appended: a `deny` never weakens the rules, and an `ask` is appended only where nothing is denied.
"""

from asyncagents.config.tree import Branch, KeyPath, Leaf, Tree, at, branch, leaves


def take_rules(tree: Branch) -> tuple[Branch, dict[KeyPath, Branch]]:
    """Split a tree into the tree without permissions, and the permissions by path."""
    rest = {key: value for key, value in tree.items() if key != "permission"}
    rules: dict[KeyPath, Branch] = {("permission",): branch(tree, "permission")}
    agents: Branch = {}
    for name in branch(tree, "agent"):
        agent = branch(branch(tree, "agent"), name)
        agents[name] = {key: value for key, value in agent.items() if key != "permission"}
        rules["agent", name, "permission"] = branch(agent, "permission")
    return rest | {"agent": agents}, {path: found for path, found in rules.items() if found}


def tighten(tree: Branch, path: KeyPath, rules: Branch) -> tuple[Branch, list[KeyPath]]:
    """Merge the rules at `path`; returns the tree, and the paths of rules that would have weakened it."""
    own = _at(tree, path)
    denies = any(
        leaf.value == "deny" for each in (own, branch(tree, "permission")) for _, leaf in leaves(each)
    )
    result, weaker = dict(own), []
    for permission, wanted in rules.items():
        patterns = _patterns(result.get(permission, {}))
        for pattern, leaf in _patterns(wanted).items():
            if _is_stricter(leaf, patterns.get(pattern), denies=denies):
                patterns[pattern] = leaf
            else:
                weaker.append((*path, permission, pattern))
        if patterns:
            result[permission] = patterns
    return _put(tree, path, result), weaker


def _is_stricter(wanted: Tree, own: Tree | None, *, denies: bool) -> bool:
    if not isinstance(wanted, Leaf) or wanted.value == "deny":
        return True
    if isinstance(own, Leaf):
        return bool(own.value != "deny")
    return not denies


def _patterns(rules: Tree) -> Branch:
    return {"*": rules} if isinstance(rules, Leaf) else dict(rules)


def _at(tree: Branch, path: KeyPath) -> Branch:
    found = at(tree, path)
    return {} if found is None or isinstance(found, Leaf) else found


def _put(tree: Branch, path: KeyPath, value: Branch) -> Branch:
    key, *rest = path
    return tree | {key: _put(branch(tree, key), tuple(rest), value) if rest else value}
