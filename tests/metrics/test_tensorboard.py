import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_rl.config.outputs import LogConfig
from accel_rl.config.train import default_config
from accel_rl.metrics.tensorboard import check_tensorboard, tensorboard_sink
from accel_rl.system.errors import ConfigError

CONFIG = replace(default_config("a2c"), log=LogConfig(tensorboard=True))


def seen(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def write(folder: Path, env_steps: int, rows: list[dict]) -> None:
    (sink,) = tensorboard_sink(CONFIG, folder, env_steps)
    for row in rows:
        sink.write(row)
    sink.close()


def test_nothing_unless_asked_for(tmp_path):
    assert tensorboard_sink(default_config("a2c"), tmp_path, 0) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("tensorboard")
def test_numbers_are_events(tmp_path):
    write(
        tmp_path,
        0,
        [
            {"env_steps": 10, "score": 1.5, "updates": 2, "note": "text", "length": math.nan},
            {"env_steps": 20, "score": -2.0, "updates": 4, "note": "text", "length": math.inf},
        ],
    )
    assert seen(tmp_path) == {"score": [(10, 1.5), (20, -2.0)], "updates": [(10, 2.0), (20, 4.0)]}
    assert [p.name for p in tmp_path.iterdir()] == ["tensorboard"]


@pytest.mark.needs("tensorboard")
def test_a_resume_hides_what_comes_again(tmp_path):
    write(tmp_path, 0, [{"env_steps": n, "score": float(n)} for n in (10, 20, 30, 40)])
    write(tmp_path, 20, [{"env_steps": 30, "score": 300.0}])
    assert seen(tmp_path) == {"score": [(10, 10.0), (20, 20.0), (30, 300.0)]}


def test_a_missing_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'accel_rl\[tensorboard\]'") as e:
        check_tensorboard()
    assert "\n" not in str(e.value)
