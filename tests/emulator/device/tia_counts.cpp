// Counts the operations of a GPU's warp that applies TIA writes and draws pictures, from traces of the warp's lanes.
// The trace of a lane lists the TIA writes that the lane applied (one per turn), its searches for collisions, and its
// painting, during which the other lanes wait. tia_counts.py inserts the calls that write the traces.
#include <algorithm>
#include <vector>

#define PAINTS 64u
namespace accel {

using Trace = std::vector<unsigned>;  // the kind of each turn's write, or an action of 64 or more
inline thread_local std::vector<Trace> traces;
inline void trace(unsigned event) {
    if (!traces.empty()) traces.back().push_back(event);
}

}  // namespace accel

#include "../../../accel_rl/emulator/device/host.h"

using namespace accel;

namespace {

struct Counts {
    double frames, settles, turns, cases, lane_turns, searches, lane_searches;
    double pictures, rows, recorded, rows_turns, lane_rows_turns, bands, draw_turns, lane_draw_turns, composes, lane_composes,
        flushes;
};

struct Cost {
    double turns = 0, cases = 0, lane_turns = 0, actions[4] = {0, 0, 0, 0}, lane_actions[4] = {0, 0, 0, 0};
};

// Returns the kind of a TIA write. A warp executes one kind after another: moves, resets or unlocks of objects, and all
// remaining writes.
u32 case_of(u32 kind) { return kind == MOVES || kind == RESETS || kind == UNLOCKS ? kind : STORES; }

// Returns the cost of a warp whose lanes apply at most `most` TIA writes before they search for collisions or paint.
Cost warp_cost(const std::vector<const Trace*>& lanes, u32 most) {
    Cost cost;
    std::vector<size_t> at(lanes.size(), 0);
    for (bool any = true; any;) {
        any = false;
        std::vector<bool> waits(lanes.size(), false);
        for (u32 k = 0; k < most; k++) {  // A turn that ends with an action applies no write.
            u32 cases = 0;
            for (size_t l = 0; l < lanes.size(); l++) {
                if (waits[l] || at[l] == lanes[l]->size()) continue;
                waits[l] = (*lanes[l])[at[l]] >= PAINTS;
                cases |= 1u << (waits[l] ? STORES : case_of((*lanes[l])[at[l]++]));
                cost.lane_turns++;
            }
            if (!cases) break;
            any = true;
            cost.turns++;
            cost.cases += __builtin_popcount(cases | 1u << STORES);
        }
        u32 acted = 0;
        for (size_t l = 0; l < lanes.size(); l++)
            if (waits[l]) {
                const u32 action = (*lanes[l])[at[l]++] - PAINTS;
                acted |= 1u << action;
                cost.lane_actions[action]++;
            }
        for (u32 k = 0; k < 4; k++) cost.actions[k] += acted >> k & 1;
    }
    return cost;
}

u32 lanes_of_warp = 32;  // that have an environment

// Adds the cost of one phase of the warp's work to `counts`. Each lane has a list of traces, one for each time that the
// lane applies its logged TIA writes. All lanes of the warp apply the TIA writes of their k-th traces together.
void add_settles(Counts& counts, std::vector<std::vector<Trace>>& lanes) {
    size_t most = 0;
    for (const auto& lane : lanes) most = std::max(most, lane.size());
    for (size_t k = 0; k < most; k++) {
        std::vector<const Trace*> together;
        for (const auto& lane : lanes)
            if (lane.size() > k) together.push_back(&lane[k]);
        const Cost cost = warp_cost(together, MOST_TURNS);
        counts.settles++;
        counts.turns += cost.turns, counts.cases += cost.cases, counts.lane_turns += cost.lane_turns / lanes_of_warp;
        counts.searches += cost.actions[0], counts.lane_searches += cost.lane_actions[0] / lanes_of_warp;
    }
    for (auto& lane : lanes) lane.clear();
}

struct TracedWarp {
    Counts& counts;
    HostWarp warp;
    std::vector<std::vector<Trace>> lanes{32};

    template <class Function>
    void each(Function function) {
        any([&function](Lane& lane) {
            function(lane);
            return false;
        });
    }
    template <class Function>
    bool any(Function function) {
        bool result = false;
        for (u32 k = 0; k < 32; k++) {
            traces.clear();
            result |= function(*warp.lanes[k]);
            lanes[k].swap(traces);
        }
        traces.clear();
        add_settles(counts, lanes);
        return result;
    }
    void run_frame() { run_lines(*this, warp.program); }

    SettlingPace pace;
};

Trace taken() {
    Trace one = traces.back();
    traces.clear();
    return one;
}

void draw(const StepArguments& a, Counts& counts) {
    std::vector<std::pair<u32, u32>> pictures;
    for (u32 slot = 0; slot < 2; slot++)
        for (u32 i = 0; i < a.envs.n; i++)
            if (a.envs.shown[i] < SHOWS_FINISHED && a.envs.shown[i] >> slot & 1) pictures.push_back({i, slot});
    std::vector<u32> row(ROW_WORDS);
    const i32 height = a.tables.game->height, band = 30;
    for (size_t first = 0; first < pictures.size(); first += 32) {
        std::vector<Trace> lanes;
        for (size_t p = first; p < std::min(first + 32, pictures.size()); p++) {
            traces.emplace_back();
            record_rows(a, pictures[p].first, pictures[p].second);
            lanes.push_back(taken());
        }
        std::vector<const Trace*> together;
        for (const Trace& lane : lanes) together.push_back(&lane);
        const Cost cost = warp_cost(together, NEVER);
        counts.rows_turns += cost.turns, counts.lane_rows_turns += cost.lane_turns;
    }
    for (const auto& [i, slot] : pictures) {
        const PictureRows rows = picture_rows(a, i, slot);
        counts.pictures++;
        for (i32 y = 0; y < height; y++) counts.recorded += rows.record_of(y) == y;
        for (i32 y = 0; y < height; y += band) {
            std::vector<Trace> lanes;
            for (i32 k = y; k < std::min(height, y + band); k++) {
                traces.emplace_back();
                RowPainter(a, i, slot, k, row.data()).paint();
                lanes.push_back(taken());
            }
            std::vector<const Trace*> together;
            for (const Trace& lane : lanes) together.push_back(&lane);
            const Cost cost = warp_cost(together, NEVER);
            counts.bands++, counts.rows += double(lanes.size());
            counts.draw_turns += cost.turns, counts.lane_draw_turns += cost.lane_turns;
            counts.composes += cost.actions[0], counts.lane_composes += cost.lane_actions[0];
            counts.flushes += cost.actions[1] + 1;  // All threads flush at the end of their row.
        }
    }
}

}  // namespace

extern "C" void count_step(const StepArguments* a, Counts* counts, u32 lanes) {
    lanes_of_warp = lanes;
    const Program program{a->tables.rom, a->tables.code, a->tables.stages};
    for (u32 first = 0; first < a->envs.n; first += lanes) {
        TracedWarp warp{*counts, {{}, program}};
        for (u32 k = 0; k < 32; k++) warp.warp.lanes[k].emplace(*a, program, k < lanes ? first + k : a->envs.n);
        step_warp<Lane>(warp, a->rules.frame_skip);
        counts->frames += a->rules.frame_skip;
    }
    draw(*a, *counts);
    host_draw(*a);
    host_finish(*a);
    host_begin(*a, false);
}
