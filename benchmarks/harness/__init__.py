"""This package has the common code of all benchmarks: the command, alternating measurements, tables, samplers, training
runs, other processes."""
