"""A list of all Triton kernels of this package, with arguments as in real runs, to compile them without a GPU."""

import importlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GpuSource:
    """A kernel and one set of its arguments.

    `signature` has Triton's type of each argument in order, such as "*u8" or "i32", or "constexpr" for those in
    `constants`.
    """

    module: str
    kernel: str
    signature: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)

    def load(self) -> tuple[Any, dict[str, Any]]:
        """Import the kernel. Return the kernel and its launch options. The call requires Triton."""
        module = importlib.import_module(self.module)
        return getattr(module, self.kernel), module.OPTIONS


def _gather(word: str, words: int, stack: int, steps: int, action: str = "*u8") -> GpuSource:
    pointers = {
        "frames": word, "finals": word, "age": "*u8", "action": action, "reward": "*fp32", "flags": "*u8",
        "final": "*i32", "cell": "*i64", "obs_tm1": word, "obs_t": word, "r_t": "*fp32", "discount_t": "*fp32",
        "a_tm1": "*i64",
    }  # fmt: skip
    constants = {"STACK": stack, "STEPS": steps, "CLIPS": True, "WORDS": words, "BLOCK": 1024 if words > 512 else 32}
    numbers = {"size": "i32", "B": "i32", "gamma": "fp32", "clip": "fp32"}
    signature = pointers | numbers | dict.fromkeys(constants, "constexpr")
    return GpuSource("accel_rl.kernels.replay_gather_triton", "gather_kernel", signature, constants)


SOURCES = (
    _gather("*i64", 84 * 84 // 8, stack=4, steps=1),
    _gather("*i64", 104 * 80 // 8, stack=4, steps=3),
    _gather("*i32", 27, stack=1, steps=3, action="*i16"),  # observations are vectors of 27 floats
)
