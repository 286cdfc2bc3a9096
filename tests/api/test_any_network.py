"""The whole network is saved, exported, copied and evaluated, whatever its modules are."""

import json
import shutil
import stat

import numpy as np
import pytest
import torch

import accel_rl
from accel_rl.api.keywords import settings
from accel_rl.checkpoints import generator_state
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.main import main
from accel_rl.models.network_state import network_state
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.resolved import resolve
from accel_rl.text.errors import ConfigError
from accel_rl.training.build_trainer import build_trainer
from accel_rl.training.learner import Learner
from accel_rl.training.seeds import Stream, derived_seed
from accel_rl.training.stored_agents import BestAgent
from accel_rl.training.trainer import Trainer
from tests.api.networks import VALUE_FIRST
from tests.marks import slow

SHORT = {"env": "CartPole-v1", "envs": 8, "horizon": 8, "minibatch": 32, "epochs": 2, "decorrelation_steps": 0}
SHORT |= {"engine": "in-process", "log__interval": 64}


def marked(*quick: str, others: tuple[str, ...]):
    """Parametrize a test by algorithms of tests/api/networks.py. The tests of the algorithms in `others` are slow
    tests."""
    return pytest.mark.parametrize("algorithm", [*quick, *(slow(name) for name in others)])


def train(algorithm: str, folder, **values):
    return accel_rl.train(f"tests.api.networks:{algorithm}", run_dir=folder, **{"env_steps": 128, **SHORT, **values})


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """stored(algorithm) returns a finished run of the algorithm, which is trained at the first call."""
    made = {}

    def run(algorithm):
        if algorithm not in made:
            made[algorithm] = train(algorithm, tmp_path_factory.mktemp(algorithm) / "run", evaluation__interval=0)
        return made[algorithm]

    return run


@pytest.fixture
def finished(stored, tmp_path):
    """finished(algorithm) returns a copy of the run stored(algorithm), which the test may change."""
    return lambda name: accel_rl.Run.load(shutil.copytree(stored(name).path, tmp_path / name), trust=True)


def networks(run) -> list[dict[str, torch.Tensor]]:
    """Return the network of the newest checkpoint, of best/, of the loaded agent and of an exported model."""
    model = run.export(run.path / "model")
    saved = Checkpoints(run.path / "checkpoints").load_latest()[1]["learner"]["network"]
    best = BestAgent(RunFolder(run.path)).load()["learner"]["network"]
    return [saved, best, *(network_state(x.agent.agent.model) for x in (run, model))]


@marked("BatchNormPPO", "SharedPPO", others=("DropoutPPO", "FrozenPPO", "NormalizedPPO", "OrthogonalPPO"))
def test_a_loaded_network_is_the_trained_one_and_scores_the_same(tmp_path, monkeypatch, algorithm):
    trained = []
    monkeypatch.setattr(Trainer, "_close", lambda self, close=Trainer._close: (trained.append(self), close(self)))
    run = train(algorithm, tmp_path / "run", evaluation__interval=128, evaluation__episodes=3)
    (trainer,) = trained
    whole = network_state(trainer.learner.algo.agent.model)
    initial = network_state(Learner(run.config, trainer.config.spec, "cpu", seed=5).algo.agent.model)
    assert any(not torch.equal(whole[name], initial[name]) for name in whole)
    for found in networks(run):
        assert found.keys() == whole.keys()
        assert all(torch.equal(found[name], whole[name]) and found[name].dtype == whole[name].dtype for name in whole)
    seed = derived_seed(run.config.seed, Stream.EVALUATION, 128)
    for x in (run, accel_rl.Run.load(run.path / "model", trust=True)):
        assert x.evaluate(episodes=3, seed=seed).scores == run.result.evaluation.scores


def test_files_of_a_model_can_be_read_by_others(finished, tmp_path):
    model = finished("FrozenPPO").export(tmp_path / "model")
    (tmp_path / "new").write_text("")
    usual = stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert {stat.S_IMODE(f.stat().st_mode) for f in model.path.iterdir()} == {usual}


