// Bit masks of a scan line of 160 pixels, one per object: bit x is 1 if the object covers pixel x.
// | word 0   pixels 0-63        word 1   64-127        word 2   128-159, the other bits zero        word 3   zero
//
// Two objects collide at the pixels whose bit is 1 in both masks.
// Each pixel has the colour of the object of highest priority that covers the pixel.
#pragma once
#include "../tia_objects.h"

namespace accel {

struct Mask {
    u64 w[4];
};

// Tables indexed by a byte: the byte with reversed bits, the byte with each bit repeated 4 or 8 times, and the pixels
// of a player whose shape is the byte.
struct BitTables {
    u8 reversed[256];
    u32 four[256];
    u64 eight[256];
    u32 player[2][3][256];
};

HD constexpr BitTables make_bit_tables() {
    BitTables t{};
    for (u32 i = 0; i < 256; i++)
        for (u32 bit = 0; bit < 8; bit++)
            if (i >> bit & 1) {
                t.reversed[i] = u8(t.reversed[i] | 0x80 >> bit);
                t.four[i] |= 15u << (4 * bit);
                t.eight[i] |= u64(255) << (8 * bit);
                for (u32 stretch = 0; stretch < 3; stretch++) {
                    const u32 wide = (1u << (1 << stretch)) - 1;
                    t.player[0][stretch][i] |= wide << ((7 - bit) << stretch);
                    t.player[1][stretch][i] |= wide << (bit << stretch);
                }
            }
    return t;
}

HD const BitTables& bit_tables() {
    static constexpr BitTables tables = make_bit_tables();
    return tables;
}

// Returns the mask of up to 72 pixels that begin at pixel x (0-159) of the line, and wrap around at its end. The code
// avoids branches, which would be hard to predict, and loads that span two recent stores, which are slow.
HD Mask placed(u64 low, u64 high, u32 x) {
    const u32 shift = x & 63;
    const u64 a = low << shift, b = high << shift | low >> 1 >> (63 - shift), c = high >> 1 >> (63 - shift);
    const u64 first = u64(0) - (x < 64), third = u64(0) - (x >= 128), second = ~(first | third), past = b >> 32 | c << 32;
    return Mask{{(first & a) | (second & past) | (third & (a >> 32 | b << 32)), (first & b) | (second & a) | (third & past),
                 (first & c) | (((second & b) | (third & a)) & 0xFFFFFFFFu), 0}};
}

// Up to 128 pixels of an object from pixel x of a line on: the first 64 in `low`, the next 64 in `high`.
struct Pixels {
    u64 low, high;
    u32 x;
};

HD Mask placed(const Pixels& p) { return placed(p.low, p.high, p.x); }

// Returns the pixels of all copies of an object that the register NUSIZ requests. `pixels` is one copy.
HD Pixels copied(u64 pixels, u32 nusiz, u32 x, bool first_hidden) {
    static constexpr u64 low[8] = {1, 0x10001, 0x100000001, 0x100010001, 1, 1, 0x100000001, 1};
    static constexpr u8 high[8] = {0, 0, 0, 0, 1, 0, 1, 0};
    return Pixels{pixels * (low[nusiz & 7] - first_hidden), pixels * high[nusiz & 7], x};
}

// Returns the mask in which the pixels `first` to `last` - 1 are set.
HD Mask span_mask(i32 first, i32 last) {
    Mask m{};
    for (i32 i = 0; i < 3; i++) {
        const i32 low = first - 64 * i, high = last - 64 * i;
        const u64 from = low <= 0 ? ~u64(0) : low >= 64 ? 0 : ~u64(0) << low;
        const u64 to = high <= 0 ? 0 : high >= 64 ? ~u64(0) : ~(~u64(0) << high);
        m.w[i] = from & to;
    }
    return m;
}

HD Pixels player_pixels(const Tia& t, u32 i) {
    const u32 stretch = player_stretch(t.nusiz[i]), x = t.pos[i] + (stretch ? 1u : 0u);
    const u32 pixels = bit_tables().player[t.refp[i] ? 1 : 0][stretch][t.vdel[i] ? t.grp_old[i] : t.grp[i]];
    return copied(pixels, t.nusiz[i], x < u32(WIDTH) ? x : 0, t.first_hidden[i] != 0);
}

HD Pixels missile_pixels(const Tia& t, u32 i) {
    const u32 shows = missile_shows(t, i) ? 1 : 0;
    return copied((u64(shows) << missile_width(t, i)) - shows, t.nusiz[i], t.pos[M0 + i], false);
}

HD Pixels ball_pixels(const Tia& t) {
    const u32 shows = (t.vdel[2] ? t.enabl_old : t.enabl) ? 1 : 0;
    return Pixels{(u64(shows) << (1 << (t.ctrlpf >> 4 & 3))) - shows, 0, t.pos[BL]};
}

HD Mask playfield_mask(const Tia& t) {
    const BitTables& bits = bit_tables();
    const u32 pf = t.pf;
    const u64 low = bits.four[pf & 255] | u64(bits.four[pf >> 8 & 255]) << 32, high = bits.four[pf >> 16 & 15];
    u64 right_low = low, right_high = high;
    if (t.right_reflected) {
        const u32 back =
            u32(bits.reversed[pf & 255]) << 12 | u32(bits.reversed[pf >> 8 & 255]) << 4 | bits.reversed[pf >> 16 & 15] >> 4;
        right_low = bits.four[back & 255] | u64(bits.four[back >> 8 & 255]) << 32;
        right_high = bits.four[back >> 16 & 15];
    }
    return Mask{{low, high | right_low << 16, right_low >> 48 | right_high << 16, 0}};
}

// Writes `value` to the pixels `first` to `last` - 1 of a line.
HD void fill_pixels(u8* line, u8 value, i32 first, i32 last) { fill_bytes(line + first, value, u32(last - first)); }

HD u64 load_eight(const u8* at) {
    u64 eight;
    copy_bytes(&eight, at, 8);
    return eight;
}
HD void store_eight(u8* at, u64 eight) { copy_bytes(at, &eight, 8); }

// Writes those pixels of a line that are set in `span`. Pixels in the disjoint masks `zero`, `one` and `two` get
// colour[0] to colour[2], and all other pixels get colour[3].
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
            const u64 old = load_eight(line + at);
            eight = old ^ ((old ^ eight) & bits.eight[wanted]);
        }
        store_eight(line + at, eight);
    }
}

// Computes which pixels have the colour of player 0, of player 1 and of the playfield, by the priority of colour_index.
HD void by_priority(const Mask* mask, u8 ctrlpf, Mask& zero, Mask& one, Mask& two) {
    const bool field_first = ctrlpf & 4, score = (ctrlpf & 6) == 2;
    for (u32 i = 0; i < 3; i++) {
        const u64 p = mask[P0].w[i] | mask[M0].w[i], q = mask[P1].w[i] | mask[M1].w[i];
        const u64 field = mask[PF].w[i], f = field | mask[BL].w[i];
        if (field_first) {
            zero.w[i] = p & ~f;
            one.w[i] = q & ~(f | p);
            two.w[i] = f;
        } else if (score) {
            const u64 left = i == 0 ? ~u64(0) : i == 1 ? 0xFFFF : 0;
            zero.w[i] = p | (field & left);
            one.w[i] = (q | (field & ~left)) & ~zero.w[i];
            two.w[i] = f & ~(zero.w[i] | one.w[i]);
        } else {
            zero.w[i] = p;
            one.w[i] = q & ~p;
            two.w[i] = f & ~(p | q);
        }
    }
}

}  // namespace accel
