"""CallGraph of compiled functions, written down once and made again in one piece (kernels/src/calls.h)."""

import threading
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


class _Now(threading.local):
    recording: "Recording | None" = None


_now = _Now()


def recording() -> "Recording | None":
    """What this thread's calls are being written down in."""
    return _now.recording


def call(module: ModuleType, name: str, *arguments: Any) -> None:
    """A function of the extension, of numbers, tuples of them, and tensors, which it gets as addresses (None: 0)."""
    numbers = [_number(a) for a in arguments]
    getattr(module, name)(*numbers)
    if _now.recording is not None:
        _now.recording.note(name, numbers, arguments)


def _number(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    return 0 if argument is None else argument


class Recording(TorchDispatchMode):
    """While it is entered, whatever this thread calls by `call`; it can be made again if there was nothing else to
    compute: `others` names torch's own operations that were not only another look at the same memory.

    Memory that the calls went to stays theirs as long as the recording is there.
    """

    def __init__(self, module: ModuleType):
        super().__init__()
        self._module = module
        self._noted: list[tuple[str, list[int]]] = []
        self.others: set[str] = set()
        self.places: list[tuple[nn.Module, int]] = []  # of layers whose outputs are kept: (layer, rows)
        self._held: list[Tensor] = []

    def __enter__(self) -> "Recording":
        _now.recording = self
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _now.recording = None

    def note(self, name: str, numbers: list[Any], arguments: tuple[Any, ...]) -> None:
        flat = [int(x) for n in numbers for x in (n if isinstance(n, tuple) else (n,))]
        self._noted.append((name, flat))
        self._held += [a for a in arguments if isinstance(a, Tensor)]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not (func.is_view or name in ("empty", "new_empty", "empty_strided", "empty_like")):
            self.others.add(name)
        return func(*args, **(kwargs or {}))

    def calls(self) -> Any:
        """To `settle` and then to `run`."""
        calls = self._module.CallGraph()
        for name, numbers in _without_stacks(self._noted):
            calls.add(name, numbers)
        return calls


def _without_stacks(noted: list[tuple[str, list[int]]]) -> list[tuple[str, list[int]]]:
    """Where a first layer alone looks at stacks of frames, it takes the frames from where they are."""
    for i, (name, numbers) in enumerate(noted):
        if name != "gather_stacks":
            continue
        N, S, size, *frames, stacks, _ = numbers
        inside = range(stacks, stacks + N * S * size)
        readers = [j for j, (_, others) in enumerate(noted) if j != i and any(x in inside for x in others)]
        reader, others = noted[readers[0]] if len(readers) == 1 else ("", numbers)
        if reader == "conv_u8" and others[:2] == [N, S] and others[5:7] == [stacks, S * size]:
            direct = [*others[:5], *frames, *others[7:]]
            rest = [call for j, call in enumerate(noted) if j not in (i, readers[0])]
            at = readers[0] - (i < readers[0])
            return _without_stacks([*rest[:at], ("conv_u8_frames", direct), *rest[at:]])
    return noted
