// Integer types and macros for all headers of the emulator's core, which needs no C++ standard library.
// | CPU compiler      HD is empty
// | nvcc, NVRTC       HD marks a function for host and device; HD_CALL one that is not inlined: a CUDA compiler would
// |                   inline the whole TIA into every instruction, and would not finish
// | HD_FOLD           one that a CPU compiler inlines, since its arguments are constants at most calls
//
// Constant tables are defined inside functions, because CUDA device code cannot index a constant array at namespace
// scope.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HD __host__ __device__ inline
#define HD_CALL __host__ __device__ __noinline__
#define HD_FOLD HD_CALL
#else
#define HD inline
#define HD_CALL inline
#if defined(__GNUC__)
#define HD_FOLD inline __attribute__((always_inline))
#else
#define HD_FOLD inline
#endif
#endif

namespace accel {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;

// Returns a time relative to the later time `start`. Times before LONG_AGO become LONG_AGO.
constexpr i32 LONG_AGO = -(1 << 28);
HD i32 rebased(i32 moment, i32 start) { return moment - start > LONG_AGO ? moment - start : LONG_AGO; }

// Operations on bytes and bits, by builtin functions of the compiler unless ACCEL_PLAIN is defined.
#ifdef __CUDA_ARCH__
HD void copy_bytes(void* to, const void* from, u32 count) { memcpy(to, from, count); }
HD void fill_bytes(void* to, u8 value, u32 count) { memset(to, value, count); }
HD u32 lowest_bit(u32 bits) { return u32(__ffs(int(bits)) - 1); }
HD u32 lowest_bit64(u64 bits) { return u32(__ffsll((long long)(bits)) - 1); }
#elif defined(__GNUC__) && !defined(ACCEL_PLAIN)
HD void copy_bytes(void* to, const void* from, u32 count) { __builtin_memcpy(to, from, count); }
HD void fill_bytes(void* to, u8 value, u32 count) { __builtin_memset(to, value, count); }
HD u32 lowest_bit(u32 bits) { return u32(__builtin_ctz(bits)); }
HD u32 lowest_bit64(u64 bits) { return u32(__builtin_ctzll(bits)); }
#else
HD void copy_bytes(void* to, const void* from, u32 count) {
    for (u32 i = 0; i < count; i++) static_cast<u8*>(to)[i] = static_cast<const u8*>(from)[i];
}
HD void fill_bytes(void* to, u8 value, u32 count) {
    for (u32 i = 0; i < count; i++) static_cast<u8*>(to)[i] = value;
}
// A de Bruijn sequence: if it is shifted left by 0 to 63 bits, its top 6 bits have 64 different values.
constexpr u64 PLACE_SEQUENCE = 0x03F79D71B4CB0A89ull;
struct BitPlaces {
    u8 of[64];
};
constexpr BitPlaces make_bit_places() {
    BitPlaces places{};
    for (u32 i = 0; i < 64; i++) places.of[(PLACE_SEQUENCE << i) >> 58] = u8(i);
    return places;
}
HD u32 lowest_bit64(u64 bits) {
    static constexpr BitPlaces places = make_bit_places();
    return places.of[((bits & (0 - bits)) * PLACE_SEQUENCE) >> 58];
}
HD u32 lowest_bit(u32 bits) { return lowest_bit64(bits); }
#endif
HD bool bytes_differ(const void* a, const void* b, u32 count) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__) && !defined(ACCEL_PLAIN)
    return __builtin_memcmp(a, b, count) != 0;
#else
    u32 different = 0;
    for (u32 i = 0; i < count; i++) different |= static_cast<const u8*>(a)[i] ^ static_cast<const u8*>(b)[i];
    return different != 0;
#endif
}

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "fixed widths");

}  // namespace accel
