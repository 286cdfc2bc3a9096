// The wide forms against the portable ones, on random lines: prints each form, and ends with 1 at a difference.
#include <cstdio>
#include <cstring>

#include "../../accel_rl/emulator/area_x86.h"
#include "../../accel_rl/emulator/core/random.h"
#include "../../accel_rl/emulator/spread_x86.h"

using namespace accel;

namespace {

Random chance{};
u32 below(u32 n) { return random_draw(chance) % n; }
u64 word() { return u64(random_draw(chance)) << 32 | random_draw(chance); }

bool same_spread(const char* name, Spread* form) {
    for (int n = 0; n < 5000; n++) {
        u64 zero[3], one[3], two[3], span[3];
        for (u32 i = 0; i < 3; i++) {
            const u64 inside = i < 2 ? ~u64(0) : 0xFFFFFFFFu;
            zero[i] = word() & inside;
            one[i] = word() & inside & ~zero[i];
            two[i] = word() & inside & ~(zero[i] | one[i]);
        }
        const i32 first = i32(below(WIDTH)), last = first + 1 + i32(below(u32(WIDTH - first)));
        const Mask stretch = below(4) ? span_mask(first, last) : span_mask(0, WIDTH);
        std::memcpy(span, stretch.w, sizeof span);
        u8 colour[4], lines[2][WIDTH + 64];
        for (u8& c : colour) c = u8(below(256));
        for (u32 x = 0; x < sizeof lines[0]; x++) lines[0][x] = lines[1][x] = u8(below(256));
        spread(lines[0], zero, one, two, span, colour);
        form(lines[1], zero, one, two, span, colour);
        if (std::memcmp(lines[0], lines[1], sizeof lines[0])) return std::printf("%s differs\n", name), false;
    }
    return std::printf("%s\n", name), true;
}

// Lines of few grays, as games have them, so that sums are halfway now and then; and of any.
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
        same = same_spread("spread_avx512", spread_avx512) & same_area("area_line_avx512", area_line_avx512);
    if (__builtin_cpu_supports("avx2")) same = same & same_spread("spread_avx2", spread_avx2) & same_area("area_line_avx2", area_line_avx2);
#endif
    return same ? 0 : 1;
}