@marked("BatchNormPPO", "PredictionPPO", others=("DropoutPPO", "FrozenPPO", "NormalizedPPO"))
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, algorithm):
    values = {"env_steps": 256, "checkpoint__interval": 64, "checkpoint__keep": 9, "evaluation__interval": 0}
    whole = train(algorithm, tmp_path / "run", **values)
    shutil.copytree(whole.path, tmp_path / "again")
    for steps in (192, 256):
        shutil.rmtree(Checkpoints(tmp_path / "again" / "checkpoints").path(steps))
    resumed = accel_rl.Run.load(tmp_path / "again", trust=True).resume()
    assert (whole.metrics["loss"] == resumed.metrics["loss"]).all() and len(whole.metrics["loss"]) == 4
    one, two = (Checkpoints(x.path / "checkpoints").path(256) for x in (whole, resumed))
    assert (one / "state.safetensors").read_bytes() == (two / "state.safetensors").read_bytes()


def test_targets_and_acting_copies_are_whole(tmp_path):
    config = resolve(settings(
        "tests.api.networks:BatchNormDQN", "CartPole-v1",
        dict(envs=4, horizon=5, replay__size=2000, replay__start=40, target_interval=40, engine="in-process",
             evaluation__interval=0, schedule="concurrent", secondary__batch=16),
    ))  # fmt: skip
    trainer = build_trainer(config, RankPlan.resolve(config), RunFolder.create(tmp_path / "run", config))
    algo = trainer.learner.algo
    try:
        for _ in range(4):
            trainer.schedule.cycle(10_000)
        learned = network_state(algo.agent.model)
        assert learned["front.num_batches_tracked"] > 0 and learned["front.running_mean"].any()
        for learner in trainer.learners:
            learner.algo.target_network.update()
            mine, target = (network_state(x) for x in (learner.algo.agent.model, learner.algo.target))
            assert all(torch.equal(mine[name], target[name]) for name in mine)
        trainer.schedule.cycle(10_000)
        acting, target = (network_state(x) for x in (trainer.schedule.behaviour.model, algo.target))
        assert all(torch.equal(acting[name], target[name]) for name in acting)
        assert not algo.target.training and not trainer.schedule.behaviour.model.training
    finally:
        trainer._close()


def test_a_second_learner_begins_with_the_whole_network(tmp_path):
    config = resolve(settings(
        "tests.api.networks:BatchNormDQN", "CartPole-v1",
        dict(envs=4, replay__size=2000, replay__start=40, engine="in-process", secondary__batch=16),
    ))  # fmt: skip
    trainer = build_trainer(config, RankPlan.resolve(config), RunFolder.create(tmp_path / "run", config))
    one, two = (network_state(x.algo.agent.model) for x in trainer.learners)
    assert all(torch.equal(one[name], two[name]) for name in one)
    trainer._close()


@marked("BatchNormPPO", "NoisePPO", others=("DropoutPPO",))
def test_evaluations_change_nothing(stored, tmp_path, algorithm):
    without = stored(algorithm)
    evaluated = train(algorithm, tmp_path / "b", evaluation__interval=64, evaluation__episodes=3)
    assert (without.metrics["loss"] == evaluated.metrics["loss"]).all()
    one, two = (network_state(x.agent.agent.model) for x in (without, evaluated))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_acting_and_evaluating_are_in_eval_mode(finished, tmp_path):
    run = finished("BatchNormPPO")
    assert run.load_agent(greedy=True).act(np.zeros(4, np.float32)) in (0, 1)
    assert run.evaluate(episodes=1, parallel=1).scores
    run = finished("DropoutPPO")
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    agent = run.load_agent(greedy=True)
    assert (agent.act(obs) == agent.act(obs)).all()


def test_updates_are_in_train_mode_and_sampling_is_not(tmp_path, monkeypatch):
    from tests.api import networks

    modes: dict[bool, set[bool]] = {True: set(), False: set()}
    forward = networks.Net.forward

    def noted(self, obs):
        modes[torch.is_grad_enabled()].add(self.training)
        return forward(self, obs)

    monkeypatch.setattr(networks.Net, "forward", noted)
    train("DropoutPPO", tmp_path / "run", evaluation__interval=0)
    # Forward passes with gradients are in training mode, those for acting and bootstrapping in evaluation mode.
    assert modes == {True: {True}, False: {False}}


