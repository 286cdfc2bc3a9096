"""`accel-rl resume` with changed settings: which settings may change, and how each change is recorded."""

import shutil

import pytest

import accel_rl
from accel_rl.cli.main import main
from accel_rl.metrics.nested import flat
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.changeable import CHANGEABLE
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError

SMALL = {"envs": 4, "horizon": 8, "engine": "in-process", "decorrelation_steps": 0, "evaluation__interval": 0}
SMALL |= {"minibatch": 32, "epochs": 1, "checkpoint__interval": 64, "checkpoint__keep": 9, "log__interval": 32}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume") / "run"
    return accel_rl.train(
        "ppo", env="CartPole-v1", run_dir=folder, env_steps=128, learning_rate_schedule="linear", **SMALL
    )


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained.path, tmp_path / "run")
    return accel_rl.Run(tmp_path / "run")


def changes(run):
    return launches.read(RunFolder(run.path))[-1].get("settings")


def test_a_changed_rate_is_used_and_recorded(run, capsys):
    before = run.config.algo.learning_rate
    argv = ["resume", str(run.path), "--env-steps", "256", "--learning-rate", "1e-4", "--checkpoint.interval", "32"]
    assert main(argv) == 0
    assert run.metrics["learning_rate"][-1] == pytest.approx(1e-4 * (1 - 224 / 256))
    assert run.config.algo.learning_rate == 1e-4 and run.config.checkpoint.interval == 32
    recorded = changes(run)
    assert recorded["algo.learning_rate"] == {"from": before, "to": 1e-4}
    assert recorded["env_steps"] == {"from": 128, "to": 256}
    assert launches.read(RunFolder(run.path))[-1]["env_steps"] == 128
    out = capsys.readouterr().out
    assert f"--algo.learning-rate is 0.0001 from here on, {before} before" in out
    assert "ends at 256 env steps instead of 128; --schedule-steps 128 would end it as before" in out
    assert "--algo.learning-rate is 0.0001 from here on" in (run.path / "events.log").read_text()
    # The run can also be resumed from a checkpoint that was written with the earlier learning rate.
    older = sorted((run.path / "checkpoints").iterdir())[0]
    assert run.resume(checkpoint=str(older)).result.env_steps == 256


def test_a_schedule_may_end_as_before(run):
    run.resume(env_steps=192, schedule_steps=128, learning_rate=1e-4)
    assert list(run.metrics["learning_rate"])[-2:] == [0.0, 0.0] and run.config.schedule_steps == 128
    assert changes(run)["schedule_steps"] == {"from": None, "to": 128}


def test_a_run_may_end_before_its_schedules(tmp_path):
    values = {**SMALL, "learning_rate_schedule": "linear", "learning_rate": 1.0, "env_steps": 64}
    run = accel_rl.train("ppo", env="CartPole-v1", run_dir=tmp_path / "run", schedule_steps=640, **values)
    assert list(run.metrics["learning_rate"]) == pytest.approx([1.0, 0.95])


def test_an_unchanged_resume_records_no_change(run):
    with pytest.raises(ConfigError, match="is finished"):
        run.resume(learning_rate=run.config.algo.learning_rate)
    shutil.rmtree(sorted((run.path / "checkpoints").iterdir())[-1])
    assert run.resume().result.env_steps == 128 and changes(run) is None


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--gamma", "0.9"], "--algo.gamma 0.9: the run has 0.99, and a resume cannot change it; begin another run"),
        (["--envs", "8"], "--sampler.envs 8: the run has 4, and a resume cannot change it"),
        (["--learning-rate", "-1"], "--algo.learning-rate -1.0: must be"),
        (["--lr", "1"], "unknown option --lr: use --learning-rate"),
        (["--chekpoint", "x"], "unknown option --chekpoint; nearest:"),
    ],
)
def test_other_settings_are_refused_in_one_line(run, capsys, options, line):
    before = (run.path / "config.json").read_bytes()
    assert main(["resume", str(run.path), *options]) == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1
    assert (run.path / "config.json").read_bytes() == before


def test_python_refuses_them_as_well(run):
    with pytest.raises(ConfigError, match=r"--algo.gamma 0.9: the run has 0.99"):
        run.resume(gamma=0.9)


def test_a_checkpoint_with_another_rate_is_of_another_run(trained, run, tmp_path):
    values = {**SMALL, "learning_rate_schedule": "linear", "learning_rate": 0.5, "env_steps": 128}
    other = accel_rl.train("ppo", env="CartPole-v1", run_dir=tmp_path / "other", **values)
    checkpoint = sorted((other.path / "checkpoints").iterdir())[0]
    with pytest.raises(ConfigError, match=r"of another run \(--algo.learning-rate 0.5"):
        run.resume(checkpoint=str(checkpoint))


def test_the_table_has_settings_of_this_version():
    names = dict(flat(default_config("ppo").to_dict()))
    assert set(CHANGEABLE) <= set(names)


def test_help_lists_them(capsys):
    with pytest.raises(SystemExit):
        main(["resume", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "--algo.learning-rate" in out and "--schedule-steps" in out and "--checkpoint.interval" in out
