"""The mode of a run: one process, ranks, or a cluster."""

import pytest

from accel_rl.api.keywords import settings
from accel_rl.settings.modes import ALONE, CLUSTERS, RANKS


@pytest.mark.parametrize(
    ("values", "mode", "has_ranks"),
    [
        ({}, ALONE, False),
        ({"ranks": 2}, RANKS, True),
        ({"update": "async"}, RANKS, True),
        ({"cluster": "ray"}, CLUSTERS["ray"], True),
        ({"cluster": "ray", "ranks": 2}, CLUSTERS["ray"], True),
        ({"cluster": "gorila", "gorila__updates": 70}, CLUSTERS["gorila"], False),
    ],
)
def test_processes_follow_from_the_settings(values, mode, has_ranks):
    config = settings("dqn", None, {"game": "pong", **values})
    assert config.mode is mode and config.mode.has_ranks == has_ranks
    assert config.mode.is_alone == (mode is ALONE)
    assert config.updates == (70 if mode.has_members else None)


def test_updates_end_no_other_run():
    assert settings("dqn", None, {"game": "pong", "gorila__updates": 70}).updates is None
