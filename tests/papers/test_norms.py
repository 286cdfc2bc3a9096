"""Figures 6 to 9 of Stooke & Abbeel 2018, drawn from a real run."""

from dataclasses import replace

import pytest

from accel_rl.cli.main import main
from accel_rl.papers import stooke
from experiments import norms
from tests.integration.runs import run
from tests.report.dummies import write_run

RUN = (
    *("train", "dqn", "--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c"),
    *("--envs", 4, "--env-steps", 600, "--replay.size", 500, "--replay.start", 100, "--batch-size", 8),
    *("--intensity", 1, "--secondary.batch", 16, "--evaluation.interval", 300, "--log.interval", 200),
)


@pytest.mark.slow
def test_a_run_with_two_learners_is_drawn(tmp_path, capsys):
    assert run(*RUN, "--log.norms", "--run-dir", tmp_path / "run").returncode == 0
    out = tmp_path / "norms.png"
    assert norms.main([str(tmp_path / "run"), "--out", str(out)]) == 0
    assert "2 learners" in capsys.readouterr().out and out.stat().st_size > 20_000
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report"), "--reps", "20"]) == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "sampler 8, secondary 16" in (tmp_path / "report" / "secondary.csv").read_text()
    assert page.index("figure 6") < page.index("Learning curves, by env steps") < page.index("by minutes")


@pytest.mark.slow
def test_runs_that_differ_by_seed_are_one_curve(tmp_path, capsys):
    columns = {name: (1.0, 2.0) for name in norms.layer_norms.titles().values()}
    for seed in (0, 1):
        config = replace(stooke.optimizers("qbert", seed=seed), env_steps=100)
        write_run(tmp_path / str(seed), config, scores=(1.0, 2.0), **columns)
    out = tmp_path / "new" / "norms.svg"
    assert norms.main([str(tmp_path / "0"), str(tmp_path / "1"), "--out", str(out)]) == 0
    assert "1 learners" in capsys.readouterr().out and out.stat().st_size > 20_000
    other = write_run(tmp_path / "2", replace(stooke.optimizers("pong"), env_steps=100), scores=(1.0, 2.0), **columns)
    assert norms.main([str(tmp_path / "0"), str(other), "--out", str(out)]) == 2
    assert "several games (pong, qbert)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"), [([], "a run folder is missing"), (["x", "--out", "a.txt"], "must end in"), (["x"], "no run")]
)
def test_bad_input_is_one_line(argv, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert norms.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and len(err.splitlines()) == 1


def test_a_run_without_norms_says_so(tmp_path, capsys):
    config = stooke.optimizers("pong")
    config = replace(config, env_steps=100, log=replace(config.log, norms=False))
    write_run(tmp_path / "run", config, scores=(1.0, 2.0))
    assert norms.main([str(tmp_path / "run")]) == 2
    assert "--log.norms" in capsys.readouterr().err
