// A copy that does not pass through the cache: what is written is for another process, or for later.
//
// An ordinary store first reads the line that it overwrites; these do not, which leaves two of three transfers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "x86.h"

namespace accel {

#if ACCEL_X86

// Everything is visible to others before whatever is stored after the call.
__attribute__((target("avx2"))) inline void stream_avx2(char* to, const char* from, std::size_t bytes) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) & 31;
    if (bytes < head + 32) {
        std::memcpy(to, from, bytes);
        return;
    }
    std::memcpy(to, from, head);
    std::size_t i = head;
    for (; i + 32 <= bytes; i += 32) {
        const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), x);
    }
    std::memcpy(to + i, from + i, bytes - i);
    _mm_sfence();
}

inline void stream(char* to, const char* from, std::size_t bytes) {
    static const bool wide = __builtin_cpu_supports("avx2");
    if (wide) return stream_avx2(to, from, bytes);
    std::memcpy(to, from, bytes);
}

#else

inline void stream(char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace accel
