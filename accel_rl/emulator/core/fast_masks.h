// A scan line of 160 pixels as bits, one mask an object: bit x of three words is pixel x.
//
//     word 0   pixels 0-63        word 1   64-127        word 2   128-159, the other bits zero
//
// Two objects collide where both have a bit; the colours are a priority of masks.
#pragma once
#include "tia_objects.h"

namespace accel {

struct Mask {
    u64 w[3];
};

// The bits of a byte, in reverse; as 2, 4 and 8 bits each.
struct BitTables {
    u8 reversed[256];
    u16 twice[256];
    u32 four[256];
    u64 eight[256];
};

constexpr BitTables make_bit_tables() {
    BitTables t{};
    for (u32 i = 0; i < 256; i++)
        for (u32 bit = 0; bit < 8; bit++)
            if (i >> bit & 1) {
                t.reversed[i] = u8(t.reversed[i] | 0x80 >> bit);
                t.twice[i] = u16(t.twice[i] | 3u << (2 * bit));
                t.four[i] |= 15u << (4 * bit);
                t.eight[i] |= u64(255) << (8 * bit);
            }
    return t;
}

HD const BitTables& bit_tables() {
    static constexpr BitTables tables = make_bit_tables();
    return tables;
}

// At most 32 pixels from x (0-159) on, round the end of the line.
HD void place(Mask& m, u64 pixels, u32 x) {
    const u32 word = x >> 6, shift = x & 63;
    const u64 first = pixels << shift, second = shift ? pixels >> (64 - shift) : 0;
    if (word == 0) {
        m.w[0] |= first;
        m.w[1] |= second;
    } else if (word == 1) {
        m.w[1] |= first;
        m.w[2] |= second;
    } else {
        m.w[2] |= first & 0xFFFFFFFFu;
        m.w[0] |= first >> 32 | second << 32;
    }
}

HD void place_copies(Mask& m, u64 pixels, i32 x, u32 at) {
    for (; at; at >>= 1, x += 16)
        if (at & 1) place(m, pixels, u32(wrap(x)));
}

// Pixels first ... last - 1.
HD Mask span_mask(i32 first, i32 last) {
    Mask m;
    for (i32 i = 0; i < 3; i++) {
        const i32 low = first - 64 * i, high = last - 64 * i;
        const u64 from = low <= 0 ? ~u64(0) : low >= 64 ? 0 : ~u64(0) << low;
        const u64 to = high <= 0 ? 0 : high >= 64 ? ~u64(0) : ~(~u64(0) << high);
        m.w[i] = from & to;
    }
    return m;
}

HD Mask player_mask(const Tia& t, u32 i) {
    Mask m{};
    const BitTables& bits = bit_tables();
    const u32 shown = t.vdel[i] ? t.grp_old[i] : t.grp[i], pattern = t.refp[i] ? shown : bits.reversed[shown];
    const u32 stretch = player_stretch(t.nusiz[i]);
    const u64 pixels = stretch == 0 ? pattern : stretch == 1 ? bits.twice[pattern] : bits.four[pattern];
    place_copies(m, pixels, t.pos[i] + (stretch ? 1 : 0), copies(t.nusiz[i]) & (t.first_hidden[i] ? ~1u : ~0u));
    return m;
}

HD Mask missile_mask(const Tia& t, u32 i) {
    Mask m{};
    place_copies(m, (u64(1) << (1 << (t.nusiz[i] >> 4 & 3))) - 1, t.pos[M0 + i], copies(t.nusiz[i]));
    return m;
}

HD Mask ball_mask(const Tia& t) {
    Mask m{};
    place(m, (u64(1) << (1 << (t.ctrlpf >> 4 & 3))) - 1, t.pos[BL]);
    return m;
}

HD Mask playfield_mask(const Tia& t) {
    const BitTables& bits = bit_tables();
    const u32 pf = t.pf;
    const u64 low = bits.four[pf & 255] | u64(bits.four[pf >> 8 & 255]) << 32, high = bits.four[pf >> 16 & 15];
    u64 right_low = low, right_high = high;
    if (t.right_reflected) {  // bit 19 - i for bit i
        const u32 back = u32(bits.reversed[pf & 255]) << 12 | u32(bits.reversed[pf >> 8 & 255]) << 4 | bits.reversed[pf >> 16 & 15] >> 4;
        right_low = bits.four[back & 255] | u64(bits.four[back >> 8 & 255]) << 32;
        right_high = bits.four[back >> 16 & 15];
    }
    return Mask{{low, high | right_low << 16, right_low >> 48 | right_high << 16}};
}

// Writes the pixels of `span` (three words each): three masks without a pixel in common show the first three colours, what
// is in none of them the fourth.
using Spread = void(u8* line, const u64* zero, const u64* one, const u64* two, const u64* span, const u8* colour);

HD void spread(u8* line, const u64* zero, const u64* one, const u64* two, const u64* span, const u8* colour) {
    const BitTables& bits = bit_tables();
    const u64 ones = 0x0101010101010101ull, back = colour[3] * ones;
    const u64 change0 = colour[0] * ones ^ back, change1 = colour[1] * ones ^ back, change2 = colour[2] * ones ^ back;
    for (u32 at = 0; at < u32(WIDTH); at += 8) {
        const u32 word = at >> 6, shift = at & 63, wanted = span[word] >> shift & 255;
        if (!wanted) continue;
        u64 eight = back ^ (bits.eight[zero[word] >> shift & 255] & change0) ^ (bits.eight[one[word] >> shift & 255] & change1) ^
                    (bits.eight[two[word] >> shift & 255] & change2);
        if (wanted != 255) {
            u64 old;
            __builtin_memcpy(&old, line + at, 8);
            eight = old ^ ((old ^ eight) & bits.eight[wanted]);
        }
        __builtin_memcpy(line + at, &eight, 8);
    }
}

}  // namespace accel
