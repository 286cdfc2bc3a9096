"""What all benchmarks share: the command, measurements in turns, tables, samplers, training runs, other processes."""
