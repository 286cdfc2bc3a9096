// `spread` of fast_masks.h with the wide registers of x86 processors, chosen when the program runs.
//
//     AVX-512    a mask is a register: 64 pixels are four moves
//     AVX2       32 bits of a mask become 32 bytes: each byte keeps its bit, then all or nothing
//
// Elsewhere, and on older processors, the portable one serves.
#pragma once
#include "core/fast_masks.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace accel {

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("avx512bw,avx512vl"))) inline void spread_avx512(u8* line, const u64* zero, const u64* one, const u64* two,
                                                                      const u64* span, const u8* colour) {
    const __m512i back = _mm512_set1_epi8(char(colour[3])), c0 = _mm512_set1_epi8(char(colour[0])),
                  c1 = _mm512_set1_epi8(char(colour[1])), c2 = _mm512_set1_epi8(char(colour[2]));
    for (int i = 0; i < 3; i++) {
        __m512i v = _mm512_mask_mov_epi8(back, zero[i], c0);
        v = _mm512_mask_mov_epi8(v, one[i], c1);
        v = _mm512_mask_mov_epi8(v, two[i], c2);
        _mm512_mask_storeu_epi8(line + 64 * i, span[i], v);  // word 2 has 32 pixels
    }
}

__attribute__((target("avx2"))) inline __m256i bytes_of(u32 mask) {
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m256i kept = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(int(mask)), which), bit);
    return _mm256_cmpeq_epi8(kept, bit);
}

__attribute__((target("avx2"))) inline void spread_avx2(u8* line, const u64* zero, const u64* one, const u64* two, const u64* span,
                                                       const u8* colour) {
    const __m256i back = _mm256_set1_epi8(char(colour[3])), c0 = _mm256_set1_epi8(char(colour[0])),
                  c1 = _mm256_set1_epi8(char(colour[1])), c2 = _mm256_set1_epi8(char(colour[2]));
    for (int at = 0; at < WIDTH; at += 32) {
        const int word = at >> 6, shift = at & 63;
        const u32 wanted = u32(span[word] >> shift);
        if (!wanted) continue;
        __m256i v = _mm256_blendv_epi8(back, c0, bytes_of(u32(zero[word] >> shift)));
        v = _mm256_blendv_epi8(v, c1, bytes_of(u32(one[word] >> shift)));
        v = _mm256_blendv_epi8(v, c2, bytes_of(u32(two[word] >> shift)));
        __m256i* const to = reinterpret_cast<__m256i*>(line + at);
        if (wanted != 0xFFFFFFFFu) v = _mm256_blendv_epi8(_mm256_loadu_si256(to), v, bytes_of(wanted));
        _mm256_storeu_si256(to, v);
    }
}

inline Spread* best_spread() {
    static Spread* const best = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? spread_avx512
                                : __builtin_cpu_supports("avx2")                                         ? spread_avx2
                                                                                                         : nullptr;
    return best;
}

#else

inline Spread* best_spread() { return nullptr; }

#endif

}  // namespace accel
