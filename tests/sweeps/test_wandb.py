"""The command that a wandb sweep agent runs is a valid command line of accel-rl."""

from pathlib import Path

import pytest
import yaml

from accel_rl.parsing.arguments import parse
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config

EXAMPLE = Path(__file__).parent.parent.parent / "experiments" / "wandb_sweep.yaml"


@pytest.mark.slow
@pytest.mark.needs("wandb")
def test_the_example_sweeps_arguments_are_ours():
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    sweep = yaml.safe_load(EXAMPLE.read_text())
    command = sweep["command"]
    assert command[:3] == ["accel-rl", "train", "a2c"] and command[-1] == "${args}"
    chosen = {name: p.get("values", [p.get("max")])[-1] for name, p in sweep["parameters"].items()}
    args = create_sweep_command_args({"args": {k: {"value": v} for k, v in chosen.items()}})["args"]
    config = parse(TrainConfig, [*command[3:-1], *args], "", "", default_config("a2c"))
    assert (config.env.game, config.algo.learning_rate, config.sampler.envs) == ("breakout", 3e-3, 64)
    assert (config.seed, config.env_steps, config.wandb) == (1, 1_000_000, "online")
    resolve(config)


def test_runs_of_a_sweep_are_grouped_by_its_name(tmp_path, monkeypatch):
    from accel_rl.machine.machine import Machine
    from accel_rl.machine.placement import Slot
    from accel_rl.sweeps import feeder
    from accel_rl.sweeps.layout import Layout, Size
    from accel_rl.sweeps.sweep_folder import Record, SweepFolder

    started = {}

    class Process:
        pid = 1

        def __init__(self, command, env, **kwargs):
            started.update(env=env, command=command)

    monkeypatch.setattr(feeder.subprocess, "Popen", Process)
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    folder = SweepFolder(tmp_path / "my_sweep")
    (folder.path / "a").mkdir(parents=True)
    folder.write("sweep.json", {"runs": {"a": {}}})
    size = Size(2)
    layout = Layout(Machine(()), {"a": size}, {size: [Slot((3, 4), (0, 2))]})
    feeder.Feeder(folder, layout, {"a": 100}, 0, lock=0).step()
    assert folder.records["a"] == Record("running", 1, "GPUs 0,2", 1, None, folder.records["a"].started)
    assert started["env"]["WANDB_RUN_GROUP"] == "my_sweep"
    assert started["env"]["CUDA_VISIBLE_DEVICES"] == "0,2" and "3,4" in started["command"]
