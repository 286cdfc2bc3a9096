// Compares the GPU kernels' table of TIA register writes (kernels/registers.h) with `apply_write` and `end_line` of
// tia_settle.h. Each value is written to each TIA register in four random CPU cycles, and each time in a random
// state of the TIA.
//
// |   registers ROUNDS
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../../../accel_rl/emulator/device/kernels/registers.h"
#include "drawn_tia.h"

namespace accel {

// Records the clock up to which the picture must be drawn before a write changes the registers.
struct Delay {
    i32 until;
};
void draw_until(Tia&, Delay& delay, i32 until) { delay.until = until; }

}  // namespace accel

using namespace accel;

namespace {

bool equal(const Registers& a, const Registers& b) { return !bytes_differ(&a, &b, sizeof a); }

u32 changed_objects(const Registers& a, const Registers& b) {
    const ObjectMasks m = object_masks(a), n = object_masks(b);
    u32 changed = 0;
    for (u32 object = P0; object <= PF; object++)
        changed |= u32(bytes_differ(&m.of[object], &n.of[object], sizeof(Mask))) << object;
    return changed;
}

u32 visible_objects(const Registers& r) {
    const ObjectMasks m = object_masks(r);
    u32 visible = 0;
    for (u32 object = P0; object <= PF; object++)
        visible |= u32((m.of[object].w[0] | m.of[object].w[1] | m.of[object].w[2]) != 0) << object;
    return visible;
}

const char* difference(const Tia& before, u32 reg, u32 value, i32 cycle) {
    const i32 clock = 3 * cycle;
    const Registers r = registers_of(before);
    Tia t = before;
    store(r, t);
    if (bytes_differ(&t, &before, sizeof t)) return "registers_of or store";
    const Written w = written(r, FastWrite::of(cycle, reg, value), before.frame_clock);
    Delay delay{clock + write_delay(reg, line_clock(t, clock))};
    t.collisions = 1;
    apply_write(t, delay, reg, u8(value), clock);
    if (!equal(w.next, registers_of(t))) return "the registers";
    if (w.until != delay.until) return "the delay";
    if ((w.kind == CLEARS_COLLISIONS) != !t.collisions) return "the collisions";
    const u32 changed = changed_objects(r, w.next);
    if (changed & ~w.objects) return "the objects";
    if (changed && !differs(r, w.next)) return "whether objects change";
    if ((visible_objects(r) & ~r.active()) != 0) return "the active objects";
    const i32 line_start = clock - line_clock(before, clock);
    Registers ended = r;
    t = before;
    end_line(ended, line_start), end_line(t, line_start);
    if (!equal(ended, registers_of(t))) return "the end of a line";
    return !equal(ended, r) && r.calm() ? "calm" : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    random_seed(chance, 1);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++)
        for (u32 reg = 0; reg < 64; reg++)
            for (u32 value = 0; value < 256; value++)
                for (i32 k = 0; k < 4; k++) {
                    const Tia t = drawn_tia();
                    const bool soon = t.hmove_clock > 0 && below(2);  // Some writes depend on the time since an HMOVE.
                    const i32 cycle = soon ? t.hmove_clock / 3 + i32(below(24)) : i32(below(2 * 76));
                    if (const char* what = difference(t, reg, value, cycle)) {
                        std::printf("%s: register %u, value %u, cycle %d\n", what, reg, value, cycle);
                        return 1;
                    }
                }
    std::printf("%d writes\n", rounds * 64 * 256 * 4);
    return 0;
}
