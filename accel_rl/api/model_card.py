"""The card of an exported model is a README.md with a header for model hubs."""

import json
from pathlib import Path
from typing import Any

from accel_rl.checkpoints import tensor_file
from accel_rl.envs.gymnasium import renderer_install
from accel_rl.metrics.plot import columns_of, draw, gather
from accel_rl.report.labels import labelled
from accel_rl.run import launches
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.train import TrainConfig
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError
from accel_rl.version import __version__


def write(folder: Path, config: TrainConfig, about: dict[str, Any]) -> None:
    """Write README.md and, if the run has a score, curve.png. `about` maps env_steps to a number, and evaluation to the
    result of `Evaluation.to_dict`, or to None."""
    has_curve = _draw(folder, config)
    install = renderer_install(config.env.id)
    renderer = f" (after `{install}`)" if install else ""
    game = config.env.game or config.env.id
    evaluation = about["evaluation"]
    lines = [*_header(config, game, evaluation), f"# {config.algorithm} on {game}", ""]
    parts = _parts(folder, about["env_steps"])
    code = f"by accel_rl {__version__}{_revision(folder)}" if len(parts) < 2 else f"in {len(parts)} launches"
    lines += [f"Trained for {about['env_steps']:,} env steps {code}, seed {config.seed}.", f"{_size(folder)}.", ""]
    if parts:
        lines += ["| env steps | accel_rl, revision | torch | machine | cores |", "|---|---|---|---|---|", *parts, ""]
    if evaluation:
        lines += [
            f"Score {evaluation['score_mean']:.2f} +- {evaluation['score_std']:.2f}{_of_score(evaluation)}, mean and "
            f"standard deviation of {counted(len(evaluation['scores']), 'episode')}{_by_game(evaluation)}.",
            "",
        ]
        if protocol := evaluation.get("protocol"):
            lines += ["| protocol | |", "|---|---|", *(f"| {k} | {v} |" for k, v in protocol.items()), ""]
    if has_curve:
        lines += ["![training score by env steps](curve.png)", ""]
    lines += [
        "```python",
        "import accel_rl",
        "",
        'run = accel_rl.Run.load("this folder")',
        "print(run.evaluate(episodes=30).mean)",
        "agent = run.agent  # agent.act(observations)",
        "```",
        "",
        f"`accel-rl evaluate FOLDER` evaluates the agent from the command line, and `accel-rl watch FOLDER`{renderer}",
        "makes a video. `config.json` has all settings, `metrics.csv` the training.",
    ]
    if (folder / "policy.onnx").exists():
        lines += [
            "",
            "`policy.onnx`: `obs` [N, ...] to `preferences` [N, A]; the largest is that of the greedy action.",
        ]
    (folder / "README.md").write_text("\n".join(lines) + "\n")


def _parts(folder: Path, env_steps: int) -> list[str]:
    """A line of a table for each launch that trained the network, or [] if the launches are unknown."""
    recorded = launches.read(RunFolder(folder))
    lines = []
    for i, first, last in launches.parts(recorded, env_steps) if recorded else ():
        launch = recorded[i]
        of_launch = launch.get("versions", {})
        cells = (
            f"{first:,.0f} to {last:,.0f}",
            " ".join(x for x in (str(of_launch.get("accel_rl") or ""), launches.revision(launch)) if x),
            of_launch.get("torch") or "",
            launches.machine(launch),
            launch.get("cores") or "",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _revision(folder: Path) -> str:
    """The git revision of the code that trained the network, in brackets, or "" if unknown."""
    try:
        revision = json.loads((folder / "versions.json").read_text())["git"]
    except (OSError, ValueError, KeyError):
        return ""
    return f" (revision {revision})" if revision else ""


def _size(folder: Path) -> str:
    """A text with the number of a model's parameters and buffers of each data type, and the size of the model's
    file."""
    file = folder / "model.safetensors"
    counts: dict[str, int] = {}
    for x in tensor_file.load(file.read_bytes()).values():
        kind = str(x.dtype).removeprefix("torch.")
        counts[kind] = counts.get(kind, 0) + x.numel()
    numbers = ", ".join(f"{n:,} of {kind}" for kind, n in counts.items())
    return f"Numbers of the network: {numbers}; {file.stat().st_size / 1e6:.2f} MB"


def _of_score(evaluation: dict[str, Any]) -> str:
    return " % of human" if "score_by_game" in evaluation else ""


def _by_game(evaluation: dict[str, Any]) -> str:
    means = ", ".join(f"{game} {mean:.2f}" for game, mean in evaluation.get("score_by_game", {}).items())
    return means and f" ({means} points)"


def _header(config: TrainConfig, game: str, evaluation: dict[str, Any] | None) -> list[str]:
    tags = ["reinforcement-learning", *(["atari"] if config.env.game else []), config.algorithm, game]
    header = ["---", "library_name: accel_rl", "tags:", *(f"- {json.dumps(tag)}" for tag in tags)]
    if evaluation:
        header += [
            "model-index:",
            f"- name: {json.dumps(config.algorithm)}",
            "  results:",
            "  - task:",
            "      type: reinforcement-learning",
            "    dataset:",
            f"      name: {json.dumps(game)}",
            f"      type: {json.dumps(game)}",
            "    metrics:",
            "    - type: mean_reward",
            f'      value: "{evaluation["score_mean"]:.2f} +/- {evaluation["score_std"]:.2f}{_of_score(evaluation)}"',
        ]
    return [*header, "---", ""]


def _draw(folder: Path, config: TrainConfig) -> bool:
    try:
        columns = columns_of([folder], "env_steps", "score")
        draw(gather(columns, labelled([config.to_dict()])), folder / "curve.png", "env_steps", "score")
    except ConfigError:
        return False
    return True
