"""Hypothesis profiles and what tests share.

``HYPOTHESIS_PROFILE=fast``, the default, has the same cases every time: whoever changes something
else is not to be surprised by what chance finds. ``deep`` (`make deep`) looks for new ones, and
much longer.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shared, slow machine must not turn a slow draw into a failure.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "fast", max_examples=150, deadline=None, suppress_health_check=_PATIENT, derandomize=True
)
settings.register_profile("deep", max_examples=2000, deadline=None, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """``shared/`` beside the repository: captures and cases that are not part of it."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip(f"{path} is not here: the files it holds are not part of the repository")
    return path
