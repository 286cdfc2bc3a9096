"""The common code of all benchmarks: command line, alternating measurements, tables, measured samplers and
trainings."""
