// The begin kernel starts the next episode of environments whose episode has ended, from a table of start states.
//
// A start state depends only on the timer's value after the power cycle (75 values) and the number of no-ops. If a
// game's reset clears all traces of the last episode, the table of all combinations contains every possible start. For
// cached starts, the table contains a few random combinations.
#pragma once
#include "envs.h"

namespace accel {

// Begins the next episode of environment i by a block of threads, if the environment's episode has ended. If `all` is
// true, begins episode 0.
template <class Block>
HD void begin_block(const StepArguments& a, u32 i, bool all, Block& block) {
    if (!all && !a.out.ended[i]) return;
    Env env;
    load_words(env, a.envs.envs, a.envs.n, i);
    block.meet();  // The barrier ensures that all threads have read `ended`.
    const u32 seed = env.seed, number = all ? 0 : env.number + 1, bytes = observation_bytes(a.rules.observation);
    const u64 start = start_of(a.starts, seed, number);
    const u8* const frame = a.starts.frames + start * bytes;
    for (u32 at = block.thread(); at < bytes; at += block.threads()) a.out.frame[u64(i) * bytes + at] = frame[at];
    if (block.thread()) return;
    load_words(env, a.starts.envs + start * ENV_WORDS, 1, 0);
    env.episode = EpisodeSteps{0, 0, env.play.progress.lives};
    env.seed = seed, env.number = number, env.age = 0;
    store_words(env, a.envs.envs, a.envs.n, i);
    a.out.age[i] = 0;
}

}  // namespace accel
