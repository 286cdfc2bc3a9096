"""A run that continues from an older checkpoint moves later evaluations away, and selects its best agent without
them."""

import accel_rl
from accel_rl.api.trained_agent import read_state
from accel_rl.run.run_folder import RunFolder

SMALL = {"env": "CartPole-v1", "envs": 8, "horizon": 4, "minibatch": 32, "epochs": 4, "engine": "in-process"}
SMALL |= {"decorrelation_steps": 0, "log__interval": 32, "checkpoint__interval": 32, "checkpoint__keep": 9}
SMALL |= {"evaluation__interval": 32, "evaluation__episodes": 3, "learning_rate": 3e-3}


def evaluations(run):
    """Return the run's evaluations as {env steps: score}."""
    columns = run.metrics
    return dict(zip(columns["env_steps"].astype(int).tolist(), columns["eval_score"].tolist(), strict=True))


def test_best_and_evaluations_are_those_of_the_run_that_goes_on(tmp_path, capsys):
    run = accel_rl.train("ppo", **SMALL, env_steps=192, run_dir=tmp_path / "run")
    abandoned = evaluations(run)
    run.evaluate(best=True, episodes=1, save=True)
    older = run.path / "checkpoints" / f"{64:012d}"
    run = run.resume(checkpoint=str(older), learning_rate=1e-6, env_steps=128)
    now = evaluations(run)
    assert now[64] == abandoned[64] and now != abandoned
    assert sorted(int(p.stem) for p in (run.path / "evaluations").iterdir()) == sorted(now)
    best = read_state(RunFolder(run.path), best=True)
    assert best["evaluation"]["score_mean"] == max(now.values()) == now[best["env_steps"]]
    if max(abandoned, key=abandoned.get) > 64:
        assert not (run.path / "final" / "noop.json").exists()
    kept = sorted(int(p.stem) for p in (run.path / "abandoned-1" / "evaluations").iterdir())
    assert kept == [96, 128, 160, 192]
    assert "of later evaluations, networks and videos moved to" in capsys.readouterr().out
