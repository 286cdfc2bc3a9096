"""The report's time and energy of runs with one or several launches (the first start or a resume)."""

import csv
import json
from dataclasses import replace

import pytest

from accel_rl.cli.main import main
from accel_rl.machine import hardware
from accel_rl.metrics.sinks import CsvSink
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from experiments import suite

LENGTH = 10_000
KWH = 3.6e6
GPU = {"cpu": "A CPU", "gpus": ["A GPU"], "cores": 16, "versions": {"git": "0123456789abcdef"}}
CPU = {"cpu": "Another CPU", "gpus": [], "cores": 2, "git": None, "versions": {}}


def write(folder, machines, rows, config=None):
    """Write a run with launches {env steps at the launch: machine} and rows of metrics {env steps: row}."""
    run = RunFolder.create(folder, config or replace(suite.run("pqn", "pong", 1), env_steps=LENGTH))
    for env_steps in machines:
        launches.record(run, env_steps)
    recorded = json.loads((run.path / launches.FILE).read_text())
    for launch, machine in zip(recorded, machines.values(), strict=True):
        launch |= machine
    run.write_json(launches.FILE, recorded)
    sink = CsvSink(run.path / "metrics.csv")
    for env_steps, row in rows.items():
        sink.write({"env_steps": env_steps, "score": 0.0} | row)
    sink.close()


def table(folder, tmp_path, *options):
    assert main(["report", str(folder), "--out", str(tmp_path / "out"), "--reps", "20", *options]) == 0
    with open(tmp_path / "out/costs.csv", newline="") as f:
        return list(csv.DictReader(f))


@pytest.fixture
def moved(tmp_path):
    """A run that took an hour on a GPU, and then four hours on a CPU.

    The second launch is at 8,000 env steps. The third launch is at 4,000 env steps, and replaces the later rows. The
    column steps_per_s is wrong in the first row after the third launch.
    """
    hour, energy = 3600, {"cpu_s": 7200.0, "joules": KWH, "gpu_joules": KWH / 2}
    rows = {
        2_000: {"wall_s": hour / 2, "paused_s": 0.0, "steps_per_s": 1.1},
        4_000: {"wall_s": hour, "paused_s": 36.0, "steps_per_s": 1.3, "eval_score": -5.0, "eval_episodes": 30} | energy,
        6_000: {"wall_s": 2 * hour, "paused_s": 36.0, "steps_per_s": 900.0},
        8_000: {"wall_s": 3 * hour, "paused_s": 36.0, "steps_per_s": 0.5},
        10_000: {"wall_s": 5 * hour, "paused_s": 3_636.0, "steps_per_s": 0.25, "eval_score": 12.5, "eval_episodes": 30}
        | {"cpu_s": 9_000.0, "joules": 3 * KWH, "gpu_joules": KWH / 2},
    }
    write(tmp_path / "runs/moved", {0: GPU, 8_000: CPU, 4_000: CPU}, rows)
    return tmp_path / "runs"


def test_a_launch_has_its_own_row(moved, tmp_path):
    on_gpu, on_cpu = table(moved, tmp_path, "--core-hour-price", "0.5")
    assert (on_gpu["launch"], on_cpu["launch"]) == ("1 of 3", "3 of 3")
    assert (on_gpu["machine"], on_gpu["cores"], on_gpu["revision"]) == ("A CPU, A GPU", "16", "01234567")
    assert (on_cpu["machine"], on_cpu["cores"], on_cpu["revision"]) == ("Another CPU", "2", "")
    assert (on_gpu["env steps"], on_cpu["env steps"]) == ("4000", "6000")
    assert (on_gpu["hours"], on_cpu["hours"]) == ("1.000", "4.000")
    assert (on_gpu["paused hours"], on_cpu["paused hours"]) == ("0.010", "1.000")


def test_the_rate_is_the_median_of_the_rows_of_a_launch(moved, tmp_path):
    on_gpu, on_cpu = table(moved, tmp_path, "--core-hour-price", "0.5")
    hours = [50e6 / rate / 3600 for rate in (1.2, 0.5)]
    assert [x["env steps/s"] for x in (on_gpu, on_cpu)] == ["1", "0"]
    assert [float(x["hours for 200 M frames"]) for x in (on_gpu, on_cpu)] == pytest.approx(hours, abs=0.01)
    assert on_gpu["price of 200 M frames"] == ""
    assert float(on_cpu["price of 200 M frames"]) == pytest.approx(hours[1] * 2 * 0.5, abs=0.01)


def test_energy_is_in_kwh_beside_the_score(moved, tmp_path):
    on_gpu, on_cpu = table(moved, tmp_path)
    assert (on_gpu["CPU kWh"], on_gpu["GPU kWh"], on_gpu["CPU-seconds"]) == ("1.0000", "0.5000", "7200")
    assert (on_cpu["CPU kWh"], on_cpu["GPU kWh"], on_cpu["CPU-seconds"]) == ("2.0000", "0.0000", "1800")
    assert (on_gpu["score"], on_cpu["score"]) == ("-5", "12.5")
    assert "price of 200 M frames" not in on_gpu


def test_a_launch_that_recorded_nothing_has_empty_cells(tmp_path):
    write(tmp_path / "runs/a", {0: CPU}, {LENGTH: {"wall_s": 60.0, "steps_per_s": 100.0}})
    write(tmp_path / "runs/b", {0: CPU}, {}, replace(suite.run("pqn", "pong", 2), env_steps=LENGTH))
    (row,) = table(tmp_path / "runs", tmp_path)
    assert (row["seed"], row["hours"], row["env steps/s"]) == ("1", "0.017", "100")
    assert {row[name] for name in ("paused hours", "CPU-seconds", "CPU kWh", "GPU kWh", "score", "revision")} == {""}


def test_a_run_without_launches_is_one_part(moved, tmp_path):
    (moved / "moved/launches.json").unlink()
    (row,) = table(moved, tmp_path, "--core-hour-price", "1")
    assert (row["launch"], row["machine"], row["cores"], row["hours"]) == ("1 of 1", "", "", "5.000")
    assert row["price of 200 M frames"] == ""


def test_this_machine_and_its_cores(tmp_path):
    write(tmp_path / "runs/a", {0: {}}, {LENGTH: {"wall_s": 60.0, "steps_per_s": 100.0}})
    (row,) = table(tmp_path / "runs", tmp_path)
    assert row["machine"] == ", ".join([hardware.cpu_name(), *hardware.gpu_models()])
    assert row["cores"] == str(len(hardware.usable_cores()))


def test_a_result_of_another_tool_has_hours(tmp_path):
    (tmp_path / "tool.csv").write_text("game,seed,step,score,wall_s\npong,0,1000,-3,1800\npong,0,2000,4,3600\n")
    words = ["report", "--csv", str(tmp_path / "tool.csv"), "--out", str(tmp_path / "out"), "--reps", "20"]
    assert main(words) == 0
    with open(tmp_path / "out/costs.csv", newline="") as f:
        (row,) = csv.DictReader(f)
    assert (row["setting"], row["env steps"], row["hours"], row["env steps/s"]) == ("tool", "2000", "1.000", "")


def test_a_wrong_price_is_one_line(moved, tmp_path, capsys):
    assert main(["report", str(moved), "--out", str(tmp_path / "out"), "--core-hour-price", "-1"]) == 2
    assert "--core-hour-price -1.0: must be a number, 0 or more" in capsys.readouterr().err
