// Compares the emulator's AVX functions with the portable functions on random scan lines. Prints each instruction set,
// and ends with exit code 1 at a difference.
#include <cstdio>
#include <cstring>

#include "../../accel_rl/emulator/area_x86.h"
#include "../../accel_rl/emulator/core/random.h"
#include "../../accel_rl/emulator/stretch_x86.h"

using namespace accel;

namespace {

Random chance{};
u32 below(u32 n) { return random_draw(chance) % n; }
u64 word() { return u64(random_draw(chance)) << 32 | random_draw(chance); }

// Returns a TIA with random registers.
Tia any_tia() {
    Tia t{};
    t.collisions = word() & 0x7FFF;
    t.pf = below(2) ? u32(word()) & 0xFFFFF : 0;
    for (u8& c : t.colour) c = u8(below(256));
    for (u32 i = 0; i < 2; i++) {
        t.nusiz[i] = u8(below(256));
        t.refp[i] = u8(below(2));
        t.grp[i] = u8(below(2) * below(256));
        t.grp_old[i] = u8(below(256));
        t.enam[i] = u8(below(2));
        t.resmp[i] = u8(below(4) == 0);
        t.first_hidden[i] = u8(below(4) == 0);
    }
    for (u8& v : t.vdel) v = u8(below(2));
    for (u8& x : t.pos) x = u8(below(WIDTH));
    t.enabl = u8(below(2)), t.enabl_old = u8(below(2));
    t.ctrlpf = u8(below(256)), t.right_reflected = u8(below(2));
    return t;
}

bool same_stretch(const char* name, void (*form)(FastTia& tia, u8* line, u32 pairs, const Span& span)) {
    u32 hits = 0;
    for (int n = 0; n < 20000; n++) {
        const Tia start = any_tia();
        const i32 first = below(2) ? 0 : i32(below(WIDTH)), last = below(2) ? WIDTH : first + 1 + i32(below(u32(WIDTH - first)));
        const i32 looks = below(2) ? first : first + i32(below(u32(last - first)));
        u8 lines[2][WIDTH + 64], palette[256];
        for (u8& c : palette) c = u8(below(256));
        for (u32 x = 0; x < sizeof lines[0]; x++) lines[0][x] = lines[1][x] = u8(below(256));
        const bool drawn = below(4) > 0;
        Tia done[2] = {start, start};
        for (u32 i = 0; i < 2; i++) {
            FastTia tia{done[i], 34, 210, true, ALL_PAIRS, plain_form()};
            tia.begin_frame(FastCanvas{drawn ? lines[i] : nullptr, palette, nullptr, nullptr});
            u8* const line = drawn ? lines[i] : nullptr;
            const Span span{first, last, looks};
            i ? form(tia, line, tia.possible(), span) : tia.stretch(line, tia.possible(), span);
        }
        hits += done[0].collisions != start.collisions;
        if (std::memcmp(lines[0], lines[1], sizeof lines[0]) || std::memcmp(&done[0], &done[1], sizeof(Tia)))
            return std::printf("%s differs\n", name), false;
    }
    return std::printf("%s, %u stretches with a new collision\n", name, hits), hits > 0;
}

// Compares two functions that reduce lines to 84 columns. Half of the lines have 3 grays, as in games, so that some
// sums are halfway between two values. The other half of the lines have 256 grays.
bool same_area(const char* name, AreaLine* form) {
    u32 halves = 0;
    for (int n = 0; n < 5000; n++) {
        const u32 grays = n % 2 ? 3 : 256;
        u8 palette[256], rows[6][WIDTH], out[2][84 + 64];
        for (u8& c : palette) c = u8(below(4) ? below(256) : 255);
        for (auto& row : rows)
            for (u8& pixel : row) pixel = palette[below(grays)];
        std::memset(out, 7, sizeof out);
        u64 halfway[2][2];
        const AreaRows from{{rows[0], rows[1]}, {rows[2], rows[3]}, {rows[4], rows[5]}};
        area_line(from, out[0], halfway[0]);
        form(from, out[1], halfway[1]);
        if (std::memcmp(out[0], out[1], sizeof out[0]) || std::memcmp(halfway[0], halfway[1], sizeof halfway[0]))
            return std::printf("%s differs\n", name), false;
        halves += halfway[0][0] || halfway[0][1];
    }
    return std::printf("%s, %u lines with a half\n", name, halves), halves > 0;
}

}  // namespace

int main() {
    random_seed(chance, 1);
    bool same = true;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        same = same_stretch("stretch_avx512", stretch_avx512) & same_area("area_line_avx512", area_line_avx512);
    if (__builtin_cpu_supports("avx2"))
        same = same & same_stretch("stretch_avx2", stretch_avx2) & same_area("area_line_avx2", area_line_avx2);
#endif
    return same ? 0 : 1;
}
