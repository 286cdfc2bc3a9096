"""How a notebook displays a run."""

import subprocess
import sys

import pytest

import accel_rl
from accel_rl import ConfigError
from tests.report.dummies import dummy


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return accel_rl.train(
        "ppo", env="CartPole-v1", envs=4, horizon=64, minibatch=64, engine="in-process", env_steps=1_024, clip=0.3,
        evaluation__interval=1_024, evaluation__episodes=2, decorrelation_steps=0, seed=3,
        run_dir=tmp_path_factory.mktemp("notebook") / "a<b",
    )  # fmt: skip


def test_a_run_shows_its_settings_and_scores(run):
    html = run._repr_html_()
    for text in (
        "a&lt;b",
        "ppo",
        "CartPole-v1",
        "algo.clip=0.3",
        "1,024 of 1,024",
        "last evaluation",
        "minutes",
        "<img",
    ):
        assert text in html
    assert "seed=3" not in html and "<th>seed</th><td>3</td>" in html


def test_a_curve_is_a_picture(run, rendered, tmp_path):
    picture = run.plot("entropy", x="minutes")
    assert picture._repr_png_().startswith(b"\x89PNG") and len(picture) > 5_000 and "bytes" in repr(picture)
    assert picture.save(tmp_path / "x.png").read_bytes() == picture
    with pytest.raises(ConfigError, match="no column 'entrop'; nearest: entropy"):
        run.plot("entrop")


def test_a_run_without_rows_has_no_picture(tmp_path):
    html = accel_rl.Run(dummy(tmp_path / "empty", scores=()))._repr_html_()
    assert "0 of 3,000" in html and "<img" not in html


def test_results_print_in_one_line(run):
    assert repr(run.evaluate(2)).startswith("Evaluation(mean=")
    assert str(run.result).startswith("1,024 env steps in ") and "(2 episodes)" in str(run.result)
    assert "\n" not in str(run.result) and len(str(run.result)) < 120


def test_a_video_is_shown(tmp_path):
    for name, tag in (("x.gif", "<img"), ("x.mp4", "<video")):
        (tmp_path / name).write_bytes(b"pictures")
        assert tag in accel_rl.api.notebook.Video(tmp_path / name)._repr_html_()
    assert accel_rl.api.notebook.Video(tmp_path / name).parent == tmp_path


@pytest.mark.slow
def test_a_plot_leaves_the_notebooks_backend(run):
    """A plot of a run must not call matplotlib.use or add a figure to pyplot."""
    code = (
        f"import accel_rl, sys; accel_rl.Run({str(run.path)!r}).plot(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
