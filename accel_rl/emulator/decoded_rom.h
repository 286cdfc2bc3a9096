// Decodes a game's ROM for the fast core.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fast/frame.h"

namespace accel {

inline u32 checksum(const void* data, size_t size) {  // FNV-1a
    u32 sum = 2166136261u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ static_cast<const u8*>(data)[i]) * 16777619u;
    return sum;
}

// The decoded ROM that all emulators of a game share. A translated ROM may be inserted while emulators of the game run.
struct DecodedRom {
    std::vector<u32> ops;
    std::atomic<FastEnd (*)(FastConsole&)> translated{nullptr};
};

struct DecodedRoms {
    std::mutex lock;
    std::map<std::pair<u32, u32>, std::weak_ptr<DecodedRom>> all;  // By the ROM's checksum and kind.

    static DecodedRoms& get() {
        static DecodedRoms roms;
        return roms;
    }
};

// Returns the decoded ROM, which is decoded at the first call for the ROM.
inline std::shared_ptr<DecodedRom> decoded_rom(const Rom& rom, size_t size, u32 checksum_of_rom) {
    DecodedRoms& roms = DecodedRoms::get();
    const std::lock_guard<std::mutex> guard(roms.lock);
    std::weak_ptr<DecodedRom>& known = roms.all[{checksum_of_rom, rom.kind}];
    if (auto decoded = known.lock()) return decoded;
    auto decoded = std::make_shared<DecodedRom>();
    decoded->ops.resize(size + RAM_OPS);
    fast_decode(decoded->ops.data(), rom);
    known = decoded;
    return decoded;
}

}  // namespace accel
