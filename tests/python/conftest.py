"""What the tests share: the package under test is the one that is installed."""
import sys

import pytest


@pytest.fixture(autouse=True)
def _fixed_seed():
    import pellucid
    pellucid.manual_seed(0)
    yield
    assert pellucid.is_grad_enabled(), "a test left gradients off"


def pytest_configure(config):
    sys.dont_write_bytecode = True
