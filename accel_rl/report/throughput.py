"""The table of speeds of each setting, next to the papers' hours."""

import math
import statistics as stats

from accel_rl.report import families
from accel_rl.report.curves import Settings
from accel_rl.report.papers import daley_differences, daley_hours, stooke_differences, stooke_hours
from accel_rl.report.run import FULL_LENGTH
from accel_rl.report.table import Table, number


def throughput_table(settings: Settings) -> Table:
    """Build the table of env steps/s and hours for 50 M env steps, next to the papers' hours."""
    rows = []
    for setting, found in settings.items():
        for game, runs in sorted(found.items()):
            timed = [r for r in runs if not math.isnan(r.steps_per_s)]
            if not timed:
                continue
            rates = [r.steps_per_s for r in timed]
            rate = stats.mean(rates)
            rows.append(
                [
                    setting,
                    game,
                    str(len(rates)),
                    number(rate, 0),
                    number(stats.stdev(rates), 0) if len(rates) > 1 else "",
                    number(FULL_LENGTH / rate / 3600, 2),
                    number(stooke_hours(timed[0].settings)),
                    number(daley_hours(timed[0].settings)),
                    _differences(timed[0].settings),
                ]
            )
    columns = [
        "setting",
        "game",
        "runs",
        "env steps/s",
        "deviation",
        "hours for 50 M",
        "Stooke & Abbeel",
        "Daley & Amato",
        "differs from the paper",
    ]
    note = (
        "Whole runs, evaluations and checkpoints included, on the cores and GPUs of each run; next to them the papers' "
        "hours, if printed, and the settings in which the runs differ from the papers'. Stooke & Abbeel: the cell of "
        "their tables 2 and 3 with the same algorithm, batch size, update mode and number of ranks (a P100 and 5 cores "
        "each), for Atari; policy gradients with 16 (A2C, A3C) or 8 environments per rank (PPO, APPO). Daley & Amato: "
        "one GTX 1080 and 8 threads."
    )
    return Table("throughput", "Throughput", columns, rows, note)


def _differences(settings: families.Settings) -> str:
    papers = (("Stooke & Abbeel", stooke_differences), ("Daley & Amato", daley_differences))
    texts = {paper: ", ".join(differences(settings)) for paper, differences in papers}
    return "; ".join(f"{paper}: {text}" for paper, text in texts.items() if text)
