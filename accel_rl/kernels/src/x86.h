// Determines whether kernels with x86-64 instructions are compiled. On other architectures, and with ACCEL_PLAIN,
// kernels with x86-64 instructions are not compiled.
#pragma once
#include <cstdlib>
#include <string>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#define ACCEL_X86 1
#include <immintrin.h>
#else
#define ACCEL_X86 0
#endif

namespace accel {

// The instruction sets for which nn/vector_kernels.h is compiled, and NONE.
enum class Vectors { none, avx2, avx512 };

// Returns the best instruction set of this CPU. ACCEL_RL_VECTORS=avx2 excludes AVX-512, and ACCEL_RL_VECTORS=none
// excludes both.
inline Vectors vectors() {
#if ACCEL_X86
    const char* const given = std::getenv("ACCEL_RL_VECTORS");
    const std::string most = given ? given : "";
    if (most != "avx2" && most != "none" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return Vectors::avx512;
    if (most != "none" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
#endif
    return Vectors::none;
}

}  // namespace accel
