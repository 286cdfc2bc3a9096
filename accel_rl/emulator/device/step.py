"""An agent step on a device is one torch operator. On a GPU, the operator launches kernels. On a CPU, the operator runs
the same kernels, which are also built for the host.

    | step -> rows -> draw -> finish -> begin        (kernels/kernels.cu; a translated game has its own step: blocks.cu)

Like torch's own operators, the step runs on the current stream, and can be captured in CUDA graphs.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from accel_rl.emulator.atari import core
from accel_rl.emulator.device.step_arguments import EnvArrays, GameTables, Rules, Starts, StepArguments, StepOutputs

STATE = ("envs", "shots", "logs", "rows", "shown", "code", "scratch")
TABLES = ("game", "rom", "code", "stages", "luminance", "codes", "starts", "start_frames", "continued")
OUT = ("frame", "final_frame", "age", "reward", "terminated", "truncated", "ended", "valid")
RULES = (
    "rom_bytes", "kind", "frame_skip", "max_steps", "life_loss", "observation", "oldest", "start_rows",
    "start_columns", "one_life",
)  # fmt: skip


@torch.library.custom_op("accel_rl::step_atari", mutates_args=("state", "out"))
def step_atari(
    action: Tensor,
    state: Sequence[Tensor],
    out: Sequence[Tensor],
    tables: Sequence[Tensor],
    rules: Sequence[int],
    repeat_probability: float,
    part: str = "step",
    translated: str = "",
) -> None:
    """Play one agent step of n environments. `state`, `out`, `tables` and `rules` are tensors in the order of the names
    in STATE, OUT, TABLES and RULES.

    `action` [n] int64 are indices of the game's actions; a negative action skips the environment. The results `out` [n,
    ...] are the arrays of a `Step`. If an episode ends, the next episode begins in the same step, and `frame` is the
    next episode's first frame. The `part` "play" begins no episode. The part "begin" only begins the next episodes of
    the environments in out's `ended`, and "begin all" begins episode 0 of all environments. `translated` is the game's
    name if a GPU plays it by a kernel of its own (block_kernel.py).
    """
    a = step_arguments(action, state, out, tables, rules, repeat_probability)
    if part in ("step", "play"):
        play_on_host(a)
    if part != "play":
        core().device.begin(bytes(a), part == "begin all")


@step_atari.register_kernel("cuda")
def _on_cuda(
    action: Tensor,
    state: Sequence[Tensor],
    out: Sequence[Tensor],
    tables: Sequence[Tensor],
    rules: Sequence[int],
    repeat_probability: float,
    part: str = "step",
    translated: str = "",
) -> None:
    from accel_rl.emulator.device.cuda import kernels_of  # The import loads CUDA's libraries.

    a = step_arguments(action, state, out, tables, rules, repeat_probability)
    kernels, scratch = kernels_of(action.device), state[STATE.index("scratch")]
    if translated:
        kernels.load_blocks(translated)
    if part in ("step", "play"):
        kernels.step(a, translated)
        kernels.draw(a)
        kernels.finish(a, scratch)
    if part != "play":
        kernels.begin(a, part == "begin all")


def play_on_host(a: StepArguments) -> tuple[int, int]:
    """Play an agent step on a CPU, and begin no episode. Return the number of iterations of the 6507's instruction
    loop, summed over warps, and summed over lanes."""
    kernels, given = core().device, bytes(a)
    warps, lanes, _ = kernels.step(given)
    kernels.draw(given)
    kernels.finish(given)
    return warps, lanes


def step_arguments(
    action: Tensor,
    state: Sequence[Tensor],
    out: Sequence[Tensor],
    tables: Sequence[Tensor],
    rules: Sequence[int],
    repeat_probability: float,
) -> StepArguments:
    """The argument of the kernels: the arrays' addresses in the device's memory, and the rules."""
    assert all(x.is_contiguous() for x in (action, *state, *out))
    envs, table, outputs = (_addresses(*pair) for pair in ((STATE, state), (TABLES, tables), (OUT, out)))
    r = dict(zip(RULES, rules, strict=True))
    a = StepArguments()
    a.envs = _filled(EnvArrays, {"n": len(action), **envs})
    a.tables = _filled(GameTables, table | r)
    a.rules = _filled(Rules, {"repeat_probability": repeat_probability, **r})
    a.starts = Starts(table["starts"], table["start_frames"], table["continued"], r["start_rows"], r["start_columns"])
    a.action = action.data_ptr()
    a.codes = table["codes"]
    a.oldest = r["oldest"]
    a.out = _filled(StepOutputs, outputs)
    assert ctypes.sizeof(a) == core().device.sizes["arguments"]
    return a


def _addresses(names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, int]:
    return {name: x.data_ptr() for name, x in zip(names, tensors, strict=True)}


def _filled(structure: Any, values: Mapping[str, float]) -> Any:
    """`values` may have more than the structure's fields."""
    return structure(**{name: values[name] for name, *_ in structure._fields_})
