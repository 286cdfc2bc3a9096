// Versions of the drawing code of fast/tia.h for AVX-512 and AVX2, one of which is chosen at run time.
// | masks      a line is one register of 256 bits; an object's pixels are shifted into each word by a count of its own
// | AVX-512    mask words are mask registers: 64 pixels take four masked moves
// | AVX2       32 bits of a mask are expanded to 32 bytes, 0 or 255
//
// Processors with neither AVX-512 nor AVX2 use the portable drawing code.
#pragma once
#include <cstring>

#include "core/fast/tia.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)
#include <immintrin.h>
#endif

namespace accel {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ACCEL_PLAIN)

#define AVX2 __attribute__((target("avx2"), always_inline)) inline

AVX2 __m256i of(const Mask& m) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(m.w)); }
AVX2 void keep(Mask& m, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(m.w), v); }

// Returns the mask of up to 64 pixels that begin at pixel x (0-159) of the line, and wrap around at its end. The code
// relies on AVX2's shifts, which return 0 for counts below 0 or above 63.
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

// The pixels to draw (`span`), and up to three layers of pixels, of which a later layer covers an earlier one. If only
// the playfield is visible, there is one layer of pixels.
struct Painting {
    Mask layer[3], span;
    u8 colour[3]{};
    bool one_layer;
};

// Returns whether any two objects cover the same pixel within the span.
AVX2 bool any_meet(const FastTia& k, __m256i span) {
    __m256i one = of(k.mask[P0]), two = _mm256_setzero_si256();
    for (u32 i = P1; i <= PF; i++) {
        const __m256i m = of(k.mask[i]);
        two = _mm256_or_si256(two, _mm256_and_si256(one, m));
        one = _mm256_or_si256(one, m);
    }
    return !_mm256_testz_si256(two, span);
}

// Latches collisions. If `to` is given, also computes the layers of pixels to draw, by the priority of colour_index.
AVX2 void look(FastTia& k, u32 pairs, const Span& at, Painting* to) {
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
    const __m256i end = of(SPANS.below[at.last]);
    if (pairs) {
        const __m256i looks = _mm256_andnot_si256(of(SPANS.below[at.looks]), end);
        const PairTable& table = pair_table();
        for (pairs = any_meet(k, looks) ? pairs : 0; pairs; pairs &= pairs - 1) {
            const u32 pair = u32(__builtin_ctz(pairs));
            const __m256i meet = _mm256_and_si256(of(k.mask[table.first[pair]]), of(k.mask[table.second[pair]]));
            t.collisions |= u32(!_mm256_testz_si256(meet, looks)) << pair;
        }
    }
    if (!to) return;
    keep(to->span, _mm256_andnot_si256(of(SPANS.below[at.first]), end));
    to->one_layer = !(k.active & ~u32(BIT_PF)) && (t.ctrlpf & 6) != 2;
    if (to->one_layer) {
        keep(to->layer[0], of(k.mask[PF]));
        to->colour[0] = k.shade[2];
        return;
    }
    const __m256i p = _mm256_or_si256(of(k.mask[P0]), of(k.mask[M0])), q = _mm256_or_si256(of(k.mask[P1]), of(k.mask[M1]));
    const __m256i field = of(k.mask[PF]), f = _mm256_or_si256(field, of(k.mask[BL]));
    __m256i zero = p, one = q;
    if ((t.ctrlpf & 6) == 2) {  // In score mode, the playfield has the players' colours.
        const __m256i left = of(SPANS.below[WIDTH / 2]);
        zero = _mm256_or_si256(p, _mm256_and_si256(field, left));
        one = _mm256_or_si256(q, _mm256_andnot_si256(left, field));
    }
    const u32 field_first = t.ctrlpf >> 2 & 1;
    const u32 at_two = 2 * field_first, at_one = 1 - field_first, at_zero = 2 - field_first;
    keep(to->layer[at_two], f);
    keep(to->layer[at_one], one);
    keep(to->layer[at_zero], zero);
    to->colour[at_two] = k.shade[2];
    to->colour[at_one] = k.shade[1];
    to->colour[at_zero] = k.shade[0];
}

