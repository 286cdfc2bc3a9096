"""The live progress of a run is a bar on a terminal and in a notebook, and plain lines elsewhere."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from accel_rl.text.output import escaped, escaped_lines, print_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PLAIN_INTERVAL_S = 10.0
BAR_INTERVAL_S = 0.2
NOTEBOOK_INTERVAL_S = 1.0


QUIET = "ACCEL_RL_QUIET"
"""Environment variable of a quiet run, which ranks in other processes inherit."""


def is_quiet() -> bool:
    return QUIET in os.environ


@contextlib.contextmanager
def quiet_run(on: bool) -> Iterator[None]:
    """If `on`, runs within the context print only warnings and errors."""
    begins = on and not is_quiet()
    if begins:
        os.environ[QUIET] = "1"
    try:
        yield
    finally:
        if begins:
            del os.environ[QUIET]


def tell(line: str) -> None:
    """Print a line, except in a quiet run."""
    if not is_quiet():
        print_text(line)


def human_time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{s:02d}" if hours else f"{minutes}:{s:02d}"


def human_score(score: float, unit: str = "") -> str:
    return "-" if math.isnan(score) else f"{score:.1f}{unit}"


def of_total(done: int, total: int) -> str:
    """The text "done/total", such as 500/1,000, for the progress of a run. A run ends with a complete rollout, so its
    last env steps may exceed the length of the run."""
    return f"{done:,}/{max(done, total):,}"


def terminal() -> "Console | None":
    """rich's console, or None if stderr is not a terminal or rich is not installed."""
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(stderr=True)
    return console if console.is_terminal else None


def notebook_output() -> Any:
    """An output of the current cell that can be updated, or None if this process is not a notebook's kernel."""
    if "IPython" not in sys.modules:
        return None
    from IPython import display, get_ipython

    if not hasattr(get_ipython(), "kernel"):
        return None
    return display.display({"text/plain": ""}, raw=True, display_id=True)


class ProgressDisplay:
    """Completed steps, steps/s over the last seconds, the online score and the remaining time, on stderr."""

    def __init__(self, total: int, done: int, label: str, unit: str = "steps", of_score: str = ""):
        """`of_score` is the unit of the score."""
        self.total = total
        self.label = escaped(label)
        self._unit = unit
        self._of_score = of_score
        self._bar: Progress | None = None
        self._output: Any = None
        self._started = self._shown = self._rate_at = time.monotonic()
        self._begun_at = self._rate_from = done
        self.steps_per_s = float("nan")
        if console := terminal():
            from rich import progress as rich

            self._bar = rich.Progress(
                rich.TextColumn("{task.description}", markup=False),
                rich.BarColumn(None),
                rich.TextColumn("{task.percentage:>3.0f}%"),
                rich.TextColumn("{task.fields[steps]}  {task.fields[rate]}  score {task.fields[score]}"),
                rich.TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(self.label, total=total, completed=done, steps="", rate="", score="-")
            self._bar.start()
        else:
            self._output = notebook_output()

    def update(self, done: int, score: float) -> None:
        """Display the progress, unless it was displayed shortly before. `update` may be called after every rollout."""
        now = time.monotonic()
        interval_s = BAR_INTERVAL_S if self._bar else NOTEBOOK_INTERVAL_S if self._output else PLAIN_INTERVAL_S
        if now - self._shown < interval_s:
            return
        self._shown = now
        if now - self._rate_at >= 2.0 or math.isnan(self.steps_per_s):
            self.steps_per_s = (done - self._rate_from) / max(now - self._rate_at, 1e-9)
            self._rate_from, self._rate_at = done, now
        if self._bar:
            self._bar.update(
                self._task,
                completed=min(done, self.total),
                steps=of_total(done, self.total),
                rate=f"{self.steps_per_s:,.0f} {self._unit}/s",
                score=human_score(score, self._of_score),
            )
        else:
            left = max(self.total - done, 0) * (now - self._started) / max(done - self._begun_at, 1)
            rate = f"{self.steps_per_s:,.0f} {self._unit}/s"
            line = (
                f"{self.label}  {of_total(done, self.total)} ({min(done / self.total, 1):.0%})  {rate}  "
                f"score {human_score(score, self._of_score)}  {human_time(left)} left"
            )
            if self._output:
                html = f'<progress max="{self.total}" value="{done}"></progress> {escape(line)}'
                self._output.update({"text/plain": line, "text/html": html}, raw=True)
            else:
                self.say(line)

    def pause(self, what: str) -> None:
        """Display the activity `what`, for which training pauses. The time until `resume` is excluded from the
        displayed steps/s."""
        if self._bar:
            self._bar.update(self._task, rate=what)
        else:
            self.say(what)

    def evaluated(self, line: str) -> None:
        self.say(line)

    def resume(self, done: int) -> None:
        self._rate_at, self._rate_from = time.monotonic(), done

    def say(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(escaped_lines(line), highlight=False, markup=False, soft_wrap=True)
        else:
            print_text(line, sys.stderr)

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


class Silent(ProgressDisplay):
    """The display of quiet runs, and of ranks other than 0, which prints only events."""

    def __init__(self, total: int, done: int, label: str, unit: str = "steps", of_score: str = ""):
        super().__init__(total, done, label, unit, of_score)
        self.close()

    def update(self, done: int, score: float) -> None: ...

    def pause(self, what: str) -> None: ...

    def evaluated(self, line: str) -> None: ...

    def resume(self, done: int) -> None: ...
