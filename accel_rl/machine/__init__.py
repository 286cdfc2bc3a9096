"""The machine: cores, memory, GPUs, energy, and the placement of processes."""
