"""The device emulator has kernels for GPUs, and a build of the same kernels for CPUs."""
