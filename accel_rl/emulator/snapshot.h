// The state of an emulator that is saved and restored.
// | state bytes     magic "ARLE" | version | kind of cartridge | checksums of ROM and mode | Snapshot | the two pictures
//
// The saved bytes contain everything on which later frames depend, including the pictures, because a short frame shows
// lines of an older picture. Numbers are little-endian.
#pragma once
#include <stdexcept>
#include <string>

#include "core/play.h"
#include "core/random.h"

namespace accel {

struct Snapshot : Play {
    Random sticky;
    u32 console_draws;  // Counts the numbers drawn from the random stream with the fixed seed.
    float sticky_probability;
};

inline void require(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(std::string("the state is damaged: ") + what);
}
inline void check_snapshot(const Snapshot& s, const Rom& rom) {
    const char* const damage = damage_of(s, rom);
    require(!damage, damage);
    require(s.sticky.next <= 624, "the random numbers");
    require(s.console_draws < (1u << 24), "the number of resets");
    require(s.sticky_probability >= 0 && s.sticky_probability <= 1, "the sticky probability");
}

}  // namespace accel
