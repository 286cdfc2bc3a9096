import json

import numpy as np
import pytest

from accel_rl.cli.main import main
from accel_rl.metrics.plot import Curve, Labelled, colours, columns_of, draw, gather, read_column
from accel_rl.report.labels import labelled, labels
from accel_rl.settings.train import TrainConfig, default_config, read_settings
from accel_rl.text.errors import ConfigError
from tests.report.dummies import dummy


def make_run(folder, rows, seed=0, **changes):
    config = default_config("a2c").to_dict()
    config |= {"seed": seed, "run_dir": str(folder)} | {k: v for k, v in changes.items() if k not in ("game", "rate")}
    config["env"]["game"] = changes.get("game", "pong")
    config["algo"]["learning_rate"] = changes.get("rate", 7e-4)
    TrainConfig.from_dict(config)  # it is one
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    lines = [f"{x},{'' if y is None else y},{10 * x}" for x, y in rows]
    (folder / "metrics.csv").write_text("\n".join(["env_steps,score,wall_s", *lines]) + "\n")
    return folder


def gathered(runs, x, y):
    columns = columns_of(runs, x, y)
    return gather(columns, labelled([read_settings(run) for run in columns]))


def test_runs_that_differ_by_seed_alone_are_one_curve(tmp_path):
    runs = [
        make_run(tmp_path / "a", [(0, 1), (100, 3)], seed=0),
        make_run(tmp_path / "b", [(0, 3), (50, 4), (100, 9)], seed=1, wandb="offline"),
        make_run(tmp_path / "c", [(0, 0), (10, 1)], seed=0, game="breakout"),
        make_run(tmp_path / "d", [(0, 5), (10, 6)], seed=5, rate=1e-3),
        make_run(tmp_path / "e", [(0, 2), (100, 6)], seed=2),
    ]
    curves = gathered(runs, "env_steps", "score")
    assert [(c.game, c.legend) for c in curves] == [
        ("pong", "A2C-16env, learning_rate=0.0007, 3 seeds, unfinished (o)"),
        ("breakout", "A2C-16env, learning_rate=0.0007, unfinished (o)"),
        ("pong", "A2C-16env, learning_rate=0.001, unfinished (o)"),
    ]
    assert [len(c.x) for c in curves] == [3, 1, 1]
    x, mean, low, high = curves[0].band(3)
    assert x.tolist() == [0, 50, 100]
    assert mean.tolist() == [2, (2 + 4 + 4) / 3, 6]
    assert low.tolist() == [1, 2, 3] and high.tolist() == [3, 4, 9]


def test_runs_without_values_are_left_out_with_a_note(tmp_path, logged):
    good = make_run(tmp_path / "a", [(0, 1), (100, 3)])
    for name, text in (("b", ""), ("c", "env_steps,score,wall_s\n1,,1\n"), ("d", "env_steps,wall_s\n1,1\n")):
        (make_run(tmp_path / name, [(1, 1)], seed=ord(name)) / "metrics.csv").write_text(text)
    (curve,) = gathered([good, *(tmp_path / name for name in "bcd")], "env_steps", "score")
    assert len(curve.x) == 1
    assert [line.endswith(": left out") for line in logged] == [True] * 3
    assert "no rows yet" in logged[0] and "no value of 'score' yet" in logged[1] and "no column 'score'" in logged[2]


def test_labels_have_only_what_changes_learning_and_differs():
    ppo = {"algorithm": "ppo", "sampler.envs": 16, "algo.learning_rate_schedule": "linear", "env_steps": 100}
    other = {"callback": ["SaveBest"], "evaluation.interval": 5, "log.interval": 9, "wandb": "online", "preset": "sb3"}
    assert len({*labels([ppo, ppo | other | {"seed": 1}])}) == 1
    constant = ppo | {"algo.learning_rate_schedule": "constant"}
    assert len({*labels([constant, constant | {"env_steps": 200}])}) == 1
    short, long, rate = labels([ppo, ppo | {"env_steps": 200}, ppo | {"algo.learning_rate": 2e-3}])
    assert short.endswith("env_steps=100, learning_rate=0.001") and long.endswith("env_steps=200, learning_rate=0.001")
    assert rate.endswith("env_steps=100, learning_rate=0.002")
    # A setting that one run's config.json lacks, as in an earlier version, is not a difference between runs.
    assert len({*labels([ppo, ppo | {"algo.learning_rate": 1e-3}])}) == 1


def test_a_band_ends_with_the_longest_run():
    curve = Curve("x", [np.array([0.0, 10.0]), np.array([5.0, 20.0])], [np.array([0.0, 10.0]), np.array([7.0, 22.0])])
    x, mean, low, high = curve.band(5)
    assert x.tolist() == [0, 5, 10, 15, 20]
    assert mean.tolist() == [0, 6, 11, 17, 22] and low.tolist() == [0, 5, 10, 17, 22]
    assert high.tolist() == [0, 7, 12, 17, 22]


def test_a_band_has_no_values_in_a_gap():
    x, mean, *_ = Curve("x", [np.array([0.0, 1.0]), np.array([3.0, 4.0])], [np.zeros(2), np.ones(2)]).band(5)
    assert x.tolist() == [0, 1, 2, 3, 4] and np.array_equal(mean, [0, 0, np.nan, 1, 1], equal_nan=True)


def test_one_run_is_drawn_as_it_is():
    x, y = np.array([1.0, 2.0, 7.0]), np.array([3.0, 1.0, 2.0])
    assert all((a == b).all() for a, b in zip(Curve("x", [x], [y]).band(), (x, y, y, y), strict=True))


