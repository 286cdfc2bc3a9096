// Runs the unchanged GPU kernels of kernels.cu on a CPU.
// | CUDA_THREADS not defined    the threads of a block are fibers, which change at barriers and votes
// | CUDA_THREADS defined        they are threads of the process, among which ThreadSanitizer finds races
// With BLOCKS defined as the file of a game's compiled blocks (device/blocks.py), the game's kernel of blocks.cu is
// included. Thread blocks run one after another. A launch reports writes beyond the requested shared memory, and
// threads that end while other threads of their thread block wait. AddressSanitizer also finds reads beyond the shared
// memory.
#include <pthread.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#endif

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "cuda_on_cpu.h"

namespace cuda {

struct Dim3 {
    unsigned x = 0, y = 0, z = 0;
};
constexpr unsigned MOST_THREADS = 64, SHARED_WORDS = MOST_SHARED / 4, UNWRITTEN = 0xA5A5A5A5;

void meet();
const unsigned* all_of(unsigned value);

}  // namespace cuda

#ifdef CUDA_THREADS
static thread_local cuda::Dim3 threadIdx, blockIdx;
#else
static cuda::Dim3 threadIdx, blockIdx;
#endif
static cuda::Dim3 blockDim, gridDim;
alignas(16) unsigned shared[cuda::SHARED_WORDS];

inline void __syncthreads() { cuda::meet(); }
inline void __syncwarp() {}
inline unsigned __shfl_sync(unsigned, unsigned value, int from);
inline unsigned __reduce_min_sync(unsigned, unsigned value);
inline bool __any_sync(unsigned, bool value);
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(unsigned(bits)) : 32; }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned chosen) {
    unsigned char bytes[8], four[4];
    std::memcpy(bytes, &low, 4), std::memcpy(bytes + 4, &high, 4);
    for (int k = 0; k < 4; k++) four[k] = bytes[chosen >> (4 * k) & 7];
    unsigned result;
    std::memcpy(&result, four, 4);
    return result;
}

// The namespace `accel` is renamed, because a program may also contain the kernels' CPU build with functions of the
// same names.
#define accel accel_cuda
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __host__
#define __device__
#define __global__
#define __shared__
#define __align__(bytes)
#define __noinline__ __attribute__((noinline))
#define __forceinline__
#define __launch_bounds__(...)
#define __grid_constant__
#include "../../../accel_rl/emulator/device/kernels/kernels.cu"
#ifdef BLOCKS
#include "../../../accel_rl/emulator/device/kernels/blocks.cu"
#endif
#undef accel
#undef __noinline__

namespace cuda {

using Kernel = std::function<void()>;

#ifdef CUDA_THREADS

static pthread_barrier_t barrier;
static thread_local unsigned votes;

void meet() { pthread_barrier_wait(&barrier); }
static unsigned& rounds() { return votes; }

static bool run_block(unsigned block, const Kernel& kernel) {
    pthread_barrier_init(&barrier, nullptr, blockDim.x);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < blockDim.x; i++)
        threads.emplace_back([&kernel, block, i] {
            threadIdx.x = i, blockIdx.x = block, votes = 0;
            kernel();
        });
    for (std::thread& one : threads) one.join();
    pthread_barrier_destroy(&barrier);
    return true;
}

#else

struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool ended;
    unsigned votes;
};
static Fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static const Kernel* running;

static Fiber& fiber() { return fibers[threadIdx.x]; }

static void run_fiber() {
    (*running)();
    fiber().ended = true;
    swapcontext(&fiber().context, &scheduler);
}

void meet() {
    Fiber& mine = fiber();
    swapcontext(&mine.context, &scheduler);
}

static unsigned& rounds() { return fiber().votes; }

static void make_fiber(Fiber& f) {
    f.stack.resize(1 << 18);
    f.ended = false, f.votes = 0;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = nullptr;
    makecontext(&f.context, run_fiber, 0);
}

// Runs the threads of a thread block, in reverse order in every second block. Returns false if some threads have ended
// while others wait.
static bool run_block(unsigned block, const Kernel& kernel) {
    const unsigned threads = blockDim.x;
    blockIdx.x = block;
    running = &kernel;
    for (unsigned i = 0; i < threads; i++) make_fiber(fibers[i]);
    for (bool sound = true;;) {
        unsigned ended = 0;
        for (unsigned k = 0; k < threads; k++) {
            threadIdx.x = block & 1 ? threads - 1 - k : k;
            if (!fiber().ended) swapcontext(&scheduler, &fiber().context);
            ended += fiber().ended;
        }
        sound &= ended == 0 || ended == threads;
        if (ended == threads) return sound;
    }
}

#endif

// Publishes the value of a thread, and returns the values of all threads of its block. Two arrays alternate, so that a
// thread can publish its next value while others read.
const unsigned* all_of(unsigned value) {
    static unsigned published[2][MOST_THREADS];
    unsigned* const all = published[rounds()++ & 1];
    all[threadIdx.x] = value;
    meet();
    return all;
}

// Returns the kernel `name`, bound to its parameters, or an empty function if no kernel has this name.
static Kernel kernel_of(const std::string& name, void** parameters) {
    const auto& a = *static_cast<const accel_cuda::StepArguments*>(parameters[0]);
    if (name == "step") return [&a] { step(a); };
#ifdef BLOCKS
    if (name == "step_blocks") return [&a] { step_blocks(a); };
#endif
    if (name == "rows") return [&a] { rows(a); };
    if (name == "draw") return [&a] { draw(a); };
    if (name == "finish") return [&a, parameters] { finish(a, *static_cast<accel_cuda::FinishScratch**>(parameters[1])); };
    if (name == "begin") return [&a, parameters] { begin(a, *static_cast<unsigned*>(parameters[1])); };
    return nullptr;
}

std::string launch(const std::string& name, unsigned blocks, unsigned threads, unsigned bytes, void** parameters) {
    const Kernel kernel = kernel_of(name, parameters);
    if (!kernel) return "no kernel " + name;
    if (!blocks || !threads || threads > MOST_THREADS || bytes > MOST_SHARED) return name + ": the size of the launch";
    gridDim.x = blocks, blockDim.x = threads;
    for (unsigned block = 0; block < blocks; block++) {
        std::memset(shared, UNWRITTEN & 255, sizeof shared);
        const unsigned words = (bytes + 3) / 4;
        ASAN_POISON_MEMORY_REGION(shared + words, 4 * (SHARED_WORDS - words));
        const bool sound = run_block(block, kernel);
        ASAN_UNPOISON_MEMORY_REGION(shared, sizeof shared);
        if (!sound) return name + ": threads have ended while others wait";
        for (unsigned word = words; word < SHARED_WORDS; word++)
            if (shared[word] != UNWRITTEN) return name + ": a write beyond the shared memory";
    }
    return "";
}

}  // namespace cuda

unsigned __shfl_sync(unsigned, unsigned value, int from) { return cuda::all_of(value)[from]; }
unsigned __reduce_min_sync(unsigned, unsigned value) {
    const unsigned* const all = cuda::all_of(value);
    return *std::min_element(all, all + blockDim.x);
}
bool __any_sync(unsigned, bool value) {
    const unsigned* const all = cuda::all_of(value);
    return std::any_of(all, all + blockDim.x, [](unsigned one) { return one != 0; });
}
