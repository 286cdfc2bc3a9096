"""The load test's slopes of growth are correct, and each of its parts runs."""

import mmap
import random

import pytest

from benchmarks.harness.program import program
from tests.load.__main__ import Options, report, run
from tests.load.growth import Usage, slope


def test_a_slope_has_an_interval():
    rng = random.Random(1)
    x = list(range(400))
    steady = [rng.gauss(50, 3) + 1000 * (n < 100) for n in x]  # slope() ignores the first 100 samples.
    value, half = slope(x, steady)
    assert abs(value) < half < 0.01
    value, half = slope(x, [y + 0.1 * n for n, y in zip(x, steady, strict=True)])
    assert abs(value - 0.1) < half < 0.01
    with pytest.raises(ValueError, match="too few"):
        slope(x[:20], steady[:20])


@pytest.mark.slow
def test_growth_is_seen():
    usage, kept = Usage(), []
    for n in range(40):
        # Memory from mmap is always new, while malloc could reuse memory that earlier tests have freed.
        memory = mmap.mmap(-1, 1 << 16)
        memory.write(random.randbytes(1 << 16))
        kept.append((memory, open("/dev/null")))  # noqa: SIM115
        usage.sample(n)
    for name, least, most in (("memory, KiB", 50, 90), ("descriptors", 0.99, 1.01)):
        value, half = slope(usage.x, usage.series[name])
        assert least < value - half and value + half < most, name
    assert abs(slope(usage.x, usage.series["threads"])[0]) < 0.01
    for _, file in kept:
        file.close()


@pytest.mark.slow
def test_a_part_does_not_grow(capsys):
    words = ["--parts", "updates", "--updates", "12000"]  # The caches of the allocator fill in the first 4,000 updates.
    assert program("tests.load", "", Options, words, run, report) == 0
    assert "| updates | 11,700 |" in capsys.readouterr().out


def test_too_few_samples_are_one_line(capsys):
    assert program("tests.load", "", Options, ["--trainings", "3"], run, report) == 2
    assert capsys.readouterr().err == "tests.load: --trainings 3: must be at least 40, for a slope\n"
