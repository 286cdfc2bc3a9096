import pytest

from accel_rl.gorila.members import fitting_share, share_of
from accel_rl.text.errors import ConfigError


@pytest.mark.parametrize(
    ("nodes", "members", "share"),
    [
        ([2], 2, 1.0),
        ([2], 1, 2.0),
        ([2], 8, 1 / 4),
        ([2, 2, 2], 2, 2.0),
        ([3, 3], 3, 1.0),  # If a member had 2 cores, two nodes of 3 cores would have room for only 2 members.
        ([16, 16, 8], 5, 8.0),
        ([1], 3, 1 / 3),
        ([0, 0], 3, 0.0),
    ],
)
def test_the_largest_share_that_all_members_can_have(nodes, members, share):
    assert fitting_share(nodes, members) == share
    if share:
        fit = sum(int(n // share) if share >= 1 else int(n) * round(1 / share) for n in nodes)
        assert fit >= members


def test_a_share_that_does_not_fit_is_refused():
    assert share_of([4, 4], 2, 0.0, "bundle-cpus", "cores") == 4.0
    assert share_of([4, 4], 4, 1.0, "bundle-cpus", "cores") == 1.0
    assert share_of([4, 4], 16, 0.5, "bundle-cpus", "cores") == 0.5
    with pytest.raises(ConfigError, match=r"bundle-cpus 3: 3 members of 3 cores .* have 4, 4; at most 2"):
        share_of([4, 4], 3, 3.0, "bundle-cpus", "cores")
