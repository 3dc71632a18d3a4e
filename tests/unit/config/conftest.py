from pathlib import Path

import pytest

from tests.unit.config.build import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
