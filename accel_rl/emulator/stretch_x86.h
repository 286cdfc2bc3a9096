// This header has `stretch` of fast/tia.h for AVX-512 and AVX2, chosen at run time.
// | masks      a line is one register of 256 bits; an object's pixels are shifted into each word by a count of its own
// | AVX-512    mask words are mask registers: 64 pixels take four masked moves
// | AVX2       32 bits of a mask are expanded to 32 bytes, 0 or 255
//
// Other processors use the portable `stretch`.
#pragma once
#include "core/fast/tia.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#include <immintrin.h>
#endif

namespace accel {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)

#define AVX2 __attribute__((target("avx2"), always_inline)) inline

AVX2 __m256i of(const Mask& m) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(m.w)); }
AVX2 void keep(Mask& m, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(m.w), v); }

// Places pixels from x (0-159) on. A shift count below 0 or above 63 shifts all bits out.
// Pixels past the end of the line wrap to the start of the line.
AVX2 __m256i placed_wide(u64 pixels, u32 x) {
    const __m256i v = _mm256_set1_epi64x(static_cast<long long>(pixels)), at = _mm256_set1_epi64x(x);
    const __m256i starts = _mm256_setr_epi64x(0, 64, 128, 192), past = _mm256_setr_epi64x(160, 224, 288, 352);
    const __m256i up = _mm256_sllv_epi64(v, _mm256_sub_epi64(at, starts)),
                  down = _mm256_srlv_epi64(v, _mm256_sub_epi64(starts, at));
    const __m256i round = _mm256_srlv_epi64(v, _mm256_sub_epi64(past, at)), line = _mm256_setr_epi64x(-1, -1, 0xFFFFFFFF, 0);
    return _mm256_and_si256(_mm256_or_si256(_mm256_or_si256(up, down), round), line);
}
AVX2 __m256i placed_wide(const Pixels& p) {
    const __m256i m = placed_wide(p.low, p.x);
    return p.high ? _mm256_or_si256(m, placed_wide(p.high, u32(wrap(i32(p.x) + 64)))) : m;
}

struct Spans {
    Mask below[WIDTH + 1];  // The mask below[x] has the pixels 0 to x - 1.
};
constexpr Spans make_spans() {
    Spans spans{};
    for (u32 x = 0; x <= u32(WIDTH); x++)
        for (u32 bit = 0; bit < x; bit++) spans.below[x].w[bit >> 6] |= u64(1) << (bit & 63);
    return spans;
}
inline constexpr Spans SPANS = make_spans();

// A Painting has the masks of the first three colours, and the span to draw.
struct Painting {
    Mask zero, one, two, span;
};

// Computes collisions and, if `to` is given, the colours by priority, as colour_index.
AVX2 void look(FastTia& k, u32 pairs, i32 first, i32 last, Painting* to) {
    Tia& t = k.t;
    if (const u32 wanted = k.to_build()) {
        if (wanted & BIT_P0) keep(k.mask[P0], placed_wide(player_pixels(t, 0)));
        if (wanted & BIT_P1) keep(k.mask[P1], placed_wide(player_pixels(t, 1)));
        if (wanted & BIT_M0) keep(k.mask[M0], placed_wide(missile_pixels(t, 0)));
        if (wanted & BIT_M1) keep(k.mask[M1], placed_wide(missile_pixels(t, 1)));
        if (wanted & BIT_BL) keep(k.mask[BL], placed_wide(ball_pixels(t)));
        if (wanted & BIT_PF) {
            const Mask m = playfield_mask(t);
            keep(k.mask[PF], _mm256_set_epi64x(0, static_cast<long long>(m.w[2]), static_cast<long long>(m.w[1]),
                                               static_cast<long long>(m.w[0])));
        }
    }
    const __m256i span = _mm256_andnot_si256(of(SPANS.below[first]), of(SPANS.below[last]));
    const PairTable& table = pair_table();
    for (; pairs; pairs &= pairs - 1) {
        const u32 pair = u32(__builtin_ctz(pairs));
        const __m256i meet = _mm256_and_si256(of(k.mask[table.first[pair]]), of(k.mask[table.second[pair]]));
        t.collisions |= u32(!_mm256_testz_si256(meet, span)) << pair;
    }
    if (!to) return;
    const __m256i p = _mm256_or_si256(of(k.mask[P0]), of(k.mask[M0])), q = _mm256_or_si256(of(k.mask[P1]), of(k.mask[M1]));
    const __m256i field = of(k.mask[PF]), f = _mm256_or_si256(field, of(k.mask[BL]));
    __m256i zero = p, one = _mm256_andnot_si256(p, q), two = _mm256_andnot_si256(_mm256_or_si256(p, q), f);
    if (t.ctrlpf & 4) {
        zero = _mm256_andnot_si256(f, p);
        one = _mm256_andnot_si256(f, one);
        two = f;
    } else if (t.ctrlpf & 2) {  // In score mode, the playfield has the players' colours.
        const __m256i left = of(SPANS.below[WIDTH / 2]);
        zero = _mm256_or_si256(p, _mm256_and_si256(field, left));
        one = _mm256_andnot_si256(zero, _mm256_or_si256(q, _mm256_andnot_si256(left, field)));
        two = _mm256_andnot_si256(_mm256_or_si256(zero, one), f);
    }
    keep(to->zero, zero);
    keep(to->one, one);
    keep(to->two, two);
    keep(to->span, span);
}

