// Whether the compiler knows x86-64's instructions. ACCEL_PLAIN leaves them out, as another architecture's compiler would.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#define ACCEL_X86 1
#define ACCEL_AVX512 __attribute__((target("avx512f,avx512bw")))
#include <immintrin.h>
#else
#define ACCEL_X86 0
#endif
