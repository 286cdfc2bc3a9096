// The words every other header uses, so that the core needs no standard library.
//
//     CPU compiler      HD is empty
//     nvcc, NVRTC       HD marks a function for the host and the device; HD_CALL one that is not copied to where it is
//                       called: a CUDA compiler else copies the whole TIA into every instruction, and does not finish
//
// Tables are constants inside functions: a namespace-scope array cannot be indexed from device code.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HD __host__ __device__ inline
#define HD_CALL __host__ __device__ __noinline__
#else
#define HD inline
#define HD_CALL inline
#endif

namespace accel {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;

// A moment, seen from a later start of time; what is long ago stays so.
constexpr i32 LONG_AGO = -(1 << 28);
HD i32 rebased(i32 moment, i32 start) { return moment - start > LONG_AGO ? moment - start : LONG_AGO; }

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "fixed widths");

}  // namespace accel
