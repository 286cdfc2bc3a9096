// The fast core's console has a bus, the decoded ROM, and a table of the ROM's mapped pages.
// | start of a frame      as in the plain core; the state is copied
// | the frame             run_fast
// | end of the frame      the TIA is drawn up to the end: tia.h
//
// The plain core runs partial frames, and the frames after partial frames. If the fast core gives up a frame, the plain
// core runs the frame again from the state before the frame.
#pragma once
#include "bus.h"
#include "ops.h"

namespace accel {

enum FastEnd : u8 { FRAME_OVER, GAVE_UP };

// Returns whether an address is in the RAM, without its mirrors.
HD bool in_ram(u32 address) { return (address & 0x3F80) == 0x80; }

struct FastConsole : Bus<WritesAtOnce> {
    const u32* ops;
    // `page` maps a page of 256 bytes (bits 13-8 of an address) to its ROM offset, or to -1 if it is not plain ROM.
    i32 page[64];
    u16 mapped[4];                                  // `mapped` has the slices of the ROM for which `page` was computed.
    FastEnd (*translated)(FastConsole&) = nullptr;  // `translated` is run_fast with the ROM's code, or null.
    RamCode ram_code{};

    // Recomputes the table `page` if the last instruction has switched banks.
    HD void map() {
        if (bytes_differ(mapped, s.cartridge.slice, sizeof mapped)) map_pages();
    }
    HD_CALL void map_pages() {
        copy_bytes(mapped, s.cartridge.slice, sizeof mapped);
        for (u32 i = 0; i < 16; i++) {
            const u32 address = 0x1000 | i << 8, offset = address & 0xFFF;
            const bool plain = offset >= low && offset + 256 <= high;
            page[i] = page[i + 32] = -1;
            page[i + 16] = plain ? i32(rom_offset(address)) : -1;
            page[i + 48] = plain ? i32(rom_offset(address | 0x2000)) : -1;
        }
    }

    HD void begin_frame() {
        map();
        Bus::begin_frame();
    }
};

// A number from the memory layout of FastConsole, which must be equal in a translated ROM and in the emulator.
HD constexpr u32 layout_of_translations() { return u32(sizeof(FastConsole) << 8 | alignof(FastConsole) << 4 | sizeof(void*)); }

}  // namespace accel
