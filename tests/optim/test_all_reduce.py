"""Real processes over gloo."""

import subprocess
import sys

import pytest
import torch

from tests.optim.learn_together import ALGORITHMS


def learned(folder, size):
    """What each of `size` ranks has learned."""
    outs = [folder / f"{size}-{r}.pt" for r in range(size)]
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.optim.learn_together",
                *map(str, (r, size, folder / f"store{size}", outs[r])),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(size)
    ]
    try:
        for p in processes:
            _, err = p.communicate(timeout=120)
            assert p.returncode == 0, err
    finally:
        for p in processes:
            p.kill()
    return [torch.load(out) for out in outs]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return {size: learned(folder, size) for size in (1, 2, 4)}


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_ranks_equal_one_with_the_same_batch(ranks, name, size):
    """After 50 updates; cells that do not count are spread unevenly over the ranks of a2c and ppo."""
    (one,) = ranks[1]
    assert len({r[f"{name}/hash"] for r in ranks[size]}) == 1
    assert one[f"{name}/rate"] == ranks[size][0][f"{name}/rate"]
    torch.testing.assert_close(ranks[size][0][name], one[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [2, 4])
def test_priorities_are_those_of_one_replay(ranks, size):
    """Schaul et al. 2016, section 3.4: weights by the part's shares, divided by the largest of all ranks' draws."""
    found = [r["priorities"] for r in ranks[size]]
    assert len({float(p["highest"]) for p in found}) == 1
    expected = [p["share"] ** -p["beta"].item() for p in found]
    largest = max(e.max() for e in expected)
    for p, e in zip(found, expected, strict=True):
        torch.testing.assert_close(p["weight"].double(), e / largest, atol=1e-5, rtol=1e-4)
