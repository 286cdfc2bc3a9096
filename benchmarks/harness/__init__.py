"""The common code of all benchmarks: the command line, alternating measurements, tables, samplers, training runs, other
processes."""
