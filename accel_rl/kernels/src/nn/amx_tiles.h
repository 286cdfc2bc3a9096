// Multiplies bfloat16 matrices in AMX tile registers, with float32 sums.
// | a: 16 rows of 32 numbers      b: 16 rows of 16 pairs: b[k / 2][n][k % 2]      sum: 16 x 16 floats
// | sum[m][n] += a[m][k] b[k][n]      one instruction, 16,384 operations
//
// Tile registers 0 to 3 contain the sums of 2 x 2 tiles, 4 and 5 two tiles of a, and 6 and 7 two tiles of b: four loads
// serve four products.
#pragma once
#include "../address.h"
#include "../x86.h"

#if ACCEL_X86 && defined(__linux__)
#define ACCEL_HAS_TILES 1
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ACCEL_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#else
#define ACCEL_HAS_TILES 0
#endif

namespace accel {

using bf16 = std::uint16_t;  // number as bits

// Requests AMX from Linux for this process, and returns whether the CPU has AMX and the request was granted.
inline bool has_amx() {
#if ACCEL_HAS_TILES
    static const bool has = [] {
        constexpr unsigned TILES = 1u << 24 | 1u << 22, AVX512_BF16 = 1u << 5;
        constexpr long REQUEST = 0x1023, TILE_DATA = 18;  // arch_prctl(2), ARCH_REQ_XCOMP_PERM
        unsigned a, b, c, d;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & TILES) != TILES) return false;
        if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & AVX512_BF16)) return false;
        return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    }();
    return has;
#else
    return false;
#endif
}

#if ACCEL_HAS_TILES

// Configures the tile registers during the lifetime of the object.
struct TileRegisters {
    ACCEL_TILES TileRegisters() {
        struct alignas(64) {
            std::uint8_t palette = 1, start = 0, reserved[14] = {};
            std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
            std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
        } shapes;
        // The compiler does not know that the instruction reads all of `shapes`.
        asm volatile("" : : "r"(&shapes) : "memory");
        _tile_loadconfig(&shapes);
    }
    ACCEL_TILES ~TileRegisters() { _tile_release(); }
};

// The operands of a sum of products. The operands of step i begin a_steps[i] numbers after `a`, and b_steps[i] numbers
// after `b`.
struct Operands {
    const bf16* a;
    i64 a_tile, a_row;  // Distance from a tile of rows to the next, and from a row to the next, in numbers
    const i64* a_steps;
    const bf16* b;
    i64 b_tile, b_row;
    const i64* b_steps;
    i64 steps;
};

ACCEL_TILES inline void zero_tiles() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// Adds products to the sums of M x N tiles, where M and N are 1 or 2.
template <int M, int N>
ACCEL_TILES void add_products(const Operands& o) {
    asm volatile("" ::: "memory");  // Stores from other registers must reach memory before tiles are loaded.
    const i64 a_row = o.a_row * 2, b_row = o.b_row * 2;
    for (i64 i = 0; i < o.steps; i++) {
        const bf16 *a = o.a + o.a_steps[i], *b = o.b + o.b_steps[i];
        _tile_loadd(4, a, a_row);
        _tile_loadd(6, b, b_row);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (N == 2) {
            _tile_loadd(7, b + o.b_tile, b_row);
            _tile_dpbf16ps(1, 4, 7);
        }
        if constexpr (M == 2) {
            _tile_loadd(5, a + o.a_tile, a_row);
            _tile_dpbf16ps(2, 5, 6);
            if constexpr (N == 2) _tile_dpbf16ps(3, 5, 7);
        }
    }
}

ACCEL_TILES inline void add_products(const Operands& o, bool two_rows, bool two_columns) {
    if (two_rows) two_columns ? add_products<2, 2>(o) : add_products<2, 1>(o);
    else two_columns ? add_products<1, 2>(o) : add_products<1, 1>(o);
}

// Stores the four tiles of sums, 16 x 16 floats each, one after another.
ACCEL_TILES inline void store_tiles(float* sums) {
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

ACCEL_TILES inline void load_tiles(const float* sums) {
    asm volatile("" ::: "memory");
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    _tile_loadd(2, sums + 512, 64);
    _tile_loadd(3, sums + 768, 64);
}

// Transposes a matrix of 16 x 16 numbers of 32 bits.
ACCEL_TILES inline void transpose(__m512i r[16]) {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

// Interleaves two rows of 32 numbers into 32 pairs.
ACCEL_TILES inline void pair_up(__m512i even, __m512i odd, __m512i& low, __m512i& high) {
    const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36,
                                           4, 35, 3, 34, 2, 33, 1, 32, 0);
    low = _mm512_permutex2var_epi16(even, first, odd);
    high = _mm512_permutex2var_epi16(even, _mm512_add_epi16(first, _mm512_set1_epi16(16)), odd);
}

ACCEL_TILES inline __m256i rounded(__m512 numbers) { return (__m256i)_mm512_cvtneps_pbh(numbers); }

ACCEL_TILES inline __m512 widened(__m256i numbers) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}

ACCEL_TILES inline void put(__m512 numbers, bf16* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded(numbers)); }

#endif

}  // namespace accel
