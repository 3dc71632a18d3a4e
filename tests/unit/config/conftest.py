from pathlib import Path

import pytest

from tests.support.environment import ConfigDesk


@pytest.fixture
def desk(tmp_path: Path) -> ConfigDesk:
    return ConfigDesk(tmp_path)
