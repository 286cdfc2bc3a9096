// Compares the unchanged GPU kernels on a CPU (cuda_on_cpu.cpp) with the kernels' CPU build on a whole game.
// test_cuda_on_cpu.py builds the program with sanitizers.
//
// |   sanitized_kernels KIND ROM ENVS STEPS
#include <cstdio>
#include <cstdlib>

#include "cartridge_envs.h"
#include "cuda_on_cpu.h"

namespace {

void launch(const char* name, u32 blocks, u32 threads, u32 shared_bytes, StepArguments& a, void* more = nullptr) {
    void* parameters[] = {&a, more};
    const std::string wrong = cuda::launch(name, blocks, threads, shared_bytes, parameters);
    if (wrong.empty()) return;
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::exit(1);
}

void begin(Envs& envs, u32 all) { launch("begin", envs.a.envs.n, 64, 0, envs.a, &all); }

// Launches the kernels of an environment step, as CudaKernels does on a GPU.
void step(Envs& envs) {
    StepArguments& a = envs.a;
    std::vector<FinishScratch> scratch(2);
    FinishScratch* memory = scratch.data();
    envs.draw_actions();
    launch("step", (a.envs.n + 31) / 32, 32, 4 * (256 + 2 * ((a.tables.rom_bytes + 5) / 4)), a);
    launch("rows", (2 * a.envs.n + 31) / 32, 32, 0, a);
    launch("draw", a.envs.n, 64, BAND_BYTES, a);
    launch("finish", u32(scratch.size()), 1, 0, a, &memory);
    begin(envs, 0);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const CartridgeKind kind = CartridgeKind(std::atoi(argv[1]));
    const std::string rom = read_file(argv[2]);
    const u32 n = u32(std::atoi(argv[3]));
    random_seed(chance, 1);
    Random again = chance;
    Envs host(rom, kind, loaded(rom, kind), n, AREA, 0.25);
    std::swap(chance, again);
    Envs cuda(rom, kind, loaded(rom, kind), n, AREA, 0.25);
    host.a.rules.max_steps = cuda.a.rules.max_steps = 2;
    host_begin(host.a, true);
    begin(cuda, 1);
    for (int t = 0; t < std::atoi(argv[4]); t++) {
        for (Envs* envs : {&host, &cuda}) envs->interrupt(u32(t) % n);
        std::swap(chance, again);
        host.step();
        std::swap(chance, again);
        step(cuda);
        if (cuda.equals(host)) continue;
        std::fprintf(stderr, "step %d differs from the host build\n", t);
        return 1;
    }
    std::printf("steps: %llu by the fast core, %llu by the plain core\n", host.count[ALL_FAST],
                host.count[PLAIN] + host.count[UNKNOWN_PICTURE]);
    return host.count[ALL_FAST] && host.count[PLAIN] + host.count[UNKNOWN_PICTURE] ? 0 : 1;
}
