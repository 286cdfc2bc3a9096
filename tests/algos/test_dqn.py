"""One update of each algorithm against a textbook one: autograd, torch's own optimizers, the formulas written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from accel_rl.algos.algorithm import set_schedules
from accel_rl.algos.c51 import C51, C51Config
from accel_rl.algos.dqn import DQN, DQNConfig
from accel_rl.algos.rainbow import Rainbow, RainbowConfig
from accel_rl.distributed.communicator import SingleProcess
from accel_rl.optim.flat import FlatParameters
from accel_rl.papers import stooke
from accel_rl.replays.config import ReplayConfig
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.algos import made_up

SMALL = ReplayConfig(size=600, start=60)


def learner(cls, config, seed=0):
    torch.manual_seed(seed)
    algo = cls(config, made_up.SPEC, T=made_up.T, B=made_up.B)
    flat = FlatParameters(algo.agent.model)
    algo.begin()
    with torch.no_grad():  # a target that differs from the learner
        for p in algo.target.parameters():
            p.add_(0.03 * torch.randn(p.shape))
    for i in range(6):
        made_up.ingest(algo, made_up.rollout(seed=i))
    return algo, flat


def textbook(algo, batch):
    """The loss of a batch, sample by sample, without any of the program's own equations."""
    c, model, losses = algo.config, algo.agent.model, []
    out_tm1, out_t, out_online = (net.outputs(obs) for net, obs in (
        (model, batch.obs_tm1), (algo.target, batch.obs_t), (model, batch.obs_t)))  # fmt: skip
    atoms = torch.linspace(c.v_min, c.v_max, c.atoms) if isinstance(c, C51Config) else torch.ones(1)
    for i in range(len(batch.a_tm1)):
        a, r, d = int(batch.a_tm1[i]), float(batch.r_t[i]), float(batch.discount_t[i])
        if not isinstance(c, C51Config):
            q_t = out_t[i, :, 0].detach()
            best = int((out_online[i, :, 0] if c.double else q_t).argmax())
            loss = F.smooth_l1_loss(out_tm1[i, a, 0], torch.tensor(r + d * float(q_t[best])))
        else:
            p_t = torch.softmax(out_t[i].detach(), -1)
            chooser = torch.softmax(out_online[i].detach(), -1) if c.double else p_t
            best = int((chooser * atoms).sum(-1).argmax())
            m, width = torch.zeros(c.atoms), (c.v_max - c.v_min) / (c.atoms - 1)
            for j in range(c.atoms):
                b = (min(max(r + d * float(atoms[j]), c.v_min), c.v_max) - c.v_min) / width
                low = min(int(b), c.atoms - 2)
                m[low] += p_t[best, j] * (low + 1 - b)
                m[low + 1] += p_t[best, j] * (b - low)
            loss = F.cross_entropy(out_tm1[i, a][None], m[None])
        losses.append(float(batch.weight[i]) * loss)
    return torch.stack(losses).mean()


def lasagne_rmsprop(grads, rate, rho, epsilon=1e-6):
    """Lasagne's RMSProp in float64: accu <- rho accu + (1 - rho) g^2; step = rate g / sqrt(accu + eps)."""
    accu = torch.zeros_like(grads[0], dtype=torch.float64)
    for g in grads:
        accu = rho * accu + (1 - rho) * g.double() ** 2
        yield rate * g.double() / (accu + epsilon).sqrt()


@pytest.mark.parametrize("batch_size", [64, 256, 1_024])
def test_rmsprops_epsilon_is_the_same_at_all_batch_sizes(batch_size):
    """Figure 9 of Stooke & Abbeel 2018, the experiment as it is swept: gradients of 1e-4 a parameter, whose square is
    a hundredth of the epsilon."""
    config = stooke.optimizers(optimizer="rmsprop", batch_size=batch_size, learning_rate=2.5e-4)
    algo = C51(replace(config.algo, replay=SMALL), made_up.SPEC, T=made_up.T, B=made_up.B)
    optimizer, data = algo.build_optimizer(100), torch.zeros(100)
    grads = [1e-4 * torch.randn(100, generator=torch.Generator().manual_seed(i)) for i in range(5)]
    for g, expected in zip(grads, lasagne_rmsprop(grads, 2.5e-4, config.algo.rmsprop_alpha), strict=True):
        before = data.clone()
        optimizer.step(data, g, 2.5e-4)
        torch.testing.assert_close((before - data).double(), expected, atol=1e-9, rtol=1e-3)


