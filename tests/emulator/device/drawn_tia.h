// Draws a TIA (the console's picture chip) with random registers.
#pragma once
#include "../random_games.h"

namespace {

Tia drawn_tia() {
    Tia t{};
    t.frame_clock = -i32(below(LINE_CLOCKS));
    t.hmove_clock = below(4) ? i32(below(300)) : LONG_AGO;
    t.pf = below(4) ? below(1 << 20) : 0;
    for (u8& colour : t.colour) colour = u8(below(256) & 0xFE);
    for (u8* byte : {&t.nusiz[0], &t.nusiz[1], &t.ctrlpf, &t.vblank}) *byte = u8(below(256));
    for (u8* byte : {&t.grp[0], &t.grp[1], &t.grp_old[0], &t.grp_old[1]}) *byte = u8(below(3) ? below(256) : 0);
    for (u8* flag :
         {&t.right_reflected, &t.refp[0], &t.refp[1], &t.enam[0], &t.enam[1], &t.enabl, &t.enabl_old, &t.vdel[0], &t.vdel[1],
          &t.vdel[2], &t.resmp[0], &t.resmp[1], &t.first_hidden[0], &t.first_hidden[1], &t.hmove_blank, &t.colour_loss})
        *flag = u8(below(2));
    for (u8& hm : t.hm) hm = u8(below(3) ? below(16) : 7);
    for (u8& pos : t.pos) pos = u8(below(WIDTH));
    t.stars = u8(below(2) ? below(5) : 0);
    t.star_form = u8(below(3));
    return t;
}

}  // namespace
