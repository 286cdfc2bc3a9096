"""The options of the command line, parsed by argparse."""

import argparse
import tempfile
from pathlib import Path

from accel_rl.machine import hardware
from accel_rl.text.errors import ConfigError, nearest
from benchmarks.gpu.parts import LONGEST, PARTS

RESULTS = Path(__file__).parents[1] / "results"


class Options(argparse.Namespace):
    """Each part of the benchmark takes `seconds` seconds, or its default time if `seconds` is None. All parts together
    take at most `minutes` minutes."""

    parts: tuple[str, ...]  # names of the parts to run, in the order of PARTS
    device: str
    simulated: bool
    tiny: bool
    separate: bool  # Whether each part of the benchmark runs in a separate process
    is_child: bool  # Whether a parent process started this process to run one part of the benchmark
    games: str
    build: bool
    seconds: float | None
    minutes: float | None
    out: Path

    def command(self, name: str) -> str:
        """Return the command line with which a user can repeat a part of the benchmark."""
        flags = ["--simulated"] * self.simulated + ["--tiny"] * self.tiny
        flags += [f"--games {self.games}"] if self.games != "some" else []
        part, seconds = PARTS[name], self.seconds_of(name)
        if seconds != (part.tiny if self.tiny else part.seconds):
            flags.append(f"--seconds {seconds:g}")
        return " ".join(["python -m benchmarks.gpu --part", name, *flags])

    def seconds_of(self, name: str) -> float:
        """Return the time in seconds that a part of the benchmark may take."""
        part = PARTS[name]
        return self.seconds if self.seconds is not None else part.tiny if self.tiny else part.seconds


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ConfigError(message)


def parser() -> argparse.ArgumentParser:
    p = _Parser(prog="python -m benchmarks.gpu", description="Run the GPU's tests and measure everything on it.")
    p.add_argument("--part", nargs="+", default=None, metavar="NAME", help=f"parts to run: {', '.join(PARTS)}")
    p.add_argument("--list", action="store_true", help="list the parts with their seconds")
    p.add_argument("--seconds", type=float, help=f"time of each part, at most {LONGEST:.0f} (default: see --list)")
    p.add_argument("--minutes", type=float, help="time of all parts: those that do not fit are left for a repetition")
    p.add_argument("--games", choices=("some", "all"), default="some", help="games that the tests play (default: some)")
    p.add_argument("--device", default="auto", help="auto, cuda or cuda:N")
    p.add_argument("--simulated", action="store_true", help="use the simulated device of the tests")
    p.add_argument("--tiny", action="store_true", help="the smallest sizes, to try the command itself")
    p.add_argument("--processes", choices=("each", "one"), help="each: every part in a process of its own (default)")
    p.add_argument("--build", action="store_true", help="first build the C++ extensions in this checkout")
    p.add_argument("--out", help="folder of the results (default: benchmarks/results, simulated: a temporary one)")
    return p


def parse(argv: list[str]) -> Options | None:
    """Return the options, or None after --list. Raises ConfigError, with a message of one line, for impossible
    options."""
    o = parser().parse_args(argv, Options())
    if o.list:
        print("\n".join(f"{name:<11}{part.seconds:>5.0f} s  {part.does}" for name, part in PARTS.items()))
        return None
    for name in o.part or ():
        if name not in PARTS:
            raise ConfigError(f"--part {name}: must be of {', '.join(PARTS)}{nearest(name, list(PARTS))}")
    if o.seconds is not None and not 0 < o.seconds <= LONGEST:
        raise ConfigError(f"--seconds {o.seconds:g}: must be above 0 and at most {LONGEST:.0f}")
    if o.minutes is not None and not o.minutes > 0:
        raise ConfigError(f"--minutes {o.minutes:g}: must be above 0")
    o.device = _device(o.device, o.simulated)
    if o.out and Path(o.out).is_file():
        raise ConfigError(f"--out {o.out}: is a file")
    o.out = Path(o.out or (tempfile.mkdtemp(prefix="accel_rl-gpu-") if o.simulated else RESULTS))
    wanted = [name for name in PARTS if o.part is None or name in o.part]
    o.parts = tuple(name for name in wanted if not (o.simulated and name in ("tests", "slow-tests")))
    o.separate = o.processes == "each" or (o.processes is None and len(o.parts) > 1 and not o.tiny)
    o.is_child = o.processes == "one"
    return o


def _device(device: str, simulated: bool) -> str:
    """Return the GPU's device name, or raise ConfigError without a GPU."""
    if simulated:
        if device != "auto":
            raise ConfigError(f"--device {device}: not with --simulated, whose device is sim:0")
        from tests import simulated_device

        simulated_device.install()
        simulated_device.stay()
        return hardware.gpu_name()
    if not hardware.gpu_count():
        raise ConfigError(
            "there is no GPU that torch can use: install a CUDA build of torch on a machine with a GPU "
            "(accel-rl doctor says what is there), or try the command with --simulated --tiny"
        )
    if device == "cpu":
        raise ConfigError("--device cpu: must be a GPU, such as cuda:0")
    return hardware.gpu_name() if device == "auto" else hardware.available_device(device, "--device")
