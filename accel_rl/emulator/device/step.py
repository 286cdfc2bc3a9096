"""The torch operator `step_atari` plays one agent step of a batch of environments. On a GPU the operator launches
kernels, and on a CPU it calls the same kernels compiled for CPUs.

    | step -> rows -> draw -> finish -> begin        (kernels/kernels.cu; a translated game has its own step: blocks.cu)

Like torch's own operators, `step_atari` runs on the current stream, and can be captured in CUDA graphs.
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
    """Play one agent step of n environments. `state`, `out`, `tables` (tensors) and `rules` (numbers) are in the order
    of STATE, OUT, TABLES and RULES.

    `action` [n] int64 are indices of the game's actions. A negative action skips the environment. `out` are the arrays
    [n, ...] for the results, as in the class Step. If `part` is "step", the next episode begins in the step in which an
    episode ends, and `frame` is the next episode's first frame. If `part` is "play", no episode begins. If `part` is
    "begin", no step is played, and the next episode begins where `out.ended` is true. If `part` is "begin all", episode
    0 begins in all environments. `translated` is the game's name if the game has its own kernel on a GPU
    (block_kernel.py).
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
    # cuda.py is imported here, because the import loads CUDA's libraries.
    from accel_rl.emulator.device.cuda import kernels_of

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
    """Play an agent step on a CPU. No new episodes begin. Return the numbers of iterations of the 6507's instruction
    loop, summed over warps and summed over lanes."""
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
    """Return the argument of all kernels: the addresses of arrays in the device's memory, and the rules."""
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
    """Return a ctypes structure whose fields are taken from `values`, which may have further keys."""
    return structure(**{name: values[name] for name, *_ in structure._fields_})
