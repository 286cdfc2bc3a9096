// A replacement of libcuda.so.1 with the driver functions that CudaKernels calls, which runs kernels on the CPU
// (cuda_on_cpu.cpp).
#include <cstdio>
#include <cstring>
#include <map>

#include "cuda_on_cpu.h"

namespace {

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719
};
void* const STREAM = reinterpret_cast<void*>(0x77);  // on_libcuda.py
const char* const kernels[] = {"step", "step_blocks", "rows", "draw", "finish", "begin"};

thread_local void* context = nullptr;

int get_context(void** current) {
    *current = context;
    return SUCCESS;
}

int set_context(void* wanted) {
    context = wanted;
    return SUCCESS;
}

int load_module(const void** module, const void* image) {
    if (!context) return INVALID_CONTEXT;
    *module = kernels;
    return std::memcmp(image, "\177ELF", 4) ? INVALID_IMAGE : SUCCESS;
}

int get_function(const char** function, const void*, const char* name) {
    for (const char* kernel : kernels)
        if (!std::strcmp(kernel, name)) {
            *function = kernel;
            return SUCCESS;
        }
    return NOT_FOUND;
}

int launch_kernel(const char* function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned block_y,
                  unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) {
    if (!context) return INVALID_CONTEXT;
    if (stream != STREAM) return INVALID_HANDLE;
    if (y != 1 || z != 1 || block_y != 1 || block_z != 1 || extra) return INVALID_VALUE;
    const std::string wrong = cuda::launch(function, blocks, threads, shared_bytes, parameters);
    if (wrong.empty()) return SUCCESS;
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return LAUNCH_FAILED;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return SUCCESS; }

int cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

int cuGetProcAddress_v2(const char* name, void** address, int, unsigned long long, int* status) {
    static const std::map<std::string, void*> known = {
        {"cuInit", reinterpret_cast<void*>(cuInit)},
        {"cuDriverGetVersion", reinterpret_cast<void*>(cuDriverGetVersion)},
        {"cuGetProcAddress", reinterpret_cast<void*>(cuGetProcAddress_v2)},
        {"cuCtxGetCurrent", reinterpret_cast<void*>(get_context)},
        {"cuCtxSetCurrent", reinterpret_cast<void*>(set_context)},
        {"cuModuleLoadData", reinterpret_cast<void*>(load_module)},
        {"cuModuleGetFunction", reinterpret_cast<void*>(get_function)},
        {"cuLaunchKernel", reinterpret_cast<void*>(launch_kernel)},
    };
    const auto found = known.find(name);
    *address = found == known.end() ? nullptr : found->second;
    if (status) *status = *address ? 0 : 1;
    return *address ? SUCCESS : NOT_FOUND;
}

int cuGetProcAddress(const char* name, void** address, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}

}  // extern "C"
