// One frame by the fast build, or by the plain core where the fast one does not do it.
//
//     copy of the state -> start_frame -> run_fast -> settle
//                                             | partial before, or lasts too long
//                                             +-> the copy again -> the plain core's run_frame
#pragma once
#include "fast_cpu.h"

namespace accel {

HD bool fast_supports(CartridgeKind kind) { return kind <= CART_F6 || kind == CART_E0 || kind == CART_FE; }

// False where the frame is left to the plain core; the state is then as it was.
HD bool run_fast_frame(FastConsole& k, Console& plain, const FastCanvas& canvas) {
    State& s = k.s;
    if (s.partial || s.cycle > MOST_CYCLES) return false;
    const State before = s;
    plain.start_frame();
    k.begin_frame();
    k.tia.begin_frame(canvas);
    if (run_fast(k) == FRAME_OVER && s.cycle <= k.give_up + 100) {
        k.settle_log(3 * s.cycle);
        return true;
    }
    s = before;
    return false;
}

}  // namespace accel
