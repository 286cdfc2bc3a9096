"""Measure the samplers of a sweep in turns, since the speed of the machine changes within minutes."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from typing import Any

import psutil

from accel_rl.samplers.memory_budget import bound
from benchmarks.agents import NAMES, make_agent
from benchmarks.interleave import Bar, interleave, medians, ratio
from benchmarks.ours import Ours, Setting

Turns = dict[str, Any]


def fit(settings: Sequence[Setting]) -> bool:
    """Whether all samplers together leave half of the free memory."""
    bounds = [bound(s.config().spec, s.horizon, s.reset) for s in settings]
    groupings = [s.plan().sampler.grouping for s in settings]
    wanted = sum(b.total(g.B, g.workers) for b, g in zip(bounds, groupings, strict=True))
    return wanted < psutil.virtual_memory().available / 2


def in_turns(
    settings: Sequence[Setting], nets: Sequence[str], seconds: float, repeats: int, bar: Bar, policy: str = ""
) -> list[Turns]:
    """Measure all samplers of one game in turns.

    Returns for each network the rates by sampler, named by what distinguishes it, and the ratios to the fastest."""
    varying = [f.name for f in fields(Setting) if len({getattr(s, f.name) for s in settings}) > 1]
    names = [", ".join(f"{field.replace('_', ' ')} {getattr(s, field)}" for field in varying) for s in settings]
    found = []
    with ExitStack() as stack:
        samplers = [stack.enter_context(closing(Ours(s))) for s in settings]
        for net in nets:
            agent = make_agent(net, samplers[0].spec, samplers[0].placement.device, policy)
            parts = {}
            for name, sampler in zip(names, samplers, strict=True):
                sampler.warm_up(agent)
                parts[name] = lambda sampler=sampler, agent=agent: sampler.measure(seconds, agent)
            rates = interleave(parts, repeats, bar, f"{settings[0].game}, {net}, in turns: ")
            fastest = rates[max(rates, key=lambda name: medians(rates)[name])]
            ratios = {name: ratio(values, fastest) for name, values in rates.items()}
            workers = samplers[0].placement.workers
            of_all = {"game": settings[0].game, "net": net, "workers": workers}
            found.append({**of_all, "measurements": rates, "to_the_fastest": ratios})
    return found


def lines(turns: Turns) -> list[str]:
    """Each sampler's rate, and its ratio to the fastest."""
    title = f"{turns['game']}, {NAMES[turns['net']]}, {turns['workers']} workers"
    out = ["", f"{title}, all in turns: env steps/s, and over the fastest"]
    rates = medians(turns["measurements"])
    for name, q in turns["to_the_fastest"].items():
        by_turn = f"turn by turn {q['median_by_turn']:.2f}, {q['least']:.2f} to {q['most']:.2f}"
        out.append(f"{name:<30} {rates[name]:>9,.0f} {q['of_medians']:>5.2f}   {by_turn}")
    return out