def test_loading_leaves_the_callers_random_numbers(finished, tmp_path):
    run = finished("DropoutPPO")
    torch.manual_seed(7)
    before = torch.get_rng_state()
    run.load_agent(greedy=True)
    run.evaluate(episodes=1, parallel=1)
    assert torch.equal(torch.get_rng_state(), before)


# -- by name ------------------------------------------------------------


def test_layers_in_another_order_are_loaded_by_name(finished, tmp_path, monkeypatch):
    run = finished("OrderedPPO")
    model = run.export(tmp_path / "model")
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    before = run.load_agent(greedy=True).act(obs)
    scores = run.evaluate(2, parallel=2).scores
    monkeypatch.setenv(VALUE_FIRST, "1")
    for x in (run, model):
        assert next(iter(network_state(x.agent.agent.model))).startswith("v")
        assert (x.load_agent(greedy=True).act(obs) == before).all() and x.evaluate(2, parallel=2).scores == scores


def test_the_optimizers_state_follows_the_names(finished, tmp_path, monkeypatch):
    run = finished("OrderedPPO")
    config = resolve(run.config)
    spec = config.spec
    _, state = Checkpoints(run.path / "checkpoints").load_latest()

    def moments() -> dict[str, torch.Tensor]:
        learner = Learner(config, spec, "cpu", seed=1)
        learner.load_state_dict(state["learner"])
        return learner.flat.by_name(learner.gradient_sync.guarded.optimizer.square)

    before = moments()
    monkeypatch.setenv(VALUE_FIRST, "1")
    after = moments()
    assert list(before) != list(after) and before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) and before[name].any() for name in before)
    assert accel_rl.Run.load(run.path, trust=True).resume(192).result.env_steps == 192


@pytest.mark.parametrize(
    ("algorithm", "line"),
    [
        ("OrderedPPO", "the saved network has no 'body.0.weight', which the network has ([32, 4] float32)"),
        ("BatchNormPPO", "the saved network has 'front.bias' ([4] float32), which the network has not"),
    ],
)
def test_another_network_is_refused_in_one_line(finished, tmp_path, capsys, algorithm, line):
    run = finished(algorithm)
    model = run.export(tmp_path / "model")
    for folder in (run.path, model.path):
        values = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**values, "algorithm": "tests.api.networks:FrozenPPO"}))
        assert main(["evaluate", str(folder), "--trust", "--episodes", "1"]) == 2
        assert f"accel-rl: {line}" in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_run_with_another_network_is_not_resumed(finished, tmp_path, capsys):
    run = finished("NormalizedPPO")
    values = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**values, "algorithm": "tests.api.networks:BatchNormPPO"}))
    steps, state = Checkpoints(run.path / "checkpoints").load_latest()
    state["config"]["algorithm"] = "tests.api.networks:BatchNormPPO"
    Checkpoints(run.path / "checkpoints").save(steps, state)
    assert main(["resume", str(run.path), "--trust", "--env-steps", "256"]) == 2
    line = "the checkpoint has no 'front.weight', which the network has ([4] float32); nearest: front.mean"
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"accel-rl: {line}"


