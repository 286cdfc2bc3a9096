"""The choice of `--precision auto`: real runs are measured, of which only the rates are replaced."""

from dataclasses import replace

import pytest

from accel_rl.api import launch
from accel_rl.config.train import default_config
from accel_rl.models import precision
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.errors import ConfigError
from accel_rl.tuning.measured_training import MeasuredTraining


def catch():
    config = default_config("a2c")
    return replace(
        config, env=replace(config.env, id="tests.catch:make"), env_steps=160, precision="auto", torch_threads=1,
        sampler=replace(config.sampler, engine="in-process"), evaluation=replace(config.evaluation, interval=0),
    )  # fmt: skip


@pytest.fixture
def with_bfloat16(monkeypatch, tmp_path):
    """The CPU has the instructions that the fixture's caller lists."""

    def set_flags(flags):
        (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
        monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")

    return set_flags


@pytest.mark.parametrize(
    ("lower", "chosen"), [([1.4] * 5, "bfloat16"), ([1.4] * 4 + [0.9], "float32"), ([0.7] * 5, "float32")]
)
def test_the_faster_precision_is_chosen_and_stored(tmp_path, monkeypatch, capsys, with_bfloat16, lower, chosen):
    with_bfloat16("avx512_bf16")
    measured = {"float32": [], "bfloat16": []}

    def training(run, seconds):
        name = run.config.precision
        run._cycle()  # The run is a real one, which trains in its precision.
        measured[name].append(1)
        return 100.0 * (lower[len(measured[name]) - 1] if name == "bfloat16" else 1)

    monkeypatch.setattr(MeasuredTraining, "training", training)
    run, result = launch.run_new(catch(), tmp_path / "run")
    assert {name: len(turns) for name, turns in measured.items()} == {"float32": 5, "bfloat16": 5}
    assert RunFolder.open(run.path, trust=True)[1].precision == chosen and result.env_steps == 160
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith(f"--precision auto: {chosen}"))
    assert "times the speed of float32 on cpu" in line and line in (run.path / "events.log").read_text()


def test_a_cpu_without_instructions_is_not_measured(tmp_path, monkeypatch, capsys, with_bfloat16):
    with_bfloat16("avx2")
    monkeypatch.setattr(MeasuredTraining, "__init__", lambda *_, **__: pytest.fail("measured"))
    run, _ = launch.run_new(catch(), tmp_path / "run")
    assert RunFolder.open(run.path, trust=True)[1].precision == "float32"
    assert "--precision auto: float32, because this CPU has no instructions" in capsys.readouterr().out


def test_runs_on_several_machines_name_their_precision(monkeypatch):
    with pytest.raises(ConfigError, match="is not for --cluster ray: give float32 or bfloat16"):
        replace(catch(), cluster="ray").check()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="is not for torchrun: give float32 or bfloat16"):
        launch.begin(catch(), None)
