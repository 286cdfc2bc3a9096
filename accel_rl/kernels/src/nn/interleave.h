// uint8 planes, one per channel, to channels-last numbers.
#pragma once
#include <cstdint>
#include <cstring>

#include "../x86.h"

namespace accel {

struct BFloat16 {
    std::uint16_t bits;
};

inline void put(float x, float& to) { to = x; }

// exact: 0 to 255 fit in the eight significant bits of bfloat16
inline void put(float x, BFloat16& to) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    to.bits = std::uint16_t(bits >> 16);
}

// planes [S, pixels] -> out [pixels, S], from pixel `from` on.
template <class T>
void interleave_plainly(const std::uint8_t* planes, std::int64_t S, std::int64_t pixels, T* out, std::int64_t from = 0) {
    for (std::int64_t i = from; i < pixels; i++) {
        for (std::int64_t k = 0; k < S; k++) put(float(planes[k * pixels + i]), out[i * S + k]);
    }
}

#if ACCEL_X86

__attribute__((target("avx2"))) inline void put8(__m128i low, __m128i high, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)));
    _mm256_storeu_ps(to + 8, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)));
}

__attribute__((target("avx2"))) inline void put8(__m128i low, __m128i high, BFloat16* to) {
    const __m256i a = _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)));
    const __m256i b = _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)));
    const __m256i both = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(both, 0xD8));  // pack works on 128-bit halves
}

__attribute__((target("avx2"))) inline __m128i eight(const std::uint8_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

// For four planes, eight pixels at a time.
template <class T>
__attribute__((target("avx2"))) void interleave_avx2(const std::uint8_t* planes, std::int64_t pixels, T* out) {
    std::int64_t i = 0;
    for (; i + 8 <= pixels; i += 8) {
        const std::uint8_t* p = planes + i;
        const __m128i ab = _mm_unpacklo_epi8(eight(p), eight(p + pixels));
        const __m128i cd = _mm_unpacklo_epi8(eight(p + 2 * pixels), eight(p + 3 * pixels));
        const __m128i first = _mm_unpacklo_epi16(ab, cd), second = _mm_unpackhi_epi16(ab, cd);
        put8(first, _mm_srli_si128(first, 8), out + 4 * i);
        put8(second, _mm_srli_si128(second, 8), out + 4 * i + 16);
    }
    interleave_plainly(planes, 4, pixels, out, i);
}

template <class T>
void interleave(const std::uint8_t* planes, std::int64_t S, std::int64_t pixels, T* out) {
    static const bool wide = __builtin_cpu_supports("avx2");
    if (wide && S == 4) return interleave_avx2(planes, pixels, out);
    interleave_plainly(planes, S, pixels, out);
}

#else

template <class T>
void interleave(const std::uint8_t* planes, std::int64_t S, std::int64_t pixels, T* out) {
    interleave_plainly(planes, S, pixels, out);
}

#endif

}  // namespace accel
