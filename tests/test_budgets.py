"""Each room of the package has a budget of code lines. What a change adds to a room is paid by a deletion in the same
room, or the room's number changes in the same commit, with a reason in its message."""

import ast
import functools
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUDGETS = {
    "accel_rl": 116,  # accel_rl/__init__.py exports IQN, BTR, R2D2 and ReplayBuffer.
    "agents": 274,  # `agents` includes policies of several numbers, LastStepAgent for R2D2, and FunctionAgent.
    "algos": 1_492,  # `algos` includes QR-DQN, IQN, BTR, R2D2, Munchausen's term, and Config.inactive.
    "api": 1_440,  # `api` includes notebook.py, and budget.py, which measures how many env steps fit into a time.
    "checkpoints": 475,  # saved_steps.py lets lists of runs be printed without importing torch.
    "cli": 1_022,  # `train --help` works without torch; the words of other libraries' commands are recognised.
    "compat": 563,  # envpool.py returns the values of EnvPool 1.2.5, also its spec, dm_env API, rendering and resets.
    "data": 464,  # `data` includes Step.clear, actions of several numbers, and the spec of a picture in an observation.
    "distributed": 1_036,
    "emulator": 2_359,  # device/block_*.py compile a ROM to a GPU kernel, which kernel_trial.py compares with `step`.
    "envs": 2_364,  # `envs` includes several_games.py, info_mask.py, --env.restore, and pictures inside a Dict.
    "experiments": 545,  # `experiments` includes suite.early, recall.py, atari_100k.py, and defaults.py.
    "files": 346,  # code_cache.py reads a system cache, and checks that nobody else could write to it.
    "gorila": 1_989,  # Several games, and recurrent states in the global replay, are not supported on a cluster.
    "kernels": 727,
    "launch": 14,  # Each program in `launch` returns a command's exit code.
    "machine": 826,  # visible_gpus.py finds GPUs by UUID and MIG part; cores_of_rank places ranks by NUMA node.
    "metrics": 713,  # Quiet runs, wandb's offline files, and curves that omit runs without rows are included.
    "models": 948,  # `models` includes body.py, for a user's module, and the networks of IQN, Hadamax, BTR and R2D2.
    "ops": 298,  # `ops` includes policies.py, quantiles.py, recurrent_replay.py, and Munchausen's target.
    "optim": 391,  # MKL takes 20 times as long for the root of zero as for the roots of other numbers.
    "papers": 1_601,  # paper.py lets each paper register its part of a report, such as Gorila's figures.
    "parsing": 195,  # `parsing` includes the definitions of all commands and options.
    "planning": 330,  # A plan contains the settings of each rank, which are computed once.
    "processes": 246,  # run_program ends programs without torch's destructors, in which a program could hang.
    "ranks": 895,
    "replays": 1_040,  # buffer.py is the replay for learners of other libraries; sequences.py is R2D2's replay.
    "report": 1_675,  # The page fits a phone and a dark page; a paired bootstrap over games gives differences.
    "results": 268,  # `results` includes section.py, which was in `report`.
    "run": 636,  # listed_runs.py lets lists of runs be printed without importing torch.
    "samplers": 2_346,  # `samplers` includes pulling_agent.py, and device_vectorized.py for simulators on a GPU.
    "settings": 1_605,  # `settings` includes the presets, with one line for each setting of a source.
    "speed": 803,  # CUDA graphs compute advantages and sum metrics; ranks exchange the kinds of their batches.
    "sweeps": 2_506,  # launch_command.py and script_folder.py run scripts of other libraries.
    "text": 294,  # Help fits terminals of any width; outputs without UTF-8 and a removed current folder are supported.
    "training": 1_950,  # build_trainer.py builds the parts of a run, which Trainer receives.
}


def code_lines(text: str) -> int:
    """Return the number of lines of a module that hold code: no docstrings, texts that document an attribute, comments
    or blank lines."""
    prose = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in ignored
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - prose)


@functools.cache
def rooms() -> dict[str, int]:
    result: dict[str, int] = {}
    for folder in ("accel_rl", "launch", "experiments"):
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT).parts
            room = parts[1] if folder == "accel_rl" and len(parts) > 2 else folder
            result[room] = result.get(room, 0) + code_lines(file.read_text())
    return result


def test_each_room_has_a_budget() -> None:
    assert set(rooms()) == set(BUDGETS), "give a new room a budget, and remove that of a room that is gone"


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_is_within_its_budget(room: str) -> None:
    lines, most = rooms()[room], BUDGETS[room]
    assert lines <= most, f"{room} has {lines} code lines of {most}: delete something in it, or say why it grows"
    assert lines >= 0.9 * most, f"{room} has {lines} code lines of {most}: lower its budget, so that the gain is kept"


def test_prose_and_blank_lines_are_free() -> None:
    text = '"""A module\nof two lines."""\n\nx = 1  # a number\n"""About x."""\n\n# A comment.\n'
    text += 'def f(\n    y\n):\n    """F."""\n    return """a\nb"""\n'
    assert code_lines(text) == 1 + 3 + 2