@pytest.mark.parametrize("name", ["model.json", "checkpoints/000000000128/MANIFEST.json"])
def test_another_format_is_refused_by_both_names(finished, tmp_path, capsys, name):
    run = finished("FrozenPPO")
    folder = run.export(tmp_path / "model").path if name == "model.json" else run.path
    values = json.loads((folder / name).read_text())
    format_ = values["format"]
    older = format_[:-1] + "1"
    (folder / name).write_text(json.dumps({**values, "format": older}))
    assert main(["evaluate", str(folder), "--trust", "--episodes", "1"]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"its format is {older!r}, and this version of accel_rl reads {format_!r}" in line


def test_a_network_that_cannot_be_trained_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match=r"the network's 'body\.0\.weight' has no shape yet"):
        train("LazyPPO", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -- several processes ------------------------------------------------------------


@pytest.mark.slow
def test_synchronous_ranks_have_the_same_buffers(tmp_path):
    run = train("BatchNormPPO", tmp_path / "run", evaluation__interval=0, ranks=2)
    one, two = (
        Checkpoints(folder / "checkpoints").load_latest()[1]["learner"]["network"]
        for folder in (run.path, run.path / "ranks" / "1")
    )
    assert one["front.running_mean"].any() and one["front.num_batches_tracked"] > 0
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_synchronous_ranks_have_the_same_learning_rate(tmp_path):
    """The learning rate is equal on all ranks, although each rank measures the KL divergence of its own samples."""
    options = {"learning_rate_schedule": "kl", "schedule_kl": 3e-4, "evaluation__interval": 0, "ranks": 2}
    run = accel_rl.train("ppo", run_dir=tmp_path / "run", **{**SHORT, **options, "env_steps": 640})
    one, two = (
        Checkpoints(folder / "checkpoints").load_latest()[1]["learner"]
        for folder in (run.path, run.path / "ranks" / "1")
    )
    assert one["algo"]["doublings"] == two["algo"]["doublings"] != 0
    assert all(torch.equal(x, two["network"][name]) for name, x in one["network"].items())
    assert len(set(run.metrics["learning_rate"])) > 1


def test_a_cluster_refuses_what_its_shards_do_not_hold(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"--cluster gorila: the shards hold .* buffers \(front.running_mean\)"):
        train("BatchNormPPO", tmp_path / "run", cluster="gorila")
    assert not (tmp_path / "run").exists()


# -- other machines ------------------------------------------------------------


def test_a_model_of_another_machine_is_evaluated(stored, tmp_path):
    """A model can be evaluated although its config.json names a GPU and CPU cores that this machine does not have."""
    folder = stored("FrozenPPO").export(tmp_path / "model").path
    file = folder / "config.json"
    values = json.loads(file.read_text())
    change = {"device": "cuda:7", "sampler": {"cores": [998, 999], "workers": 64}, "log": {"tensorboard": True}}
    for name, x in change.items():
        values[name] = {**values[name], **x} if isinstance(x, dict) else x
    file.write_text(json.dumps(values))
    assert main(["evaluate", str(folder), "--trust", "--episodes", "1"]) == 0
    model = accel_rl.Run.load(folder, trust=True)
    assert model.agent.act(np.zeros(4, np.float32)) in (0, 1)
    again = model.export(tmp_path / "again")
    assert json.loads((again.path / "config.json").read_text()) == {**values, "run_dir": ""}


def test_a_run_continues_on_another_device(finished, tmp_path, capsys):
    run = finished("FrozenPPO")
    file = run.path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "device": "cuda:7"}))
    words = ["resume", str(run.path), "--trust", "--env-steps", "192"]
    assert main(words) == 2 and "--device cuda:7: not available" in capsys.readouterr().err
    assert main([*words, "--device", "cpu"]) == 0 and run.config.device == "cpu"
    assert "continued on cpu" in (run.path / "events.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_q_learner_of_a_gpu_continues_on_a_cpu(tmp_path, monkeypatch, prioritized):
    """A Q-learner's run on a GPU continues on a CPU, although the state of a CUDA generator (16 bytes) is no CPU
    generator's state (5,056 bytes)."""
    run = accel_rl.train(
        "dqn", env="CartPole-v1", envs=4, env_steps=80, log__interval=40, intensity=4, replay__size=1_000,
        replay__start=40, engine="in-process",
        replay__prioritized=prioritized, evaluation__interval=0, decorrelation_steps=0, run_dir=tmp_path / "run",
    )  # fmt: skip
    checkpoints = Checkpoints(run.path / "checkpoints")
    steps, state = checkpoints.load_latest()
    selection = state["learner"]["algo"]["replay"]["selection"]
    selection["generator"] = state["gpu_rng"] = torch.arange(16, dtype=torch.uint8)
    checkpoints.save(steps, state)
    shutil.copytree(run.path, tmp_path / "again")
    said: list[str] = []
    monkeypatch.setattr(generator_state, "say_once", said.append)
    once = run.resume(160)
    assert len(said) == 2 and all(line.startswith("the run continues on another kind of device") for line in said)
    twice = accel_rl.Run.load(tmp_path / "again", trust=True).resume(160)
    assert once.result.env_steps == 160 and (once.metrics["loss"] == twice.metrics["loss"])[1:].all()
