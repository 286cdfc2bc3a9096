"""With Munchausen's term, an update changes the greedy action in fewer observations (Clark et al. 2024, table 2)."""

import pytest
import torch

import accel_rl
from accel_rl.algos.btr import BTR


class Watched(BTR):
    """BTR that records the policy's churn: the share of a batch's observations whose greedy action an update
    changes."""

    churn: list[float] = []  # noqa: RUF012

    def loss(self, batch):
        self.before = self.greedy(batch)
        return super().loss(batch)

    def after_update(self, batch, loss):
        super().after_update(batch, loss)
        self.churn.append(float((self.greedy(batch) != self.before).float().mean()))

    @torch.no_grad()
    def greedy(self, batch):
        return self.agent.model.q(batch.obs_tm1, noise=False).argmax(-1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_munchausens_term_reduces_churn(tmp_path, seed):
    """In the paper, an update changes 3.8 % of the greedy actions in Phoenix with Munchausen's term, and 11.0 %
    without."""
    churn = {}
    for munchausen in (0.9, 0.0):
        Watched.churn.clear()
        accel_rl.train(
            Watched, env="tests.catch:make", engine="in-process", torch_threads=1, network="a3c", envs=8, horizon=4,
            batch_size=32, replay__size=10_000, replay__start=500, learning_rate=1e-3, env_steps=5_000, seed=seed,
            munchausen=munchausen, evaluation__interval=0, checkpoint__interval=0, run_dir=tmp_path / str(munchausen),
        )  # fmt: skip
        churn[munchausen] = sum(Watched.churn[200:]) / len(Watched.churn[200:])
    print(churn)
    assert churn[0.9] < churn[0.0], churn
