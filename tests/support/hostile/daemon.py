"""Commands that leave a process behind, each in another way, and how to see what is left."""

from pathlib import Path

# A process that does not end by itself nor when it is asked to; `up` tells that it runs.
STUBBORN = "trap '' TERM HUP INT; : > {up}; while :; do sleep 0.1; done"
POLITE = ": > {up}; while :; do sleep 0.1; done"

DAEMONS = {
    "a child": 'sh -c "{polite}" {token} &',
    "a child that does not listen": 'sh -c "{stubborn}" {token} &',
    "a second fork": '(sh -c "{polite}" {token} &)',
    "a third fork": '( ( (sh -c "{polite}" {token} &) & ) & )',
    "setsid": 'setsid sh -c "{polite}" {token} &',
    "setsid and a second fork": '(setsid sh -c "{stubborn}" {token} > /dev/null 2>&1 < /dev/null &)',
    "setsid --fork": 'setsid --fork sh -c "{polite}" {token} > /dev/null 2>&1',
    "nohup": 'nohup sh -c "{polite}" {token} > /dev/null 2>&1 &',
    "disown": 'sh -c "{polite}" {token} & disown',
    "nohup, setsid and disown": 'nohup setsid sh -c "{stubborn}" {token} > /dev/null 2>&1 & disown -a',
    "no output held": 'sh -c "{polite}" {token} > /dev/null 2>&1 < /dev/null &',
    "no mark": 'env -i PATH="$PATH" sh -c "{polite}" {token} &',
    "no mark, another session": 'env -i PATH="$PATH" setsid sh -c "{stubborn}" {token} &',
}
GHOST = '(env -i PATH="$PATH" setsid sh -c "{stubborn}" {token} > /dev/null 2>&1 < /dev/null &)'
"""Without mark, session, parent and pipe."""


def daemon_command(daemon: str, *, up: Path, token: str, then: str) -> str:
    """Start it, wait until it runs, and then do the rest."""
    script = daemon.replace("{polite}", POLITE).replace("{stubborn}", STUBBORN)
    started = script.replace("{token}", token).replace("{up}", str(up))
    return f"{started}\nuntil [ -e {up} ]; do sleep 0.02; done\n{then}"


def survivors(token: str) -> list[str]:
    """The processes with this word among their arguments; those that only wait to be counted are dead."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                arguments = (each / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if token.encode() in arguments:
                found.append(f"{each.name} {b' '.join(arguments).decode(errors='replace')}")
    return found
