"""All-reduce between real processes, over gloo and over shared memory."""

import os
import signal
import time

import pytest
import torch

from tests.distributed.learn_together import ALGORITHMS, GROUPS
from tests.integration.runs import run, start, wait_for

SEVERAL = [name for name, (size, _) in GROUPS.items() if size > 1]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Run learn_together.py, and return the results of all ranks as {group: [results of rank 0, ...]}."""
    folder = tmp_path_factory.mktemp("ranks")
    done = run(folder, module="tests.distributed.learn_together", timeout_s=200)
    assert done.returncode == 0, done.stderr
    return {group: [torch.load(folder / f"{group}-{r}.pt") for r in range(size)] for group, (size, _) in GROUPS.items()}


@pytest.mark.parametrize("group", SEVERAL)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_ranks_equal_one_with_the_same_batch(ranks, name, group):
    """After 10 updates, the parameters of several ranks equal those of a single rank that learns from the same
    batches."""
    (one,) = ranks["one"]
    assert len({r[f"{name}/hash"] for r in ranks[group]}) == 1
    assert one[f"{name}/rate"] == ranks[group][0][f"{name}/rate"]
    torch.testing.assert_close(ranks[group][0][name], one[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("group", SEVERAL)
def test_ranks_share_the_statistics_of_rewards(ranks, group):
    (one,), several = ranks["one"], ranks[group]
    for r in several:
        torch.testing.assert_close(r["a2c/rewards"], one["a2c/rewards"], atol=0, rtol=1e-12)


def test_the_widest_layer_goes_ahead(ranks):
    """The gradient of the widest layer is sent before the other gradients among four ranks, but not among two."""
    ahead = {name: ranks["four over gloo"][0][f"{name}/ahead"] for name in ALGORITHMS}
    assert ahead["dqn"] and ahead["c51"] and not ranks["two over gloo"][0]["dqn/ahead"], ahead


@pytest.mark.parametrize("shared", [False, True], ids=["gloo", "shared"])
def test_who_is_killed_is_named_by_all_others(tmp_path, shared):
    """Each surviving rank ends within 30 s, with an error that names the killed rank."""
    process = start(tmp_path, 3, int(shared), module="tests.distributed.reduce_until_killed")
    try:
        files = [tmp_path / str(rank) for rank in range(3)]
        wait_for(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files), 60, "the ranks")
        os.kill(int(files[2].read_text()), signal.SIGKILL)
        began = time.monotonic()
        out, _ = process.communicate(timeout=60)
        assert [line.startswith("rank 2 is gone or hangs: ") for line in out.splitlines()] == [True, True], out
        assert time.monotonic() - began < 30
    finally:
        process.kill()


@pytest.mark.parametrize("group", SEVERAL)
def test_priorities_are_those_of_one_replay(ranks, group):
    """The importance weights of several ranks are divided by the largest weight on all ranks, as in one replay (Schaul
    et al. 2016, section 3.4)."""
    found = [r["priorities"] for r in ranks[group]]
    assert len({float(p["highest"]) for p in found}) == 1
    expected = [p["share"] ** -p["beta"].item() for p in found]
    largest = max(e.max() for e in expected)
    for p, e in zip(found, expected, strict=True):
        torch.testing.assert_close(p["weight"].double(), e / largest, atol=1e-5, rtol=1e-4)