__attribute__((target("avx512bw,avx512vl"))) inline void stretch_avx512(FastTia& k, u8* line, u32 pairs, i32 first, i32 last) {
    Painting paint;
    look(k, pairs, first, last, line ? &paint : nullptr);
    if (!line) return;
    const __m512i back = _mm512_set1_epi8(char(k.shade[3])), c0 = _mm512_set1_epi8(char(k.shade[0])),
                  c1 = _mm512_set1_epi8(char(k.shade[1])), c2 = _mm512_set1_epi8(char(k.shade[2]));
    for (int i = 0; i < 3; i++) {
        __m512i v = _mm512_mask_mov_epi8(back, paint.zero.w[i], c0);
        v = _mm512_mask_mov_epi8(v, paint.one.w[i], c1);
        v = _mm512_mask_mov_epi8(v, paint.two.w[i], c2);
        _mm512_mask_storeu_epi8(line + 64 * i, paint.span.w[i], v);  // The third word of a line has only 32 pixels.
    }
}

AVX2 __m256i bytes_of(u32 mask) {
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    const __m256i kept = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(int(mask)), which), bit);
    return _mm256_cmpeq_epi8(kept, bit);
}

__attribute__((target("avx2"))) inline void stretch_avx2(FastTia& k, u8* line, u32 pairs, i32 first, i32 last) {
    Painting paint;
    look(k, pairs, first, last, line ? &paint : nullptr);
    if (!line) return;
    const __m256i back = _mm256_set1_epi8(char(k.shade[3])), c0 = _mm256_set1_epi8(char(k.shade[0])),
                  c1 = _mm256_set1_epi8(char(k.shade[1])), c2 = _mm256_set1_epi8(char(k.shade[2]));
    for (int at = first & ~31; at < last; at += 32) {
        const int word = at >> 6, shift = at & 63;
        const u32 wanted = u32(paint.span.w[word] >> shift);
        __m256i v = _mm256_blendv_epi8(back, c0, bytes_of(u32(paint.zero.w[word] >> shift)));
        v = _mm256_blendv_epi8(v, c1, bytes_of(u32(paint.one.w[word] >> shift)));
        v = _mm256_blendv_epi8(v, c2, bytes_of(u32(paint.two.w[word] >> shift)));
        __m256i* const to = reinterpret_cast<__m256i*>(line + at);
        if (wanted != 0xFFFFFFFFu) v = _mm256_blendv_epi8(_mm256_loadu_si256(to), v, bytes_of(wanted));
        _mm256_storeu_si256(to, v);
    }
}

#undef AVX2

inline Stretch* best_stretch() {
    static Stretch* const best = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? stretch_avx512
                                 : __builtin_cpu_supports("avx2")                                         ? stretch_avx2
                                                                                                          : nullptr;
    return best;
}

#else

inline Stretch* best_stretch() { return nullptr; }

#endif

}  // namespace accel
