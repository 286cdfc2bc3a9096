"""`accel-rl tune`: real searches of a few seconds on Pong, described machines, and the preset `tuned`."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import accel_rl
from accel_rl.cli.main import main
from accel_rl.cli.train_command import parse_train
from accel_rl.config import tuned
from accel_rl.config.advice import limit
from accel_rl.config.train import default_config
from accel_rl.config.tuned import Tuned, find_tuned, machine_name, read_tuned, tuned_file, write_tuned
from accel_rl.system.errors import ConfigError

ONE_GPU = 'cores = 16\nmemory = "128 GiB"\ngpus = {number = 1, memory = "80 GiB"}\n'
SMALL = ["--decorrelation-steps", "0", "--network", "a3c"]
RUN = ["--env-steps", "128", "--envs", "4", "--horizon", "8", "--evaluation.interval", "0", *SMALL]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def pong(**settings) -> Tuned:
    shares = {"emulation": 0.1, "inference": 0.2, "updates": 0.7}
    return Tuned(machine_name(), "ppo", "pong", settings, 1000.0, (1.1, 1.0, 1.2), shares, "2026-11-26")


@pytest.mark.parametrize("words", [["a2c"], pytest.param(["dqn", "--replay.start", "100"], marks=pytest.mark.slow)])
def test_a_search_stores_a_preset_that_trains(words, capsys):
    others = psutil.Process().children()
    assert main(["tune", *words, "--game", "pong", "--seconds", "1", "--envs", "4", *SMALL]) == 0
    out = capsys.readouterr().out
    assert re.search(r"parts: emulation [\d,]+ env steps/s a core; updates [\d,]+ with 1 thread", out)
    assert re.search(r"\nfastest: .* env steps/s", out) and re.search(r"\nlimit: \w+: \d+ % of the time", out)
    assert "--preset tuned" in out and len(read_tuned()) == 1
    found = find_tuned(words[0], "pong")
    assert found is not None and found.rate > 0 and sum(found.shares.values()) == pytest.approx(1)
    assert found.settings["sampler.envs"] == 4 and found.settings["sampler.decorrelation_steps"] == 0
    assert set(psutil.Process().children()) <= set(others)
    config = parse_train([words[0], "--game", "pong", "--preset", "tuned"], "", "")
    assert (config.preset, config.sampler.envs, config.algo.network) == ("tuned", 4, "a3c")


@pytest.mark.slow
def test_a_search_of_a_gymnasium_environment(capsys):
    small = ["--seconds", "2", "--envs", "4", "--engine", "in-process", "--minibatch", "32"]
    assert main(["tune", "ppo", "--env", "CartPole-v1", *small]) == 0
    out = capsys.readouterr().out
    assert "accel-rl train ppo --env CartPole-v1 --preset tuned" in out and "--engine" not in out


@pytest.mark.slow
def test_ctrl_c_ends_a_search_and_leaves_nothing_behind(folder):
    words = ["tune", "a2c", "--game", "pong", "--seconds", "300", "--envs", "4", *SMALL]
    process = subprocess.Popen([sys.executable, "-m", "accel_rl", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if " s  defaults:" in line:
            children = psutil.Process(process.pid).children()
            process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130 and "nothing is stored" in lines[-1] and not tuned_file().exists()
    assert children and not any(p.is_running() for p in children)
    assert not list(folder.glob("accel_rl-tune-*"))


def test_the_preset_reaches_a_run_its_config_and_a_resume(folder, capsys):
    write_tuned(pong(**{"sampler.workers": 1, "sampler.groups": 1, "torch_threads": 1}))
    run = accel_rl.train("ppo", game="pong", preset="tuned", run_dir=str(folder / "run"), env_steps=128, envs=4,
                         horizon=8, evaluation__interval=0, decorrelation_steps=0, network="a3c")  # fmt: skip
    stored = json.loads((run.path / "config.json").read_text())
    assert (stored["preset"], stored["torch_threads"], stored["sampler"]["workers"]) == ("tuned", 1, 1)
    tuned_file().unlink()
    assert main(["resume", str(run.path), "--env-steps", "256"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"time: sampling \d+ %, updates \d+ %, other \d+ %; ", out)
    write_tuned(pong(torch_threads=1))
    words = ["--preset", "tuned", *RUN, "--engine", "in-process", "--run-dir", str(folder / "other")]
    assert main(["train", "ppo", "--game", "pong", *words]) == 0
    assert json.loads((folder / "other/config.json").read_text())["torch_threads"] == 1


def test_options_override_the_preset():
    write_tuned(pong(torch_threads=1))
    words = ["ppo", "--game=pong", "--preset", "tuned", "--torch-threads", "2"]
    assert parse_train(words, "", "").torch_threads == 2


def test_a_later_search_replaces_the_settings_of_the_same_run():
    write_tuned(pong(torch_threads=1))
    write_tuned(replace(pong(torch_threads=4), environment="breakout"))
    write_tuned(pong(torch_threads=2))
    assert [(t.environment, t.settings["torch_threads"]) for t in read_tuned()] == [("breakout", 4), ("pong", 2)]
    assert read_tuned()[1] == pong(torch_threads=2)


def refused(*words: str) -> str:
    with pytest.raises(ConfigError) as e:
        parse_train([*words, "--preset", "tuned"], "", "")
    assert "\n" not in str(e.value)
    return str(e.value)


def test_without_a_search_the_preset_names_the_command():
    assert "run accel-rl tune ppo --game pong first" in refused("ppo", "--game", "pong")
    assert "run accel-rl tune ppo --env CartPole-v1 first" in refused("ppo", "--env", "CartPole-v1")
    with pytest.raises(ConfigError, match="run accel-rl tune a2c --game pong first"):
        accel_rl.train("a2c", game="pong", preset="tuned")


def test_the_preset_of_another_machine_is_refused():
    write_tuned(replace(pong(torch_threads=1), machine="64 cores of Another CPU"))
    assert "tuned on 64 cores of Another CPU, and this machine has" in refused("ppo", "--game", "pong")


def test_a_preset_that_does_not_fit_or_is_broken_is_refused():
    write_tuned(pong(**{"sampler.no_such_setting": 1}))
    assert "sampler.no_such_setting=1 does not fit this version" in refused("ppo", "--game", "pong")
    tuned_file().write_text("{")
    assert f"{tuned_file()} is no file of tuned settings" in refused("ppo", "--game", "pong")
    tuned_file().write_text('[{"machine": "x"}]')
    assert "is no file of tuned settings" in refused("ppo", "--game", "pong")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "the algorithm (ppo, or module:Class) is missing"),
        (["ppo"], "the environment is missing"),
        (["ppoo", "--game", "pong"], "nearest: ppo"),
        (["ppo", "--game", "pon"], "nearest: pong"),
        (["ppo", "--game", "pong", "--seconds", "0"], "--seconds 0: must be 1 to 3600"),
        (["ppo", "--game", "pong", "--machine", "no.toml"], "no.toml"),
        (["ppo", "--game", "pong", "--step-rate", "9"], "only with --machine"),
        (["ppo", "--game", "pong", "--ranks", "2"], "a run of one rank is tuned"),
        (["dqn", "--game", "pong", "--schedule", "concurrent"], "measures the schedule lockstep"),
        (["ppo", "--game", "pong", "--envs", "3", "--groups", "2"], "B=3 must divide by"),
    ],
)
def test_bad_input_is_one_line(words, part, capsys):
    assert main(["tune", *words]) == 2
    assert part in (err := capsys.readouterr().err) and err.count("\n") == 1


def test_a_described_machine_of_16_cores_and_a_gpu(folder, capsys):
    (folder / "machine.toml").write_text(ONE_GPU)
    tune = ["tune", "ppo", "--game", "pong", "--machine", str(folder / "machine.toml")]
    rates = ["--inference-rate", "200000", "--update-rate", "60000"]
    assert main([*tune, "--step-rate", "1000", *rates]) == 0
    out = capsys.readouterr().out
    # 8 of 15 workers divide 16 environments: 1 / (1 / 8,000 + 1 / 60,000) env steps/s.
    assert "default: 16 environments in 2 groups on 8 workers" in out
    assert "7,059 env steps/s (estimated), limited by emulation" in out
    # With 30 environments, 15 workers: 1 / (1 / 15,000 + 1 / 60,000).
    assert "other T x B: --envs 30: " in out and "12,000 env steps/s (estimated), 1.70 x the default" in out
    assert "not known" not in out and not tuned_file().exists()


def test_step_times_of_this_machine_are_an_upper_bound_without_its_gpu(folder, capsys):
    (folder / "machine.toml").write_text(ONE_GPU)
    tune = ["tune", "a2c", "--game", "pong", "--machine", str(folder / "machine.toml"), "--seconds", "1"]
    assert main([*tune, "--envs", "8", *SMALL]) == 0
    out = capsys.readouterr().out
    assert re.search(r"measured here: emulation [\d,]+ env steps/s on one core", out) and "(estimated)" in out
    assert "not known: inference and update on the GPU (--inference-rate and --update-rate)" in out


def test_doctor_reports_what_limits_a_tuned_run(capsys):
    main(["doctor", "ppo", "--game", "pong"])
    assert "speed        not measured: accel-rl tune ppo --game pong\n" in capsys.readouterr().out
    write_tuned(pong(torch_threads=1))
    main(["doctor", "ppo", "--game", "pong"])
    assert (
        "1,000 env steps/s with --preset tuned, 2026-11-26; limit: updates: 70 % of the time" in capsys.readouterr().out
    )


def test_the_line_at_the_end_of_a_run(monkeypatch):
    config = default_config("ppo")
    config = replace(config, env=replace(config.env, game="pong"))
    monkeypatch.setattr("accel_rl.config.advice.gains_from_bfloat16", lambda: True)
    updates = {"sampling": 0.28, "updates": 0.7, "other": 0.02}
    line = limit(config, updates)
    assert line.startswith("time: sampling 28 %, updates 70 %, other 2 %; accel-rl tune ppo --game pong measures")
    assert "--precision bfloat16, which changes the numbers" in line
    assert "bfloat16" not in limit(replace(config, precision="bfloat16"), updates)
    assert "bfloat16" not in limit(config, {"sampling": 0.7, "updates": 0.3, "other": 0.0})
    assert "--evaluation.interval" in limit(config, {"sampling": 0.1, "updates": 0.2, "other": 0.7})
    assert "the placement is tuned" in limit(replace(config, preset=tuned.NAME), updates)
    assert limit(config, {}) == ""


def test_a_file_elsewhere(monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert tuned_file() == Path("/somewhere/.config/accel_rl/tuned.json")


def test_a_mistyped_flag_of_the_command_itself_is_suggested(capsys):
    assert main(["tune", "ppo", "--game", "pong", "--second", "5"]) == 2
    assert "unknown option --second; nearest: --seconds," in capsys.readouterr().err
