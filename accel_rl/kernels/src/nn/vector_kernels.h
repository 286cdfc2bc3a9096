// Compiles the float32 kernels twice: for AVX-512 in the namespace avx512, and for AVX2 in the namespace avx2. Headers
// that are included twice have no include guard, and include no other header.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "../address.h"
#include "../lines.h"
#include "../threads.h"
#include "../x86.h"
#include "conv_f32.h"
#include "weight_cache.h"
#include "weight_layout.h"
#include "winograd.h"

#if ACCEL_X86

#define ACCEL_INLINE ACCEL_VECTOR __attribute__((always_inline)) inline

#define ACCEL_FORM avx512
#define ACCEL_WIDE 16
#define ACCEL_VECTOR __attribute__((target("avx512f,avx512bw")))
#include "vector_form.h"

#define ACCEL_FORM avx2
#define ACCEL_WIDE 8
#define ACCEL_VECTOR __attribute__((target("avx2,fma")))
#include "vector_form.h"

#undef ACCEL_INLINE

#endif
