// Runs one frame with the fast core, or with the plain core if the fast core cannot run the frame.
// | copy of the state -> start_frame -> run_fast -> settle
// |                                         | partial before, or lasts too long
// |                                         +-> the copy again -> the plain core's run_frame
#pragma once
#include "cpu.h"

namespace accel {

// Returns the bus of a fast console that works on the state of a plain console.
HD Bus<WritesAtOnce> fast_bus(const Console& plain, const Form* form) {
    const Picture& p = plain.picture;
    return Bus<WritesAtOnce>{
        plain.s, plain.rom, 0, 0, plain.last_line, FastTia{plain.s.tia, p.first_line, p.height, p.hmove_blanks, ALL_PAIRS, form}};
}
// Inserts a cartridge. `ops` is the decoded ROM.
HD void insert_rom(FastConsole& k, const Rom& rom, const u32* ops) {
    k.insert(rom);
    k.ops = ops;
    k.map_pages();
}

// Runs a frame by the fast core. Returns false, and leaves the state unchanged, if the plain core must run the frame.
HD bool run_fast_frame(FastConsole& k, Console& plain, const FastCanvas& canvas) {
    State& s = k.s;
    if (s.partial || s.cycle > MOST_CYCLES) return false;
    const State before = s;
    plain.start_frame();
    k.begin_frame();
    k.tia.begin_frame(canvas);
    if ((k.translated ? k.translated(k) : run_fast(k)) == FRAME_OVER && s.cycle <= k.give_up + 100) {
        k.settle_log(3 * s.cycle);
        return true;
    }
    s = before;
    return false;
}

}  // namespace accel
