// The state of an emulator that is saved and restored.
//
//     state bytes     magic "ARLE" | version | kind of cartridge | checksums of ROM and mode | Snapshot | the two pictures
//
// The bytes hold everything that later frames depend on. That includes the pictures: a short frame shows lines of an older
// picture. Numbers are little-endian.
#pragma once
#include <stdexcept>
#include <string>

#include "core/play.h"
#include "core/random.h"

namespace accel {

struct Snapshot : Play {
    Random sticky;
    u32 console_draws;  // numbers drawn from the console's stream, whose seed is fixed
    float sticky_probability;
};

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("the state is damaged: ") + what);
}
// Refuses values that lead outside an array or make a division overflow.
inline void check_snapshot(const Snapshot& s, u32 rom_size) {
    const State& c = s.state;
    for (u16 slice : c.cartridge.slice) require(slice + 1024u <= rom_size, "a cartridge slice lies outside the ROM");
    for (u8 pos : c.tia.pos) require(pos < WIDTH, "an object lies outside the line");
    require(c.riot.shift <= 10, "the timer's divider");
    require(c.cartridge.dpc.part >= 0 && c.cartridge.dpc.part < 1, "the voices' clock");
    for (u16 counter : c.cartridge.dpc.counter) require(counter < 2048, "a data fetcher's counter");
    const i32 most = -LONG_AGO;
    require(c.cycle >= 0 && c.cycle <= MOST_CYCLES + MOST_CYCLES / 2, "the cycle count");
    require(c.tia.frame_clock <= 0 && c.tia.frame_clock > -LINE_CLOCKS, "the frame's first clock");
    require(c.tia.settled >= -LINE_CLOCKS && c.tia.settled <= 3 * c.cycle + LINE_CLOCKS, "the settled clock");
    require(c.tia.dump_cycle >= LONG_AGO && c.tia.dump_cycle <= c.cycle, "the paddles' cycle");
    require(c.tia.hmove_clock >= LONG_AGO && c.tia.hmove_clock <= 3 * c.cycle, "the clock of HMOVE");
    require(c.tia.vsync_clock == NEVER || (c.tia.vsync_clock >= LONG_AGO && c.tia.vsync_clock < most), "the clock of VSYNC");
    require(c.tia.stars <= 4 && c.tia.star_form <= 2, "the stars");
    for (u8 hm : c.tia.hm) require(hm < 16, "a motion");
    require(c.tia.enam[0] < 2 && c.tia.enam[1] < 2 && c.odd_frame < 2, "a flag");
    require(c.cpu.c < 2 && c.cpu.v < 2 && c.cpu.d < 2 && c.cpu.i < 2, "a processor flag");
    for (i32 r : c.paddle) require(r >= -1 && r <= PADDLE_MOST, "a paddle");
    require(s.progress.over < 2 && s.progress.lives > -most && s.progress.lives < most, "the lives");
    for (i32 score : {s.progress.score, s.progress.first_score}) require(score > -4 * most && score < 4 * most, "the score");
    require(s.sticky.next <= 624, "the random numbers");
    require(s.console_draws < (1u << 24), "the number of resets");
    require(s.last_action < ACTIONS, "the last action");
    require(s.sticky_probability >= 0 && s.sticky_probability <= 1, "the sticky probability");
}

}  // namespace accel
