import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import accel_rl
from accel_rl.metrics.wandb import WandbSink, check_wandb, wandb_sink
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError

ROOT = Path(__file__).parents[2]
DISABLED = default_config("a2c")
OFFLINE = replace(DISABLED, wandb="offline")
ROW = {"env_steps": 5, "score": 1.5, "length": float("nan"), "note": "text"}


def test_nothing_unless_asked_for(tmp_path, logged):
    loaded = "wandb" in sys.modules
    assert wandb_sink(DISABLED, tmp_path) == [] and logged == []
    assert list(tmp_path.iterdir()) == [] and ("wandb" in sys.modules) == loaded


def test_a_missing_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    check_wandb("disabled")
    with pytest.raises(ConfigError, match=r"--wandb offline .* pip install wandb") as e:
        check_wandb("offline")
    assert "\n" not in str(e.value)


def raising(**_):
    raise RuntimeError("no\n  answer")


@pytest.mark.needs("wandb")
def test_an_init_that_raises_is_said_once_and_left_out(tmp_path, monkeypatch, logged):
    import wandb

    monkeypatch.setattr(wandb, "init", raising)
    assert wandb_sink(OFFLINE, tmp_path) == []
    assert logged == ["wandb: offline mode not started (no answer); going on without it"]


@pytest.mark.needs("wandb")
def test_without_an_answer_of_the_server_files_are_written(tmp_path, monkeypatch, logged):
    import wandb

    monkeypatch.setattr(wandb, "init", lambda **given: raising() if given["mode"] == "online" else Run())
    (sink,) = wandb_sink(replace(DISABLED, wandb="online"), tmp_path)
    assert isinstance(sink, WandbSink)
    files = f"wandb sync {tmp_path}/wandb/offline-* sends its files later"
    assert logged == [f"wandb: online mode not started (no answer); {files}"]


@pytest.mark.needs("wandb")
@pytest.mark.parametrize(("key", "says"), [("", "has no API key: run `wandb login`"), ("short", "--wandb online: ")])
def test_online_needs_a_key(key, says, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_API_KEY", key) if key else monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(ConfigError) as e:
        check_wandb("online")
    assert says in str(e.value) and "--wandb offline" in str(e.value) and "\n" not in str(e.value)


def test_a_folder_that_is_not_there_is_not_fatal(tmp_path, logged):
    assert wandb_sink(OFFLINE, tmp_path / "missing") == []
    assert len(logged) == 1 and "\n" not in logged[0]


def test_a_missing_package_is_not_fatal(tmp_path, monkeypatch, logged):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert wandb_sink(OFFLINE, tmp_path) == []
    assert len(logged) == 1


@pytest.mark.needs("wandb")
def test_a_run_keeps_its_name_after_a_resume(tmp_path, monkeypatch):
    import wandb

    asked = []

    def init(**given):
        asked.append(given)
        raise RuntimeError("enough")

    monkeypatch.setattr(wandb, "init", init)
    for folder in ("a", "a", "b"):
        (tmp_path / folder).mkdir(exist_ok=True)
        wandb_sink(OFFLINE, tmp_path / folder)
    first, again, other = asked
    assert first["id"] == again["id"] != other["id"]
    assert first["resume"] == "allow" and first["mode"] == "offline" and first["dir"] == str(tmp_path / "a")


class Run:
    """A fake run of Weights & Biases, which raises ConnectionError at the second row and at the end."""

    def __init__(self):
        self.logged = []

    def log(self, values, step):
        self.logged.append((step, values))
        if len(self.logged) == 2:
            raise ConnectionError("gone")

    def finish(self, **_):
        raise ConnectionError("gone")


def test_a_service_that_goes_away_is_said_once(logged):
    run = Run()
    sink = WandbSink(run)
    for n in (5, 10, 15):
        sink.write(ROW | {"env_steps": n})
    sink.close()
    assert run.logged == [(n, {"global_step": n, "charts/episodic_return": 1.5}) for n in (5, 10)]
    assert logged == ["wandb: logging failed (gone); going on without it"]


def test_an_end_that_fails_is_not_fatal(logged):
    WandbSink(Run()).close()
    assert logged == ["wandb: could not finish (gone)"]


SCRIPT = """
from dataclasses import replace
from pathlib import Path
from accel_rl.settings.train import default_config
from accel_rl.metrics.wandb import wandb_sink
for n in (5, 10):  # the second time as after a resume
    (sink,) = wandb_sink(replace(default_config("a2c"), wandb="offline"), Path("run"))
    sink.write({"env_steps": n, "score": 1.5, "length": float("nan"), "note": "text"})
    sink.close()
"""


@pytest.mark.slow
def test_offline_files_lie_in_the_run_folder_and_hold_no_key(tmp_path):
    """The test uses the real client of Weights & Biases in a process with its own home folder."""
    key = "0123456789abcdef" * 2 + "feedface"
    places = {name: tmp_path / name for name in ("home", "temporary", "here")}
    for p in (*places.values(), places["here"] / "run"):
        p.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "XDG"))}
    environment = kept | {
        "PYTHONPATH": str(ROOT),
        "HOME": str(places["home"]),
        "TMPDIR": str(places["temporary"]),
        "WANDB_API_KEY": key,
    }
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=places["here"], env=environment, check=True, timeout=150)
    run = places["here"] / "run"
    assert list(places["here"].iterdir()) == [run]
    assert list(run.glob("wandb/offline-run-*/*.wandb"))
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) > 3
    assert [p for p in files if key.encode() in p.read_bytes()] == []