__attribute__((target("avx512bw,avx512vl"))) inline void stretch_avx512(FastTia& k, u8* line, u32 pairs, const Span& at) {
    Painting paint;
    look(k, pairs, at, line ? &paint : nullptr);
    if (!line) return;
    const __m512i back = _mm512_set1_epi8(char(k.shade[3])), c0 = _mm512_set1_epi8(char(paint.colour[0])),
                  c1 = _mm512_set1_epi8(char(paint.colour[1])), c2 = _mm512_set1_epi8(char(paint.colour[2]));
    for (int i = at.first >> 6; 64 * i < at.last; i++) {
        __m512i v = _mm512_mask_mov_epi8(back, paint.layer[0].w[i], c0);
        if (!paint.one_layer) {
            v = _mm512_mask_mov_epi8(v, paint.layer[1].w[i], c1);
            v = _mm512_mask_mov_epi8(v, paint.layer[2].w[i], c2);
        }
        _mm512_mask_storeu_epi8(line + 64 * i, paint.span.w[i], v);  // The third word of a line has only 32 pixels.
    }
}

// Expands the 32 pixels of a mask from pixel x (a multiple of 8) on to 32 bytes, each of which is 0 or 255.
AVX2 __m256i bytes_of(const Mask& mask, u32 x) {
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
    int bits;
    std::memcpy(&bits, reinterpret_cast<const u8*>(mask.w) + x / 8, sizeof bits);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), which), bit), bit);
}

__attribute__((target("avx2"))) inline void stretch_avx2(FastTia& k, u8* line, u32 pairs, const Span& at) {
    Painting paint;
    look(k, pairs, at, line ? &paint : nullptr);
    if (!line) return;
    const __m256i back = _mm256_set1_epi8(char(k.shade[3])), c0 = _mm256_set1_epi8(char(paint.colour[0])),
                  c1 = _mm256_set1_epi8(char(paint.colour[1])), c2 = _mm256_set1_epi8(char(paint.colour[2]));
    u32 x = u32(at.first) & ~7u;
    do {
        if (x > WIDTH - 32) x = WIDTH - 32;
        __m256i v = _mm256_blendv_epi8(back, c0, bytes_of(paint.layer[0], x));
        if (!paint.one_layer) {
            v = _mm256_blendv_epi8(v, c1, bytes_of(paint.layer[1], x));
            v = _mm256_blendv_epi8(v, c2, bytes_of(paint.layer[2], x));
        }
        __m256i* const to = reinterpret_cast<__m256i*>(line + x);
        _mm256_storeu_si256(to, _mm256_blendv_epi8(_mm256_loadu_si256(to), v, bytes_of(paint.span, x)));
        x += 32;
    } while (x < u32(at.last));
}

#undef AVX2

// Defines the drawing functions for one instruction set. `stretch` is inlined into the drawing functions,
// because a call would take as long as drawing a short stretch.
#define FORM(name, set)                                                                                     \
    struct Stretch_##name {                                                                                 \
        __attribute__((target(set))) static void stretch(FastTia& k, u8* line, u32 pairs, const Span& at) { \
            stretch_##name(k, line, pairs, at);                                                             \
        }                                                                                                   \
    };                                                                                                      \
    __attribute__((target(set), flatten)) inline void draw_lines_##name(FastTia& k, i32 until) {            \
        k.draw_lines_by<Stretch_##name>(until);                                                             \
    }                                                                                                       \
    __attribute__((target(set), flatten)) inline void look_until_##name(FastTia& k, i32 until) {            \
        k.look_until_by<Stretch_##name>(until);                                                             \
    }                                                                                                       \
    inline constexpr Form FORM_##name = form_of(draw_lines_##name, look_until_##name);
FORM(avx512, "avx512bw,avx512vl")
FORM(avx2, "avx2")
#undef FORM

inline const Form* best_form() {
    static const Form* const best = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") ? &FORM_avx512
                                    : __builtin_cpu_supports("avx2")                                         ? &FORM_avx2
                                                                                                             : plain_form();
    return best;
}

#else

inline const Form* best_form() { return plain_form(); }

#endif

}  // namespace accel
