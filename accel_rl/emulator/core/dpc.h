// DPC is the chip in pitfall2's cartridge, with eight data fetchers, a random number generator and three voices.
// | read   $1000-$1003 random number        write  $1040-7 top, flag off
// |        $1004-$1007 volume of the voices        $1048-F bottom
// |        $1008-F data                            $1050-7 counter, low byte (a voice's: from its top)
// |        $1010-7 data of the window              $1058-F counter, bits 8-10; bit 4: fetchers 5-7 are voices
// |        $1018-$1037 0                           $1070-7 the random number starts anew
// |        $1038-F the window: $FF or 0
//
// | data     display[$7FF - counter]; each read decrements the counter, except that of a voice
// | window   opens when the counter's low byte equals the top, closes when it equals the bottom; checked before a read
// | voice    the low byte is decremented at 15,750 Hz and restarts at the top; the window is open above the bottom
//
// As in ale-py, reads of $1018-$1037 return 0, although a real DPC returns swapped, reversed or rotated data.
//
// Reads of $1000-$107F and $1FC0-$1FFF, and writes to the cartridge, advance DPC's random number.
#pragma once
#include "types.h"

namespace accel {

constexpr u32 DPC_DISPLAY = 8192;      // DPC's display data begin at offset 8192 in the ROM.
constexpr double DPC_HERTZ = 15750.0;  // The voices' clock runs at 15,750 Hz.
constexpr double CPU_HERTZ = 1193191.66666667;

struct Dpc {
    double part;      // `part` is the fraction of the voices' clock period that has passed.
    i32 voice_cycle;  // voice_cycle is the cycle up to which DPC's voices have been advanced.
    u16 counter[8];
    u8 top[8], bottom[8], window[8];
    u8 voice[3];
    u8 random;
};

// DPC's random number is 1 at power-on, and 7 after the two reads of the reset vector in ale-py's additional first
// reset.
HD void dpc_start(Dpc& d) {
    d = Dpc{};
    d.random = 7;
}

// A reset of the console changes nothing in the DPC chip except the clock of the three voices.
HD void dpc_reset(Dpc& d) {
    d.part = 0;
    d.voice_cycle = 0;
}

// Bits 7, 5, 4 and 3 of the old random number determine bit 0 of the new random number.
HD void dpc_random(Dpc& d) {
    const u32 r = d.random;
    d.random = u8(r << 1 | (~(r >> 7 ^ r >> 5 ^ r >> 4 ^ r >> 3) & 1));
}

HD void dpc_look(Dpc& d, u32 i) {
    const u32 low = d.counter[i] & 0xFF;
    if (low == d.top[i]) d.window[i] = 0xFF;
    else if (low == d.bottom[i]) d.window[i] = 0;
}

HD void dpc_play(Dpc& d, i32 cycle) {
    const u32 cycles = u32(cycle) - u32(d.voice_cycle);
    d.voice_cycle = cycle;
    const double clocks = DPC_HERTZ * cycles / CPU_HERTZ + d.part;
    const u32 whole = u32(clocks);
    d.part = clocks - whole;
    for (u32 i = 5; i < 8 && whole; i++) {
        if (!d.voice[i - 5]) continue;
        const i32 period = d.top[i] + 1;
        i32 low = d.top[i] ? (d.counter[i] & 0xFF) - i32(whole % u32(period)) : 0;
        if (low < 0) low += period;
        if (low <= d.bottom[i]) d.window[i] = 0;
        else if (low <= d.top[i]) d.window[i] = 0xFF;
        d.counter[i] = u16((d.counter[i] & 0x700) | u32(low));
    }
}

HD u8 dpc_volume(const Dpc& d) {
    static constexpr u8 volume[8] = {0x0, 0x4, 0x5, 0x9, 0x6, 0xA, 0xB, 0xF};
    u32 voices = 0;
    for (u32 i = 0; i < 3; i++) voices |= u32(d.voice[i] && d.window[5 + i]) << i;
    return volume[voices];
}

HD u8 dpc_read(Dpc& d, const u8* rom, u32 offset, i32 cycle) {
    const u32 i = offset & 7;
    dpc_look(d, i);
    u8 value = 0;
    switch (offset >> 3) {
        case 0:
            if (i >= 4) dpc_play(d, cycle);
            value = i < 4 ? d.random : dpc_volume(d);
            break;
        case 1: value = rom[DPC_DISPLAY + 0x7FF - d.counter[i]]; break;
        case 2: value = rom[DPC_DISPLAY + 0x7FF - d.counter[i]] & d.window[i]; break;
        case 7: value = d.window[i]; break;
        default: break;
    }
    if (i < 5 || !d.voice[i - 5]) d.counter[i] = (d.counter[i] - 1) & 0x7FF;
    return value;
}

HD void dpc_write(Dpc& d, u32 offset, u8 value) {
    const u32 i = offset & 7;
    switch (offset >> 3 & 7) {
        case 0:
            d.top[i] = value;
            d.window[i] = 0;
            break;
        case 1: d.bottom[i] = value; break;
        case 2: d.counter[i] = u16((d.counter[i] & 0x700) | (i >= 5 && d.voice[i - 5] ? d.top[i] : value)); break;
        case 3:
            d.counter[i] = u16((value & 7) << 8 | (d.counter[i] & 0xFF));
            if (i >= 5) d.voice[i - 5] = value >> 4 & 1;
            break;
        case 6: d.random = 1; break;
        default: break;
    }
}

}  // namespace accel
