// Operates a console as a player would: sets switches and controllers, loads a game, resets it and plays actions.
// | load     RAM <- 128 draws; 60 frames in which the TV format is detected; then a reset
// | reset    power cycle (RAM stays), 60 frames, 4 with RESET held, the mode's switches, 4 with RESET held,
// |          the game's start actions
// | act      one frame; a sticky action repeats the last with some probability
//
// | SWCHA    P0: right left down up (bits 7-4)   P1: the same (bits 3-0)      0 is pressed
// | SWCHB    bit 0 RESET, bit 1 SELECT (0 is pressed), bits 6 and 7: difficulty of P0 and P1
#pragma once
#include "console.h"
#include "random.h"

namespace accel {

enum Direction : u8 { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8, FIRE = 16 };
enum Switch : u8 { NO_SWITCH = 0, RESET = 1, SELECT = 2 };

constexpr u32 ACTIONS = 18;
constexpr u32 CONSOLE_SEED = 4753849;

// The order of actions is noop, fire, up, right, left, down, upright, upleft, downright, downleft, then the eight
// directions with fire.
HD u8 action_directions(u32 action) {
    static constexpr u8 held[ACTIONS] = {
        // clang-format off
        0, FIRE, UP, RIGHT, LEFT, DOWN, UP | RIGHT, UP | LEFT, DOWN | RIGHT, DOWN | LEFT,
        UP | FIRE, RIGHT | FIRE, LEFT | FIRE, DOWN | FIRE, UP | RIGHT | FIRE, UP | LEFT | FIRE, DOWN | RIGHT | FIRE,
        DOWN | LEFT | FIRE,
        // clang-format on
    };
    return held[action];
}

HD void set_joystick(State& s, u32 action, u32 port) {
    const u8 held = action_directions(action);
    s.riot.swcha = u8(~((held & 15) << (port ? 0 : 4)));
    s.fire[port] = held & FIRE ? 1 : 0;
    s.fire[1 - port] = 0;
}

// At full speed, an action changes a paddle's resistance by 23,000 ohms per frame. The buttons of paddles use the pins
// of joystick directions.
enum Controllers : u8 { JOYSTICKS, PADDLES, PADDLES_SWAPPED, JOYSTICKS_SWAPPED, CONTROLLERS };
constexpr i32 PADDLE_LEAST = 27450, PADDLE_MOST = 790196, PADDLE_TURN = 23000;
constexpr i32 PADDLE_MIDDLE = (PADDLE_LEAST + PADDLE_MOST) / 2;

HD void centre_controllers(State& s, Controllers kind) {
    for (i32& paddle : s.paddle) paddle = kind == JOYSTICKS || kind == JOYSTICKS_SWAPPED ? -1 : PADDLE_MIDDLE;
    if (kind == PADDLES_SWAPPED) s.paddle[2] = s.paddle[3] = 0;  // Unused paddle ports are ready immediately.
}

HD void set_paddle(State& s, u32 action, Controllers kind, i32 turn) {
    const u32 mine = kind == PADDLES_SWAPPED ? 1 : 0;
    const u8 held = action_directions(action);
    i32& r = s.paddle[mine];
    if (held & RIGHT) r -= turn;
    if (held & LEFT) r += turn;
    r = r < PADDLE_LEAST ? PADDLE_LEAST : r > PADDLE_MOST ? PADDLE_MOST : r;
    s.riot.swcha = u8(held & FIRE ? ~(0x80 >> mine) : 0xFF);
    s.fire[0] = s.fire[1] = 0;
}

HD void set_controllers(State& s, u32 action, Controllers kind, i32 turn = PADDLE_TURN) {
    if (kind == JOYSTICKS || kind == JOYSTICKS_SWAPPED) set_joystick(s, action, kind == JOYSTICKS ? 0 : 1);
    else set_paddle(s, action, kind, turn);
}

HD void set_switches(State& s, u8 pressed, u8 difficulty) { s.riot.swchb = u8(0x3F & ~pressed) | u8((difficulty & 3) << 6); }

}  // namespace accel
