"""counted(n, noun) returns a number with a noun in singular or plural, as in "1 run" and "2 runs"."""

import pytest

from accel_rl.text.counts import counted


@pytest.mark.parametrize(
    ("n", "line"),
    [(0, "0 cores"), (1, "1 core"), (2, "2 cores"), (1.0, "1 core"), (0.5, "0.5 cores"), (1000, "1,000 cores")],
)
def test_a_number_of_things(n, line):
    assert counted(n, "core") == line
