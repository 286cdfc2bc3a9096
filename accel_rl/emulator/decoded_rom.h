// This header decodes the ROM of a game for the fast core.
#pragma once
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

// Returns the decoded ROM, shared by all emulators of a game.
inline std::shared_ptr<const std::vector<u32>> decoded_rom(const Rom& rom, size_t size, u32 checksum_of_rom) {
    static std::mutex lock;
    static std::map<std::pair<u32, u32>, std::weak_ptr<const std::vector<u32>>> all;
    const std::lock_guard<std::mutex> guard(lock);
    std::weak_ptr<const std::vector<u32>>& known = all[{checksum_of_rom, rom.kind}];
    if (auto ops = known.lock()) return ops;
    auto ops = std::make_shared<std::vector<u32>>(size);
    fast_decode(ops->data(), rom);
    known = ops;
    return ops;
}

}  // namespace accel
