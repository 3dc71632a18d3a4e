"""The project in which hostile lines start: files with names of options, links that lead out, odd folders."""

from pathlib import Path

from tests.flows.hostile import Yard, yard
from tests.flows.hostile_holes import FOLDERS

PATCH = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../outside\n"
FILES = {
    "a.txt": "hello\nthere\n",
    "b.txt": "hello\nthere\n",
    "evil": "#!/bin/sh\ntouch pwned\n",
    "src/one.py": "",
    "src/x": "",
    "tree/y": "",
    "deep/er/k": "",
    "names/a.txt": "",
    "names/sub/k": "",
    "names/-exec": "",
    "names/--output=pwned": "",
    "names/-R": "",
    "-exec": "",
    "--output=pwned": "",
    "--checkpoint=1": "",
    "--checkpoint-action=exec=touch pwned": "",
    "--eval=x": "",
    "SHELL=evil": "",
    "if=secret-link": "",
    "l.patch": PATCH,
}


def plant_holes(tmp_path: Path) -> Yard:
    """Make the yard of the holes."""
    place = yard(tmp_path, FILES)
    (place.root / "evil").chmod(0o755)
    for name in FOLDERS:
        (place.root / fill(name, place)).mkdir(parents=True, exist_ok=True)
    for name, target in {
        "link": str(place.outside),
        "secret-link": str(place.secret),
        "tree/x": str(place.secret),
        "deep/er/s": "../outside",
        "q": "deep/er",
        "via": "q/../../outside",
        "here": "/proc/self/cwd",
        "gone": "/bin/rm",
        "src/gone-too": "/bin/rm",
    }.items():
        (place.root / name).symlink_to(target)
    (place.root / "list").write_text("../outside/secret.txt\n")
    return place


def fill(text: str, place: Yard) -> str:
    return text.replace("{out}", str(place.outside))
