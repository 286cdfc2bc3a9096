"""metrics.csv."""

import csv
import errno
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_rl.metrics import sinks
from accel_rl.metrics.sinks import CsvSink, check_tensorboard, format_cell, tensorboard_sink
from accel_rl.settings.outputs import LogConfig
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError, RunError


def rows_of(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def write(path, rows, keep=None):
    sink = CsvSink(path, keep)
    for row in rows:
        sink.write(row)
    sink.close()
    return sink


@pytest.mark.parametrize(
    ("value", "cell"),
    [(math.nan, ""), (None, ""), (3, "3"), (0.1, "0.1"), (1e-12, "1e-12"), (123456789.0, "123456789"), ("a", "a")]
    + [(1 / 3, "0.333333333"), (math.inf, "inf"), (10**12, "1000000000000")],
)
def test_cells(value, cell):
    assert format_cell(value) == cell


def test_rows_are_there_at_once(tmp_path):
    path = tmp_path / "metrics.csv"
    sink = CsvSink(path)
    sink.write({"env_steps": 100, "score": math.nan, "wall_s": 1.5})
    assert path.read_text() == "env_steps,score,wall_s\n100,,1.5\n"
    sink.write({"env_steps": 200, "score": 2.5, "wall_s": 3.0})
    assert path.read_text() == "env_steps,score,wall_s\n100,,1.5\n200,2.5,3\n"
    assert sink.rows == 2
    sink.close()


def test_awkward_text_survives(tmp_path):
    path = tmp_path / "metrics.csv"
    write(path, [{"env_steps": 1, "note": 'a,"b"\nc'}])
    write(path, [{"env_steps": 2, "note": "d"}])
    # A line break in a cell of metrics.csv is written as a space, so that each row is one line.
    assert [r["note"] for r in rows_of(path)] == ['a,"b" c', "d"]


@pytest.mark.parametrize("keep", [0, 1, 3, 4, 9, None])
def test_resume_keeps_the_rows_that_count(tmp_path, keep):
    path = tmp_path / "metrics.csv"
    write(path, [{"env_steps": i, "x": 0.5 * i} for i in range(4)])
    before = path.read_text().splitlines()
    kept = 4 if keep is None else min(keep, 4)
    sink = CsvSink(path, keep)
    assert path.read_text().splitlines() == before[: 1 + kept]
    assert sink.rows == kept
    sink.write({"env_steps": 77, "x": 1.0})
    assert sink.rows == kept + 1
    sink.close()
    assert path.read_text().splitlines() == [*before[: 1 + kept], "77,1"]


@pytest.mark.parametrize("cut", ["7", "7,", "7,8", "7,8,"])
def test_a_row_cut_short_is_dropped(tmp_path, cut):
    path = tmp_path / "metrics.csv"
    write(path, [{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}])
    whole = path.read_text()
    path.write_text(whole + cut)
    sink = CsvSink(path, 2)
    sink.close()
    assert path.read_text() == whole
    if cut != "7,8,":  # The cut row "7,8," is equal to a row with an empty last cell.
        path.write_text(whole + cut)
        assert write(path, [{"a": 7, "b": 8, "c": 9}]).rows == 3
        assert path.read_text() == whole + "7,8,9\n"


def test_a_file_cut_inside_the_header(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("")
    write(path, [{"a": 1}], 0)
    assert path.read_text() == "a\n1\n"


def test_a_new_column_keeps_the_old_rows_and_the_clock_last(tmp_path):
    path = tmp_path / "metrics.csv"
    write(
        path,
        [
            {"env_steps": 1, "wall_s": 0.5, "steps_per_s": 2.0},
            {"env_steps": 2, "eval_score": 7.0, "wall_s": 1.0, "steps_per_s": 3.0},
            {"env_steps": 3, "wall_s": 1.5, "steps_per_s": 4.0},
        ],
    )
    assert path.read_text() == ("env_steps,eval_score,wall_s,steps_per_s\n1,,0.5,2\n2,7,1,3\n3,,1.5,4\n")
    # The resumed run keeps two rows, and appends a row with one more column.
    write(path, [{"env_steps": 3, "extra": 1, "wall_s": 9.0, "steps_per_s": 8.0}], 2)
    assert path.read_text() == ("env_steps,eval_score,extra,wall_s,steps_per_s\n1,,,0.5,2\n2,7,,1,3\n3,,1,9,8\n")
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.csv"]


def test_rows_of_a_full_disk_are_written_when_there_is_room(small_disk, warned):
    disk = small_disk("64k")
    sink = CsvSink(disk / "metrics.csv")
    sink.write({"env_steps": 0, "text": ""})
    with pytest.raises(OSError), open(disk / "other", "wb", buffering=0) as other:
        while True:
            other.write(bytes(4096))
    full = [{"env_steps": i, "text": "x" * 1000} for i in range(1, 9)]
    for row in full:
        sink.write(row)
    assert sink.rows == 9 and len(warned) == 1 and "No space left on device" in warned[0]
    before = [row["env_steps"] for row in rows_of(disk / "metrics.csv")]
    assert before == [str(i) for i in range(len(before))] and len(before) < 9  # whole rows alone
    with pytest.raises(RunError, match="No space left"):
        sink.sync()
    (disk / "other").unlink()
    sink.write({"env_steps": 9, "new": 1})
    sink.close()
    assert [row["env_steps"] for row in rows_of(disk / "metrics.csv")] == [str(i) for i in range(10)]


def test_a_file_that_cannot_be_opened_again_gets_its_rows_later(tmp_path, monkeypatch, warned):
    """A row with a new column makes CsvSink replace metrics.csv by a new file. If the new file cannot be opened, later
    rows must not be written to the old file, which no longer has a name."""
    sink = CsvSink(tmp_path / "metrics.csv")
    sink.write({"env_steps": 1})
    with monkeypatch.context() as broken:
        broken.setattr(sinks, "open_in_place", fails_with(errno.EIO))
        sink.write({"env_steps": 2, "new": 1})
        sink.write({"env_steps": 3, "new": 2})
        with pytest.raises(RunError, match="Input/output error"):
            sink.sync()
    sink.write({"env_steps": 4})
    sink.close()
    assert [row["env_steps"] for row in rows_of(tmp_path / "metrics.csv")] == ["1", "2", "3", "4"] and len(warned) == 1


def fails_with(number):
    def call(*_):
        raise OSError(number, os.strerror(number))

    return call


CONFIG = replace(default_config("a2c"), log=LogConfig(tensorboard=True))


def seen(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def write_events(folder: Path, env_steps: int, rows: list[dict]) -> None:
    (sink,) = tensorboard_sink(CONFIG, folder, env_steps)
    for row in rows:
        sink.write(row)
    sink.close()


def test_nothing_unless_asked_for(tmp_path):
    assert tensorboard_sink(default_config("a2c"), tmp_path, 0) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("tensorboard")
def test_settings_are_a_table(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_events(tmp_path, 0, [])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    (text,) = events.Tensors("hyperparameters/text_summary")
    assert b"|algo.gamma|0.99|" in text.tensor_proto.string_val[0]


@pytest.mark.needs("tensorboard")
def test_numbers_are_events(tmp_path):
    write_events(
        tmp_path,
        0,
        [
            {"env_steps": 10, "score": 1.5, "updates": 2, "note": "text", "length": math.nan},
            {"env_steps": 20, "score": -2.0, "updates": 4, "note": "text", "length": math.inf},
        ],
    )
    assert seen(tmp_path) == {
        "charts/episodic_return": [(10, 1.5), (20, -2.0)],
        "charts/updates": [(10, 2.0), (20, 4.0)],
    }
    assert [p.name for p in tmp_path.iterdir()] == ["tensorboard"]


@pytest.mark.needs("tensorboard")
def test_a_resume_hides_what_comes_again(tmp_path):
    write_events(tmp_path, 0, [{"env_steps": n, "score": float(n)} for n in (10, 20, 30, 40)])
    write_events(tmp_path, 20, [{"env_steps": 30, "score": 300.0}])
    assert seen(tmp_path) == {"charts/episodic_return": [(10, 10.0), (20, 20.0), (30, 300.0)]}


def test_a_missing_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'accel_rl\[tensorboard\]'") as e:
        check_tensorboard()
    assert "\n" not in str(e.value)
