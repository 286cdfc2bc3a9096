// This header determines whether x86-64 instructions are compiled.
// ACCEL_PLAIN omits x86-64 instructions, as on another architecture.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#define ACCEL_X86 1
#define ACCEL_AVX512 __attribute__((target("avx512f,avx512bw")))
#include <immintrin.h>
#else
#define ACCEL_X86 0
#endif

namespace accel {

inline bool has_avx512() {
#if ACCEL_X86
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

}  // namespace accel
