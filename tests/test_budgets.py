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
    "accel_rl": 116,  # IQN, BTR, R2D2, ReplayBuffer
    "agents": 274,  # policies of several numbers; LastStepAgent, for R2D2; FunctionAgent
    "algos": 1_464,  # reward_norm.py; types of settings in subclasses; QR-DQN, IQN, BTR, R2D2, Munchausen
    "api": 1_440,  # clipped actions; notebook.py; budget.py: a trial run measures how many env steps fit into a time
    "checkpoints": 475,  # saved_steps.py: lists of runs read it without torch
    "cli": 1_022,  # train --help without torch; --config, --quiet; words of other libraries; hidden modules
    "compat": 563,  # envpool: the spec, dm_env, rendering and the resets of EnvPool 1.2.5, by value; an EnvPool's text
    "data": 464,  # Step.clear, from envs; actions of several numbers; the picture of an observation
    "distributed": 1_036,
    "emulator": 2_359,  # device/block_*.py: a ROM as a kernel of a GPU, and kernel_trial.py; autoreset modes
    "envs": 2_364,  # several_games.py, info_mask.py; env.restore; pictures of floats and bools, and in a Dict
    "experiments": 515,  # suite.early; recall in a stack of four; atari_100k: 26 games, 100,000 env steps
    "files": 346,  # the system cache of a container image, and who could write to it
    "gorila": 1_989,  # a single game; the global replay stores no recurrent states
    "kernels": 727,
    "launch": 14,  # each command's exit code
    "machine": 826,  # visible_gpus.py: GPUs by UUID and MIG; cores_of_rank: ranks by NUMA node and physical core
    "metrics": 713,  # quiet runs; offline files if W&B does not answer; curves without the runs that have no rows
    "models": 948,  # body.py: a user's module; implicit quantiles; hadamax; BTR's network; sequence_q_network.py
    "ops": 298,  # policies.py; quantiles.py; Munchausen's target; sequences.py; sampled_kl
    "optim": 391,  # the root of zero takes MKL 20 times as long as others
    "papers": 1_601,  # paper.py: papers register what a report takes; sections of Gorila's figures, from report
    "parsing": 195,  # words and options of a command, from cli
    "planning": 330,  # a plan has the settings of each rank, made once
    "processes": 246,  # run_program: no program hangs in a destructor of torch; watch_parent
    "ranks": 895,
    "replays": 1_035,  # buffer.py, the replay alone; sequences.py and their stored states
    "report": 1_647,  # pictures and tables for phones; dark pages
    "results": 268,  # section.py, from report
    "run": 636,  # listed_runs.py: what lists of runs read without torch, from report and sweeps
    "samplers": 2_346,  # pulling_agent.py, from training; device_vectorized.py: simulators on the GPU
    "settings": 1_637,  # which network small pictures have; presets, one line for each setting of a source
    "speed": 803,  # hooks of gradients; advantages in graphs, metrics summed in them; kinds exchanged once per rollout
    "sweeps": 2_506,  # launch_command.py, script_folder.py: scripts of other libraries
    "text": 294,  # help at any width; outputs without UTF-8; a removed folder
    "training": 1_925,  # Learner.ingest, whose advantages are captured; after_phase
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
