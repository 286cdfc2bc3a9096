"""accel-rl resume RUN [options]"""

from pathlib import Path

from accel_rl.api.options import ResumeOptions
from accel_rl.api.resume import resume
from accel_rl.cli.ending import reported
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder


def main(argv: list[str]) -> int:
    """accel-rl resume RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl resume")
    chosen = parse(ResumeOptions, options, "accel-rl resume RUN", "Continue a run, in the same folder and files.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    result = resume(run, config, chosen, stdout)
    return reported(RunFolder.open(run.path)[1], run, result)
