// Macros for the code of a translated ROM, a part of run_fast (cpu.h). The file TRANSLATED has one line per
// instruction:
// | T(offset, body, operand, static, zero, target, next)    the body of bodies.h, and the labels behind it
// | X(offset)                                               an instruction that is not translated
//
// A jump is `static` if its operand always means the same offset in the ROM.
#ifdef TRANSLATED
// clang-format off
#undef NEXT
#undef TAKE
#undef JUMP
#undef SLOWLY
#undef END_FRAME
#undef ARG
#undef HERE
#define NEXT(n) break;
#define TAKE goto taken;
#define JUMP(to, carried) { if (IS_STATIC) { if (cycle > give_up) goto gave_up; zero = ZERO; goto taken; } GO(to, carried) }
#define SLOWLY { at = ops + HERE; goto slow; }
#define END_FRAME(n) { at = ops + HERE + n; goto over; }
#define T(offset_, body, operand, is_static, to_zero, target, next) \
    N_##offset_: { \
        __label__ taken; \
        constexpr u32 HERE = offset_, ARG = operand, ZERO = to_zero; constexpr bool IS_STATIC = is_static; \
        do { body } while (0); \
        goto next; \
        taken: goto target; }
#define X(offset_) N_##offset_: { at = ops + offset_; op = *at; goto *label[op & 0xFFFF]; }
#include TRANSLATED
// clang-format on
#endif
