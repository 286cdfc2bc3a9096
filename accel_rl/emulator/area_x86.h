// Versions of `area_line` (observation.h) for AVX-512 and AVX2, one of which is chosen at run time.
// | AVX-512    32 areas at once: their pixels lie within 64 words, which one permutation reads
// | AVX2       4 areas to half a register: their pixels lie within 8 words and those 2 further on
//
// Processors with neither AVX-512 nor AVX2 use the portable `area_line`.
#pragma once
#include "core/observation.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#include <immintrin.h>
#endif

namespace accel {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)

// The 84 areas of a line of the 84x84 observation are padded to 96 by areas of weight zero. Maps each area to the index
// of its first pixel, and to the weights of three pixels.
struct AreaWords {
    u16 first[96], weight[3][96];
};
constexpr AreaWords make_area_words() {
    AreaWords words{};
    constexpr AreaRow row = area_row();
    for (u32 x = 0; x < 96; x++) {
        words.first[x] = u16(40 * x / 21);
        for (u32 k = 0; k < 3 && x < 84; k++) words.weight[k][x] = row.part[x % 21].weight[k];
    }
    return words;
}
inline constexpr AreaWords AREA_WORDS = make_area_words();

__attribute__((target("avx512bw,avx512vl"))) inline void area_line_avx512(const AreaRows& from, u8* out, u64* halfway) {
    alignas(64) u16 down[192];
    for (u32 x = 0; x < u32(WIDTH); x += 32) {
        const auto row = [x](const u8* const* pair) __attribute__((target("avx512bw,avx512vl"))) {
            const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pair[0] + x));
            const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pair[1] + x));
            return _mm512_cvtepu8_epi16(_mm256_max_epu8(a, b));
        };
        const __m512i twice = _mm512_slli_epi16(_mm512_add_epi16(row(from.whole), row(from.other)), 1);
        _mm512_store_si512(down + x, _mm512_add_epi16(twice, row(from.half)));
    }
    _mm512_store_si512(down + WIDTH, _mm512_setzero_si512());
    u32 halves[3];
    for (u32 x = 0; x < 84; x += 32) {
        const u32 wanted = x < 64 ? 0xFFFFFFFFu : 0xFFFFFu;
        const u32 start = AREA_WORDS.first[x];
        const __m512i low = _mm512_loadu_si512(down + start), high = _mm512_loadu_si512(down + start + 32);
        const __m512i first = _mm512_sub_epi16(_mm512_loadu_si512(AREA_WORDS.first + x), _mm512_set1_epi16(short(start)));
        __m512i sum = _mm512_setzero_si512();
        for (u32 k = 0; k < 3; k++) {
            const __m512i pixels = _mm512_permutex2var_epi16(low, _mm512_add_epi16(first, _mm512_set1_epi16(short(k))), high);
            sum = _mm512_add_epi16(sum, _mm512_mullo_epi16(pixels, _mm512_loadu_si512(AREA_WORDS.weight[k] + x)));
        }
        sum = _mm512_add_epi16(sum, _mm512_set1_epi16(100));
        const __m512i value = _mm512_srli_epi16(_mm512_mulhi_epu16(_mm512_srli_epi16(sum, 3), _mm512_set1_epi16(5243)), 1);
        halves[x / 32] = _mm512_cmpeq_epi16_mask(sum, _mm512_mullo_epi16(value, _mm512_set1_epi16(200)));
        _mm256_mask_storeu_epi8(out + x, wanted, _mm512_maskz_cvtepi16_epi8(wanted, value));
    }
    halfway[0] = halves[0] | u64(halves[1]) << 32;
    halfway[1] = halves[2];
}

