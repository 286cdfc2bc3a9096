// Launches the kernels of kernels.cu on a CPU (cuda_on_cpu.cpp).
#pragma once
#include <string>

namespace cuda {

constexpr unsigned MOST_SHARED = 48 << 10;  // Without a request, a block has at most 48 KiB of shared memory.

// Runs a kernel as CUDA's driver does, with a one-dimensional grid and one-dimensional blocks. Returns an error
// message, or "".
std::string launch(const std::string& name, unsigned blocks, unsigned threads, unsigned shared_bytes, void** parameters);

}  // namespace cuda
