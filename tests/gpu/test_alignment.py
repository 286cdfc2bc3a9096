"""The matrices that an update or inference multiplies begin at multiples of 16 bytes, as fast GPU kernels require."""

from collections import Counter
from dataclasses import replace

import pytest

from tests import simulated_device
from tests.golden.runs import config
from tests.gpu.runs import GPU, play, q

DUELING = {"dueling": True, "double": True, "n_step": 3, "replay_prioritized": True}
RUNS = {
    "a2c": config("a2c"),
    "a2c, LSTM": config("a2c", network="a3c", lstm=64),
    "a2c, Nature network": config("a2c", network="nature"),
    "a2c, IMPALA network": config("a2c", network="impala"),
    "ppo": config("ppo", horizon=8, minibatch=32, epochs=2),
    "pqn": config("pqn", horizon=8, minibatch=32, epochs=2),
    "impala": config("impala", window=10, batches=2, horizon=5),
    **{f"dqn, dueling, {game}": q("dqn", game, **DUELING) for game in ("breakout", "pong", "seaquest")},
    **{f"rainbow, noisy, {game}": q("rainbow", game, noisy=True) for game in ("breakout", "pong", "seaquest")},
    "c51": q("c51", "pong"),
}
CYCLES = 6
QUICK = ("rainbow, noisy, pong",)
CASES = [
    pytest.param(name, captured, marks=() if captured and name in QUICK else pytest.mark.slow)
    for name in RUNS
    for captured in (True, False)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "captured"), CASES)
def test_matrices_begin_at_multiples_of_16_bytes(simulated_gpu, tmp_path, name, captured):
    with simulated_device.operands() as operands:
        played = play(replace(RUNS[name], capture_updates=captured), GPU, tmp_path / "run", CYCLES)
    assert sum(played.updates) > 3 and {"addmm", "convolution"} <= {x.operation.split("::")[1] for x in operands}
    wrong = Counter(x for x in operands if x.offset and len(x.shape) > 1)
    assert not wrong, "\n".join(map(str, wrong))