// Tables for groups of four areas. `bytes` has the offsets of the first two pixels of each area, in bytes from the
// first pixel of the group. `weight[0]` has the weights of the first two pixels of each area, and `weight[1]` those of
// the third pixel.
struct AreaPairs {
    u8 bytes[24][16];
    u16 weight[2][24][8];
};
constexpr AreaPairs make_area_pairs() {
    AreaPairs pairs{};
    for (u32 x = 0; x < 96; x++)
        for (u32 i = 0; i < 2; i++) {
            const u32 four = x / 4, at = 2 * (x % 4) + i, word = AREA_WORDS.first[x] - AREA_WORDS.first[4 * four] + i;
            pairs.bytes[four][2 * at] = u8(2 * word);
            pairs.bytes[four][2 * at + 1] = u8(2 * word + 1);
            pairs.weight[0][four][at] = AREA_WORDS.weight[i][x];
            pairs.weight[1][four][at] = i ? 0 : AREA_WORDS.weight[2][x];
        }
    return pairs;
}
inline constexpr AreaPairs AREA_PAIRS = make_area_pairs();

__attribute__((target("avx2"))) inline __m256i both(const void* low, const void* high) {
    return _mm256_loadu2_m128i(static_cast<const __m128i*>(high), static_cast<const __m128i*>(low));
}
// Returns the weighted sums of eight areas, 32 bits each: areas 4 * low to 4 * low + 3, and 4 * high to 4 * high + 3.
__attribute__((target("avx2"))) inline __m256i fours_of(const u16* down, u32 low, u32 high) {
    const u16 *const a = down + AREA_WORDS.first[4 * low], *const b = down + AREA_WORDS.first[4 * high];
    const __m256i order = both(AREA_PAIRS.bytes[low], AREA_PAIRS.bytes[high]);
    const __m256i two = _mm256_shuffle_epi8(both(a, b), order), third = _mm256_shuffle_epi8(both(a + 2, b + 2), order);
    return _mm256_add_epi32(_mm256_madd_epi16(two, both(AREA_PAIRS.weight[0][low], AREA_PAIRS.weight[0][high])),
                            _mm256_madd_epi16(third, both(AREA_PAIRS.weight[1][low], AREA_PAIRS.weight[1][high])));
}

__attribute__((target("avx2"))) inline void area_line_avx2(const AreaRows& from, u8* out, u64* halfway) {
    alignas(32) u16 down[192];
    for (u32 x = 0; x < u32(WIDTH); x += 16) {
        const auto row = [x](const u8* const* pair) __attribute__((target("avx2"))) {
            const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pair[0] + x));
            const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pair[1] + x));
            return _mm256_cvtepu8_epi16(_mm_max_epu8(a, b));
        };
        const __m256i twice = _mm256_slli_epi16(_mm256_add_epi16(row(from.whole), row(from.other)), 1);
        _mm256_store_si256(reinterpret_cast<__m256i*>(down + x), _mm256_add_epi16(twice, row(from.half)));
    }
    for (u32 x = WIDTH; x < 192; x += 16) _mm256_store_si256(reinterpret_cast<__m256i*>(down + x), _mm256_setzero_si256());
    halfway[0] = halfway[1] = 0;
    for (u32 x = 0; x < 84; x += 16) {
        const __m256i even = fours_of(down, x / 4, x / 4 + 2), odd = fours_of(down, x / 4 + 1, x / 4 + 3);
        const __m256i sum = _mm256_add_epi16(_mm256_packus_epi32(even, odd), _mm256_set1_epi16(100));
        const __m256i value = _mm256_srli_epi16(_mm256_mulhi_epu16(_mm256_srli_epi16(sum, 3), _mm256_set1_epi16(5243)), 1);
        const __m256i half = _mm256_cmpeq_epi16(sum, _mm256_mullo_epi16(value, _mm256_set1_epi16(200)));
        const __m128i halves = _mm_packs_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
        halfway[x >> 6] |= u64(u32(_mm_movemask_epi8(halves))) << (x & 63);
        const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
        if (x < 80) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), bytes);
        } else {
            const int four = _mm_cvtsi128_si32(bytes);
            __builtin_memcpy(out + x, &four, 4);
        }
    }
}

inline AreaLine* best_area_line() {
    static AreaLine* const best = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? area_line_avx512
                                  : __builtin_cpu_supports("avx2")                                         ? area_line_avx2
                                                                                                           : area_line;
    return best;
}

#else

inline AreaLine* best_area_line() { return area_line; }

#endif

}  // namespace accel
