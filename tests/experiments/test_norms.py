"""The pictures of Figures 6 to 9 out of a real run."""

import pytest

from experiments import norms
from tests.integration.runs import run

RUN = (
    *("train", "dqn", "--env", "tests.catch:make", "--engine", "in-process", "--torch-threads", 1, "--network", "a3c"),
    *("--envs", 4, "--env-steps", 600, "--replay.size", 500, "--replay.start", 100, "--batch-size", 8),
    *("--intensity", 1, "--secondary.batch", 16, "--evaluation.interval", 300, "--log.interval", 200),
)


def test_a_run_with_two_learners_is_drawn(tmp_path, capsys):
    assert run(*RUN, "--log.norms", "--run-dir", tmp_path / "run").returncode == 0
    out = tmp_path / "norms.png"
    assert norms.main([str(tmp_path / "run"), "--out", str(out)]) == 0
    assert "2 learners" in capsys.readouterr().out and out.stat().st_size > 20_000


@pytest.mark.parametrize(
    ("argv", "says"), [([], "a run folder is missing"), (["x", "--out", "a.txt"], "must end in"), (["x"], "no run")]
)
def test_bad_input_is_one_line(argv, says, capsys):
    assert norms.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and len(err.splitlines()) == 1


def test_a_run_without_norms_says_so(tmp_path, capsys):
    assert run(*RUN, "--run-dir", tmp_path / "run").returncode == 0
    assert norms.main([str(tmp_path / "run")]) == 2
    assert "--log.norms" in capsys.readouterr().err
