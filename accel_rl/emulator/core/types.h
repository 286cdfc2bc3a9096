// The words every other header uses, so that the core needs no standard library.
//
//     CPU compiler      HD is empty
//     nvcc, NVRTC       HD marks a function for the host and the device
//
// Tables are constants inside functions: a namespace-scope array cannot be indexed from device code.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HD __host__ __device__ inline
#else
#define HD inline
#endif

namespace accel {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "fixed widths");

}  // namespace accel
