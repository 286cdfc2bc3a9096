"""When a run begins, `--precision auto` is replaced by the precision in which the run trains faster on this machine."""

import statistics
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from accel_rl.config.resolved import Resolved
from accel_rl.distributed.distributed_config import DistributedConfig
from accel_rl.models.precision import Precision, multiplies_bfloat16
from accel_rl.runners.plan import RunPlan
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.devices import Device
from accel_rl.system.errors import ConfigError, RunError
from accel_rl.system.output import print_text
from accel_rl.tuning.measured_training import MeasuredTraining
from accel_rl.tuning.tuner import LEAST_TURNS, is_faster, measurable

SECONDS = 0.5
"""Seconds of training in one precision, per turn."""


def choose(config: Resolved, plan: RunPlan, run: RunFolder) -> Resolved:
    """Return the settings of a run that has `--precision auto`, with a chosen precision. Training is measured in
    float32 and in bfloat16, in turns, and the choice is stored in the run's config.json, so that a resumed run has the
    same precision."""
    precision, reason = measured(config, plan.ranks[0].device)
    line = f"--precision auto: {precision}, because {reason}"
    print_text(line)
    run.event(line)
    begun = RunFolder.open(run.path, trust=True)[1]
    run.write_json("config.json", replace(begun, precision=precision).to_dict())
    return replace(config, precision=precision)


def measured(config: Resolved, device: str) -> tuple[Precision, str]:
    """Return the faster precision, and the reason in words. The run's parts are measured without other ranks."""
    if not Device(device).queues_work and not multiplies_bfloat16():
        return "float32", "this CPU has no instructions for bfloat16 (AMX or AVX512-BF16)"
    print_text("--precision auto: measuring training in float32 and in bfloat16")
    alone = measurable(replace(config, distributed=DistributedConfig()))
    names: tuple[Precision, ...] = ("float32", "bfloat16")
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="accel_rl-")))
            runs = []
            for name in names:
                runs.append(MeasuredTraining(replace(alone, precision=name), folder / name, warm_cycles=1))
                stack.callback(runs[-1].close)
            turns = [[run.training(SECONDS) for run in runs] for _ in range(LEAST_TURNS)]
    except (ConfigError, RunError) as e:
        return "float32", f"bfloat16 could not be measured: {e}"
    ratios = [lower / exact for exact, lower in turns]
    text = f"bfloat16 trains at {statistics.median(ratios):.2f} times the speed of float32 on {device}"
    return names[is_faster(ratios)], f"{text} ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} turns)"
