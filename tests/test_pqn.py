"""PQN as a user's algorithm (examples/pqn.py): its equation, and runs with ranks and on a simulated GPU."""

import csv
from collections import Counter
from pathlib import Path

import pytest
import torch

from accel_rl.optim.flat import FlatParameters
from accel_rl.settings.registry import find_algorithm
from tests.algos.made_up import SPEC, B, T, ingest, rollout
from tests.golden.runs import POLE, config
from tests.gpu.runs import CAPTURE, GPU, SERVED, play
from tests.integration.runs import run
from tests.marks import slow

FILE = Path(__file__).parents[1] / "examples/pqn.py"
PQN = f"{FILE}:PQN"
POLE_RUN = config(PQN, POLE, horizon=16, minibatch=32, epochs=2, epsilon_steps=500)
PONG_RUN = config(PQN, horizon=8, minibatch=32, epochs=2, epsilon_steps=500, network="a3c")


def test_it_is_short():
    assert len(FILE.read_text().splitlines()) <= 120


@pytest.mark.parametrize("invalid", [False, True])
def test_targets_are_lambda_returns(invalid):
    """The oracle is R_t = r_t + gamma (lambda R_t+1 + (1 - lambda) max_a q(s_t+1, a)), Gallici et al. 2024, eq. 4."""
    torch.manual_seed(0)
    cls = find_algorithm(PQN)
    algo, r = cls(cls.Config(network="a3c"), SPEC, T=T, B=B), rollout(invalid=invalid)
    FlatParameters(algo.agent.model)
    c = algo.config

    def best(frames):
        with torch.no_grad():
            return float(algo.agent.model.q(frames).amax())

    value = torch.tensor([
        [best(r.observation(torch.tensor([t]), torch.tensor([b]))) for b in range(B)] for t in range(T + 1)
    ])  # fmt: skip
    r.recorded["value"] = value[:T].clone()
    ingest(algo, r)
    for b in range(B):
        after = float(value[T, b])
        for t in reversed(range(T)):
            following = float(value[t + 1, b])
            if r.truncated[t, b]:
                following = best(r.final_observation(torch.tensor([t]), torch.tensor([b])))
                after = following
            go_on = c.gamma * (1 - float(r.terminated[t, b]))
            reward = max(-1.0, min(1.0, float(r.reward[t, b])))
            after = reward + go_on * (c.gae_lambda * after + (1 - c.gae_lambda) * following)
            if not invalid:
                assert float(algo.samples.target[t, b]) == pytest.approx(after, abs=1e-4)
    seen = 0
    for batch in algo.batches():
        loss = algo.loss(batch)
        q = algo.agent.model.q(batch.obs)[torch.arange(len(batch.action)), batch.action.clamp(min=0)]
        valid = torch.ones(len(q), dtype=torch.bool) if batch.valid is None else batch.valid
        assert loss.total.item() == pytest.approx(0.5 * (batch.target - q)[valid].square().mean().item(), rel=1e-5)
        seen += int(valid.sum())
    assert seen == c.epochs * int(r.valid.sum())


@pytest.mark.parametrize("name", [slow("pong"), "time limits"])
def test_a_gpu_captures_it_and_waits_for_actions_alone(simulated_gpu, tmp_path, name):
    settings = PONG_RUN if name == "pong" else POLE_RUN
    expected, found = play(settings, "cpu", tmp_path / "cpu"), play(settings, GPU, tmp_path / "gpu")
    torch.testing.assert_close(expected.parameters[0], found.parameters[0], atol=1e-4, rtol=1e-3)
    assert "not captured" not in found.events, found.events
    waits = sum(found.waits[-4:], Counter())
    assert waits and all(place.startswith((SERVED, CAPTURE)) for place in waits), waits
    assert sum(found.updates) >= 24


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "mode"), [(PQN, "all-reduce"), ("pqn", "all-reduce"), (PQN, "async"), ("pqn", "async")]
)
def test_two_ranks(tmp_path, algorithm, mode):
    more = ("--schedule", "lockstep", "--update", mode, "--engine", "in-process", "--torch-threads", 1)
    done = run(
        "train", algorithm, "--env", "CartPole-v1", "--ranks", 2, *more, "--envs", 8, "--horizon", 16,
        "--minibatch", 64, "--env-steps", 1_024, "--evaluation.interval", 0, "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "run/metrics.csv", newline="") as f:
        last = list(csv.DictReader(f))[-1]
    assert int(last["updates"]) > 10 and float(last["td_error"]) > 0


@pytest.mark.slow
def test_it_resumes(tmp_path):
    flags = ("--engine", "in-process", "--envs", 8, "--horizon", 16, "--minibatch", 64, "--evaluation.interval", 0)
    whole = ("train", PQN, "--env", "CartPole-v1", *flags, "--run-dir")
    assert run(*whole, "whole", "--env-steps", 2_048, cwd=tmp_path).returncode == 0
    assert run(*whole, "half", "--env-steps", 1_024, cwd=tmp_path).returncode == 0
    done = run("resume", "half", "--trust", "--env-steps", 2_048, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [list(csv.DictReader((tmp_path / name / "metrics.csv").open()))[-1] for name in ("whole", "half")]
    assert rows[0]["td_error"] == rows[1]["td_error"] and rows[0]["updates"] == rows[1]["updates"]
