"""`python -m tests.golden` records the golden files anew, after a change of wording or of features."""

import tempfile
from pathlib import Path

from tests.golden.record import FILES, goldens

with tempfile.TemporaryDirectory() as folder:
    for name, text in goldens(Path(folder)).items():
        FILES.joinpath(name).write_text(text, encoding="utf-8")