@pytest.mark.parametrize(("cls", "config", "published"), [(C51, C51Config, 0.01), (Rainbow, RainbowConfig, 0.005)])
def test_adams_epsilon_is_divided_by_the_batch(cls, config, published):
    """Section 5.4.1."""
    for batch_size in (32, 2_048):
        for optimizer in ("adam", "adam-epsilon-hat"):
            settings = config(replay=SMALL, batch_size=batch_size, optimizer=optimizer)
            algo = cls(settings, made_up.SPEC, T=made_up.T, B=made_up.B)
            assert algo.build_optimizer(10).epsilon == published / batch_size


def optimizer(config, params):
    if config.optimizer == "adam":
        eps = config.optimizer_eps / (config.batch_size if isinstance(config, C51Config) else 1)
        return torch.optim.Adam(params, config.learning_rate, eps=eps)
    return torch.optim.RMSprop(params, config.learning_rate, alpha=config.rmsprop_alpha, eps=config.optimizer_eps,
                               centered="centered" in config.optimizer)  # fmt: skip


CASES = {
    "dqn": (DQN, DQNConfig(replay=SMALL, optimizer="rmsprop-torch")),
    "dqn, centered": (DQN, DQNConfig(replay=SMALL, optimizer="rmsprop-centered-torch", optimizer_eps=0.01)),
    "dqn, adam, double, dueling, 3 steps": (
        DQN, DQNConfig(replay=SMALL, optimizer="adam", double=True, dueling=True, n_step=3, optimizer_eps=1e-5)),
    "c51": (C51, C51Config(replay=SMALL)),
    "rainbow": (Rainbow, RainbowConfig(replay=replace(SMALL, prioritized=True))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_updates_are_the_textbooks(name):
    cls, config = CASES[name]
    config = replace(config, batch_size=24, learning_rate=1e-3)
    algo, flat = learner(cls, config)
    twin, _ = learner(cls, config)
    params = list(twin.agent.model.parameters())
    torch_rule = optimizer(config, params)
    batches = [algo.replay.sample(24) for _ in range(3)]
    for batch, ours in zip(batches, made_up.updates(algo, flat, batches), strict=True):
        torch_rule.zero_grad()
        loss = textbook(twin, batch)
        loss.backward()
        if config.clip_grad_norm:
            torch.nn.utils.clip_grad_norm_(params, config.clip_grad_norm)
        torch_rule.step()
        torch.testing.assert_close(ours.total, loss, rtol=1e-5, atol=1e-6)
        for p, updated in zip(params, algo.agent.model.parameters(), strict=True):
            torch.testing.assert_close(updated, p, rtol=1e-5, atol=1e-5)
            # from the same parameters: an output that is 0 but for rounding passes a ReLU in one and not in the other
            p.data.copy_(updated)


def test_the_intensity_decides_how_many_updates_follow():
    algo, _ = learner(DQN, DQNConfig(replay=SMALL, batch_size=32, intensity=4))
    algo.budget.set(0)
    counts = []
    for i in range(8):
        made_up.ingest(algo, made_up.rollout(seed=10 + i))
        counts.append(sum(1 for _ in algo.batches()))
    assert sum(counts) == 8 * 30 * 4 // 32 and set(counts) <= {3, 4}


def test_nothing_is_learned_before_the_start():
    torch.manual_seed(0)
    algo = DQN(DQNConfig(replay=ReplayConfig(size=600, start=61)), made_up.SPEC, T=made_up.T, B=made_up.B)
    algo.begin()
    counts = []
    for i in range(3):
        made_up.ingest(algo, made_up.rollout(seed=i))
        counts.append(sum(1 for _ in algo.batches()))
        assert (algo.agent.epsilon == 1.0) == (algo.now.env_steps < 61)
    assert counts[:2] == [0, 0] and counts[2] > 0


def test_epsilon_goes_down_and_can_differ_between_environments():
    config = DQNConfig(replay=SMALL, epsilon_steps=100, epsilon_final=0.1)
    algo = DQN(config, made_up.SPEC, T=made_up.T, B=made_up.B)
    for steps, want in ((0, 1.0), (59, 1.0), (60, 1.0), (110, 0.55), (160, 0.1), (10**6, 0.1)):
        assert algo.schedules(0.0, steps)["epsilon"] == pytest.approx(want)
    algo = DQN(replace(config, epsilon_spread=7.0), made_up.SPEC, T=made_up.T, B=made_up.B)
    algo.now.env_steps = 10**6
    set_schedules(algo)
    want = [0.1 ** (1 + 7 * i / 5) for i in range(6)]
    assert algo.agent.epsilon.tolist() == pytest.approx(want, rel=1e-4)


def test_importance_weights_are_annealed_by_the_runs_progress():
    replay = replace(SMALL, prioritized=True, beta=0.4, beta_final=1.0)
    algo = DQN(DQNConfig(replay=replay), made_up.SPEC, T=made_up.T, B=made_up.B)
    algo.begin()
    for progress in (0.0, 0.25, 1.0):
        algo.now.progress = progress
        made_up.ingest(algo, made_up.rollout())
        assert algo.replay.selection.beta == pytest.approx(0.4 + 0.6 * progress)


def test_the_target_follows_in_intervals():
    algo, flat = learner(DQN, DQNConfig(replay=SMALL, target_interval=100))
    flat.data.add_(1.0)
    same = lambda: all(  # noqa: E731
        torch.equal(a, b) for a, b in zip(algo.target.parameters(), algo.agent.model.parameters(), strict=True)
    )
    algo.now.env_steps = 140
    made_up.ingest(algo, made_up.rollout(seed=9))
    assert not same()
    made_up.ingest(algo, made_up.rollout(seed=9))  # passes 200
    assert same()


def test_the_target_follows_in_updates():
    """Parr 2017: the target network is copied every so many train steps, whatever is sampled meanwhile."""
    config = DQNConfig(replay=SMALL, batch_size=32, intensity=4, target_interval=5, target_unit="updates")
    algo, _ = learner(DQN, config)
    algo.budget.set(0)
    copied, update = [], algo.target_network.update
    algo.target_network.update = lambda: (copied.append(algo.budget.updates), update())
    made = []
    for i in range(8):
        made_up.ingest(algo, made_up.rollout(seed=10 + i))
        made.append(sum(1 for _ in algo.phase()))
    updates = algo.budget.updates
    assert sum(made) == updates and copied == list(range(0, updates, 5))
    assert all(b % 5 == 0 or a // 5 == b // 5 for a, b in zip(np.cumsum(made) - made, np.cumsum(made), strict=True))


class OfServer(SingleProcess):
    """The communicator of a learner among others: the parameters have more updates than it has made."""

    made = 0

    def updates(self, own):
        return self.made


def test_schedules_follow_the_updates_of_all_learners():
    """Nair et al. 2015, section 5.1: epsilon and the target network, whatever this learner has done itself."""
    config = DQNConfig(
        replay=SMALL, batch_size=32, intensity=4, target_interval=100, target_unit="updates", epsilon_unit="updates",
        epsilon_steps=1000, epsilon_final=0.1,
    )  # fmt: skip
    algo, _ = learner(DQN, config)
    algo.communicator = server = OfServer()
    copied, update = [], algo.target_network.update
    algo.target_network.update = lambda: (copied.append(server.made), update())
    for server.made, epsilon in ((0, 1.0), (1, 0.9991), (90, 0.919), (130, 0.883), (140, 0.874), (350, 0.685)):
        made_up.ingest(algo, made_up.rollout(seed=server.made))
        assert algo.agent.epsilon == pytest.approx(epsilon)
        n = sum(1 for _ in algo.phase())
        assert n <= 100 - server.made % 100
    assert copied == [0, 130, 350], "once in each interval of 100"
    assert algo.schedules(0.0, 10**6)["epsilon"] == pytest.approx(0.685), "env steps do not count"
    again, _ = learner(DQN, config)
    again.load_state_dict(algo.state_dict())
    again.communicator, again.target_network.update = server, algo.target_network.update
    made_up.ingest(again, made_up.rollout(seed=1))
    list(again.phase())
    assert copied == [0, 130, 350], "a resumed learner does not copy again"


def test_losses_become_priorities():
    algo, flat = learner(Rainbow, RainbowConfig(replay=replace(SMALL, prioritized=True)))
    batch = algo.replay.sample(16)
    loss = made_up.update(algo, flat, batch)
    tree = algo.replay.selection.tree[algo.replay.ring.position_of(batch.cell)]
    torch.testing.assert_close(tree, (loss.error.abs() + 1e-6) ** 0.5, rtol=1e-4, atol=1e-6)
    assert float(loss.error.min()) > -1e-5  # a divergence


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replay": ReplayConfig(size=10, start=20)}, "--replay.start 20: must be at most --replay.size 10"),
        ({"replay": ReplayConfig(device="tpu", start=0)}, "--replay.device tpu"),
        ({"replay": ReplayConfig(size=10**12, start=0)}, "too much; give --replay.size"),
        ({"replay": ReplayConfig(size=40, start=0)}, "too small"),
        ({"batch_size": 700, "replay": SMALL}, "--algo.batch-size 700: must be at most"),
    ],
)
def test_impossible_settings_are_one_line(settings, message):
    config = DQNConfig(**settings)
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")) as e:
        config.check()
        config.check_sampling(5, 6)
        config.check_memory(made_up.SPEC, "cpu")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("settings", "env_steps", "decay"),
    [
        (DQNConfig(), 1_500_000, 150_000),
        (DQNConfig(), 50_000_000, 1_000_000),
        (RainbowConfig(), 500_000, 50_000),
        (RainbowConfig(), 1_000_000, 62_500),
        (DQNConfig(epsilon_steps=7), 1_500_000, 7),
        (DQNConfig(epsilon_steps=0), 1_500_000, 0),
        # 1.5 M env steps at intensity 8 are 375,000 updates on batches of 32.
        (DQNConfig(epsilon_unit="updates"), 1_500_000, 37_500),
    ],
)
def test_epsilon_falls_in_a_tenth_of_the_run_by_default(settings, env_steps, decay):
    name = "rainbow" if isinstance(settings, RainbowConfig) else "dqn"
    default = default_config(name)
    env = replace(default.env, game="pong")
    config = resolve(replace(default, env=env, algo=settings, env_steps=env_steps))
    assert config.algo.epsilon_steps == config.algo.decay_steps == decay


def test_the_horizon_follows_from_the_batch():
    assert DQNConfig(batch_size=32).horizon(16) == 2
    assert DQNConfig(batch_size=512).horizon(16) == 4
    assert DQNConfig(batch_size=2048).horizon(32) == 8


def test_a_noisy_network_needs_no_epsilon_and_its_target_noise_of_its_own():
    algo, flat = learner(Rainbow, RainbowConfig(replay=replace(SMALL, prioritized=True), noisy=True))
    assert algo.agent.epsilon == 0.0
    algo.budget.set(1)
    (batch,) = algo.batches()
    noise = [m.advantage.hidden.noise_in.clone() for m in (algo.agent.model, algo.target)]
    assert not torch.equal(*noise)
    before = flat.data.clone()
    made_up.update(algo, flat, batch)
    assert not torch.equal(before, flat.data)
