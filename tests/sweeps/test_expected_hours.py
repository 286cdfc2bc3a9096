"""Expected hours of a sweep's runs, from the env steps/s of earlier runs."""

import json
from dataclasses import replace

import pytest

from accel_rl.settings.train import default_config
from accel_rl.sweeps import expected_hours, sweep_command
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.text.errors import ConfigError

HOUR = 3600


def run(folder, algorithm, rate):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"algorithm": algorithm}))
    (folder / "metrics.csv").write_text(f"env_steps,score,steps_per_s\n1,1,7\n2,1,{rate}\n")


def test_rates_are_medians_of_earlier_runs(tmp_path):
    for i, rate in enumerate((100, 300, 200)):
        run(tmp_path / f"sweep/run{i}", "ppo", rate)
    run(tmp_path / "alone", "dqn", 50)
    run(tmp_path / "begun", "a2c", "")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("[")
    assert expected_hours.measured_rates(tmp_path) == {"ppo": 200, "dqn": 50}


def test_hours_are_those_of_all_runs():
    ppo, dqn = (replace(default_config(name), env_steps=200 * HOUR) for name in ("ppo", "dqn"))
    lines = expected_hours.describe([ppo, ppo, dqn], {"ppo": 100.0}, at_once=2)
    assert lines == [
        "about 4.0 hours of training (ppo at 100 env steps/s), 2.0 hours with 2 runs at the same time",
        "hours unknown for 1 run of dqn: --rate dqn=ENV_STEPS_PER_S",
    ]
    assert expected_hours.describe([ppo], {"ppo": 1e3}, 1) == [
        "about 12 minutes of training (ppo at 1,000 env steps/s)"
    ]


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan", "inf"])
def test_a_rate_is_a_positive_number(text):
    with pytest.raises(ConfigError, match=f"--rate ppo={text}: must be env steps/s above 0, such as ppo=2000"):
        expected_hours.given_rates([f"ppo={text}"])


def test_a_command_runs_when_the_sweep_ends(tmp_path, capfd):
    folder = SweepFolder(tmp_path / "sweep")
    assert sweep_command.done(folder, 1, 'echo "$ACCEL_RL_SWEEP ended with $ACCEL_RL_EXIT_CODE"') == 1
    assert capfd.readouterr().out == f"{tmp_path / 'sweep'} ended with 1\n"
    assert sweep_command.done(folder, 0, "exit 3") == 0
    assert "--when-done exit 3: exit code 3" in capfd.readouterr().out
