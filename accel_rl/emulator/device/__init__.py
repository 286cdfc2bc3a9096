"""The device emulator consists of kernels for GPUs. The same kernels can also be built for CPUs."""
