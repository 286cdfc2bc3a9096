"""The folder of a run, its launches, its times and its videos."""
