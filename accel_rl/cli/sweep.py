"""The command accel-rl sweep runs, resumes and pauses sweeps."""

from pathlib import Path

from accel_rl.sweeps import pause


def main(argv: list[str]) -> int:
    """Return the exit code: 0 done, 1 a run failed, 130 stopped by Ctrl-C. Raises ConfigError.

    `--pause` and `--unpause` do not wait until torch is imported.
    """
    match argv:
        case ["--pause", folder] if folder:
            print(pause.pause(Path(folder).expanduser()), flush=True)
            return 0
        case ["--unpause", folder] if folder:
            print(pause.unpause(Path(folder).expanduser()), flush=True)
            return 0
    from accel_rl.sweeps.sweep_command import sweep

    return sweep(argv)
