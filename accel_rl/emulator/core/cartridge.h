// A cartridge maps the addresses $1000-$1FFF to the ROM.
// | kind   size   banks                  switched by an access to
// | 2K     2 KB   mirrored               -
// | 4K     4 KB   one                    -
// | F8     8 KB   2 x 4 KB               $1FF8 $1FF9
// | F6    16 KB   4 x 4 KB               $1FF6 ... $1FF9
// | F8SC F6SC     and 128 bytes of RAM   written at $1000-$107F, read at $1080-$10FF
// | E0     8 KB   4 slices of 1 KB       $1FE0-7 slice 0, $1FE8-F slice 1, $1FF0-7 slice 2; slice 3 is fixed
// | FE     8 KB   2 x 4 KB               none: A13 of the 16-bit program counter chooses
// | DPC   10 KB   2 x 4 KB, 2 KB data    $1FF8 $1FF9; a chip at $1000-$107F: dpc.h
//
// Except in FE cartridges, `slice` maps each of the four slices of $1000-$1FFF (1 KB each) to an offset in the ROM:
// | byte = rom[slice[address >> 10 & 3] + (address & 0x3FF)]
#pragma once
#include "dpc.h"

namespace accel {

enum CartridgeKind : u8 { CART_2K, CART_4K, CART_F8, CART_F6, CART_F8SC, CART_F6SC, CART_E0, CART_FE, CART_DPC, CART_KINDS };

// The loader pads the bytes of a ROM to the full size of the cartridge's kind.
struct Rom {
    const u8* bytes;
    u32 size;
    u16 hotspots;   // Accesses from the offset `hotspots` on switch banks.
    u16 registers;  // Accesses below the offset `registers` reach RAM or DPC registers.
    CartridgeKind kind;
};

struct Cartridge {
    u16 slice[4];
    u8 ram[128];
    Dpc dpc;
};

HD u32 cartridge_size(CartridgeKind kind) {
    static constexpr u16 sizes[CART_KINDS] = {2048, 4096, 8192, 16384, 8192, 16384, 8192, 8192, 10240};
    return sizes[kind];
}

HD Rom rom_of(const u8* bytes, CartridgeKind kind) {
    static constexpr u16 hotspots[CART_KINDS] = {0x1000, 0x1000, 0xFF8, 0xFF6, 0xFF8, 0xFF6, 0xFE0, 0, 0xFC0};
    static constexpr u16 registers[CART_KINDS] = {0, 0, 0, 0, 0x100, 0x100, 0, 0, 0x80};
    return Rom{bytes, cartridge_size(kind), hotspots[kind], registers[kind], kind};
}

HD void cartridge_bank(Cartridge& c, u32 bank) {
    for (u32 i = 0; i < 4; i++) c.slice[i] = u16(4096 * bank + 1024 * i);
}

HD void cartridge_reset(Cartridge& c, const Rom& rom) {
    cartridge_bank(c, rom.kind == CART_F8 || rom.kind == CART_F8SC || rom.kind == CART_DPC ? 1 : 0);
    dpc_reset(c.dpc);
    if (rom.kind == CART_2K) {
        c.slice[2] = 0;
        c.slice[3] = 1024;
    } else if (rom.kind == CART_E0) {
        for (u32 i = 0; i < 4; i++) c.slice[i] = u16(1024 * (4 + i));
    }
}

// Switches banks after an access to a cartridge address at or above `hotspots`.
HD void cartridge_switch(Cartridge& c, const Rom& rom, u32 offset) {
    switch (rom.kind) {
        case CART_F8:
        case CART_F8SC:
        case CART_DPC:
            if (offset == 0xFF8 || offset == 0xFF9) cartridge_bank(c, offset - 0xFF8);
            break;
        case CART_F6:
        case CART_F6SC:
            if (offset >= 0xFF6 && offset <= 0xFF9) cartridge_bank(c, offset - 0xFF6);
            break;
        case CART_E0:
            if (offset >= 0xFE0 && offset <= 0xFF7) c.slice[(offset - 0xFE0) >> 3] = u16(1024 * (offset & 7));
            break;
        default: break;
    }
}

HD u8 cartridge_read(Cartridge& c, const Rom& rom, u32 address, i32 cycle) {
    const u32 offset = address & 0xFFF;
    if (rom.kind == CART_DPC && (offset >= rom.hotspots || offset < rom.registers)) dpc_random(c.dpc);
    if (offset >= rom.hotspots) {
        if (rom.kind == CART_FE) return rom.bytes[(address & 0x2000 ? 0 : 0x1000) + offset];
        cartridge_switch(c, rom, offset);
    } else if (offset < rom.registers) {
        if (rom.kind == CART_DPC && offset < 0x40) return dpc_read(c.dpc, rom.bytes, offset, cycle);
        if (rom.kind != CART_DPC && offset >= 0x80) return c.ram[offset & 0x7F];
    }
    return rom.bytes[c.slice[offset >> 10] + (offset & 0x3FF)];
}

HD void cartridge_write(Cartridge& c, const Rom& rom, u32 address, u8 value) {
    const u32 offset = address & 0xFFF;
    if (rom.kind == CART_DPC) dpc_random(c.dpc);
    if (offset >= rom.hotspots) {
        cartridge_switch(c, rom, offset);
    } else if (offset < rom.registers) {
        if (rom.kind == CART_DPC && offset >= 0x40) dpc_write(c.dpc, offset, value);
        else if (rom.kind != CART_DPC && offset < 0x80) c.ram[offset] = value;
    }
}

}  // namespace accel