def test_empty_cells_are_left_out(tmp_path):
    run = make_run(tmp_path / "a", [(1, None), (2, 5.5), (3, None), (4, -1)])
    x, y = read_column(run, "env_steps", "score")
    assert x.tolist() == [2, 4] and y.tolist() == [5.5, -1]
    with open(run / "metrics.csv", "a") as f:
        f.write("5")  # The last row of metrics.csv may be incomplete while a run writes the file.
    assert read_column(run, "env_steps", "score")[0].tolist() == [2, 4]
    assert read_column(run, "wall_s", "score")[0].tolist() == [20, 40]


def test_mistakes_are_one_line(tmp_path):
    run = make_run(tmp_path / "a", [(1, None)])
    (tmp_path / "b").mkdir()
    bare = make_run(tmp_path / "c", [(1, 1)])
    (bare / "metrics.csv").unlink()
    empty = make_run(tmp_path / "d", [(1, 1)])
    (empty / "metrics.csv").write_text("")
    for r, column, says in (
        (run, "scor", "nearest: score"),
        (run, "score", "no value of 'score' yet"),
        (tmp_path / "b", "score", "no metrics.csv"),
        (bare, "score", "no metrics.csv"),
        (empty, "score", "no rows yet"),
    ):
        with pytest.raises(ConfigError, match=says) as e:
            gathered([r], "env_steps", column)
        assert "\n" not in str(e.value) and str(r) in str(e.value)


def test_minutes_are_those_of_the_wall_clock(tmp_path):
    run = make_run(tmp_path / "a", [(6, 1), (12, 2)])
    (curve,) = gathered([run], "minutes", "score")
    assert curve.x[0].tolist() == [1, 2]
    with pytest.raises(ConfigError, match="nearest: minutes"):
        gathered([run], "minuts", "score")


def test_each_game_has_a_panel_and_a_kind_one_colour(tmp_path):
    from PIL import Image

    runs = [
        make_run(tmp_path / f"{game}{rate}", [(0, 1), (100, 9)], game=game, rate=rate)
        for game in ("pong", "breakout")
        for rate in (7e-4, 1e-3)
    ]
    curves = gathered(runs, "minutes", "score")
    assert [c.label for c in curves] == ["A2C-16env, learning_rate=0.0007", "A2C-16env, learning_rate=0.001"] * 2
    assert [c.game for c in curves] == ["pong", "pong", "breakout", "breakout"]
    draw(curves, tmp_path / "curve.png", "minutes", "score")
    with Image.open(tmp_path / "curve.png") as image:
        assert image.size == (1056, 444)  # two panels


def test_a_curve_of_an_unfinished_run_is_marked(tmp_path):
    for name, last in (("0", 1_000), ("1", 600)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.csv").write_text(f"env_steps,score\n100,1\n{last},2\n")
    labels = [Labelled("dqn", "pong", "0", 1_000), Labelled("dqn", "pong", "1", 1_000)]
    columns = {tmp_path / n: read_column(tmp_path / n, "env_steps", "score") for n in ("0", "1")}
    (both,) = gather(columns, labels)
    assert both.legend == "dqn, 2 seeds, unfinished (o)"
    (one,) = gather({tmp_path / "0": columns[tmp_path / "0"]}, labels[:1])
    assert one.legend == "dqn" and one.is_finished
    (updates,) = gather({tmp_path / "1": columns[tmp_path / "1"]}, [Labelled("dqn", "pong", "1")])
    assert updates.is_finished


def test_a_picture_is_drawn(tmp_path):
    from PIL import Image

    runs = [make_run(tmp_path / str(s), [(0, s), (100, 2 * s)], seed=s) for s in range(2)]
    runs.append(make_run(tmp_path / "one", [(50, 1)], rate=1e-3))
    out = tmp_path / "new" / "folder" / "curve.png"
    draw(gathered(runs, "env_steps", "score"), out, "env_steps", "score")
    with Image.open(out) as image:
        assert image.format == "PNG" and image.size == (960, 600)
        assert len(image.convert("RGB").getcolors(1 << 20)) > 20  # lines, a band, text


def test_a_picture_replaces_a_link(tmp_path):
    """In a run folder from another person, curve.png may be a link to a file that `draw` must not overwrite."""
    curves = gathered([make_run(tmp_path / "run", [(0, 1), (100, 2)])], "env_steps", "score")
    thesis, out = tmp_path / "thesis", tmp_path / "run" / "curve.png"
    thesis.write_text("mine")
    out.symlink_to(thesis)
    draw(curves, out, "env_steps", "score")
    assert thesis.read_text() == "mine" and out.read_bytes()[1:4] == b"PNG"


def test_a_sweeps_folder_stands_for_its_runs(tmp_path, capsys):
    for seed in (0, 1):
        dummy(tmp_path / "sweep" / f"seed={seed}", seed=seed)
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    assert main(["plot", str(tmp_path / "sweep")]) == 0
    assert "2 seeds" in capsys.readouterr().out and (tmp_path / "sweep" / "curve.png").stat().st_size > 5_000


def test_an_algorithm_has_the_same_colour_in_all_pictures():
    first, second = colours(["C51", "ppo, lr=1", "mine", "PPO, lr=2"]), colours(["epsilon-Rainbow", "PPO", "A2C-16env"])
    assert first["ppo, lr=1"] == second["PPO"] and len(set(first.values())) == 4
    assert colours(["Categorical-DQN"])["Categorical-DQN"] == first["C51"] != colours(["qrdqn"])["qrdqn"]
    many = [*map(str, range(6)), "r2d2", "impala", "ppo", "DQN-512"]
    assert len(set(colours(many).values())) == 10
    assert len(set(colours([str(i) for i in range(14)]).values())) == 14