ARTIFACTS = """
import accel_rl
accel_rl.train(
    "ppo", game="pong", run_dir="run", env_steps=256, envs=4, horizon=16, minibatch=32, torch_threads=1,
    engine="in-process", evaluation__interval=0, decorrelation_steps=0, wandb="offline",
    callbacks=[accel_rl.VideoEvery(env_steps=128, max_steps=5), accel_rl.WandbArtifacts()],
)
"""


@pytest.mark.slow
def test_videos_and_the_model_are_artifacts(tmp_path):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "XDG"))}
    environment = kept | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home"), "WANDB_MODE": "offline"}
    done = subprocess.run(
        [sys.executable, "-c", ARTIFACTS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0 and "was not uploaded" not in done.stdout + done.stderr, done.stderr
    (log,) = (tmp_path / "run/wandb").glob("offline-run-*/*.wandb")
    media = {file.suffix for file in log.parent.rglob("media/videos/**/*") if file.is_file()}
    assert media <= {".mp4", ".gif"} and media
    assert b"run-model" in log.read_bytes() and b"model.safetensors" in log.read_bytes()
    assert (tmp_path / "run/wandb/model/model.safetensors").exists()


def test_artifacts_need_weights_and_biases(tmp_path):
    with pytest.raises(ConfigError, match=r"WandbArtifacts.*Weights & Biases is disabled; use --wandb online"):
        accel_rl.train(
            "ppo", env="CartPole-v1", run_dir=tmp_path / "run", engine="in-process", callbacks=[accel_rl.WandbArtifacts]
        )


@pytest.mark.needs("wandb")
def test_a_foreign_run_folder_does_not_choose_the_server(tmp_path, monkeypatch):
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.delenv(f"WANDB_{kind}_DIR", raising=False)
        monkeypatch.setenv(f"WANDB_{kind}_DIR", "")  # monkeypatch will restore WANDB_*_DIR.
        monkeypatch.delenv(f"WANDB_{kind}_DIR")
    file = tmp_path / "wandb" / "config" / "settings"
    file.parent.mkdir(parents=True)
    file.write_text("[default]\nbase_url = http://127.0.0.1:9\n")
    with pytest.raises(ConfigError, match=r"settings could make wandb send .* to another server"):
        wandb_sink(OFFLINE, tmp_path)
