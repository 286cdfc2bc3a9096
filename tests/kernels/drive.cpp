// Runs the compiled kernels on random arrays of many shapes. The results on one thread and on four threads must be
// equal. Arrays have exact sizes, so that a sanitizer finds all accesses outside an array.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "../../accel_rl/kernels/src/nn/actions.h"
#include "../../accel_rl/kernels/src/nn/frame_stacks.h"
#include "../../accel_rl/kernels/src/nn/layer_norm.h"
#include "../../accel_rl/kernels/src/nn/vector_kernels.h"

using namespace accel;

namespace {

// The functions of the kernels for one instruction set.
struct Form {
    decltype(&avx2::conv_u8) conv_u8;
    decltype(&avx2::conv_u8_back) conv_u8_back;
    decltype(&avx2::conv_u8_frames) conv_u8_frames;
    decltype(&avx2::conv_f32_winograd) conv_f32_winograd;
    decltype(&avx2::conv_f32_back) conv_f32_back;
    decltype(&avx2::linear_small_batch) linear_small_batch;
} form;
#define FORM(of) \
    Form { of::conv_u8, of::conv_u8_back, of::conv_u8_frames, of::conv_f32_winograd, of::conv_f32_back, of::linear_small_batch }

std::mt19937 rng(1);

// Replaces torch's threads by std::thread, which a sanitizer can follow.
void threads_of_our_own(void (*function)(void*), void* argument, unsigned threads, unsigned) {
    std::vector<std::thread> all;
    for (unsigned i = 1; i < threads; i++) all.emplace_back(function, argument);
    function(argument);
    for (std::thread& t : all) t.join();
}

// An array of exactly n random elements on the heap.
template <class T>
struct Array {
    explicit Array(i64 n) : n(size_t(n)), data(static_cast<T*>(std::aligned_alloc(alignof(std::max_align_t), bytes()))) {
        std::uniform_real_distribution<double> small(-1, 1);
        for (size_t i = 0; i < this->n; i++) data[i] = std::is_same_v<T, float> ? T(small(rng)) : T(rng() % 256);
    }
    Array(const Array&) = delete;
    ~Array() { std::free(data); }
    size_t bytes() const { return (n * sizeof(T) + 15) / 16 * 16; }
    address at() const { return reinterpret_cast<address>(data); }
    size_t n;
    T* data;
};
using Floats = Array<float>;
using Bytes = Array<std::uint8_t>;
using Longs = Array<i64>;

void same(const char* what, const Floats& a, const Floats& b) {
    if (std::memcmp(a.data, b.data, a.n * sizeof(float))) {
        std::fprintf(stderr, "%s: other numbers on four threads than on one\n", what);
        std::exit(1);
    }
}

void conv_u8_of(i64 N, i64 H, i64 W, i64 D) {
    const i64 S = 4, rows = (H - 8) / 4 + 1, columns = (W - 8) / 4 + 1;
    Bytes pictures(N * S * H * W), frames((N + S) * 3 * H * W), age(N);
    Longs t(N), b(N);
    for (i64 i = 0; i < N; i++) t.data[i] = i % N, b.data[i] = i % 3, age.data[i] %= 4;
    Floats weight(D * S * 64), bias(D), grad(N * rows * columns * D);
    Floats out(N * rows * columns * D), out4(N * rows * columns * D);
    Floats d_weight(D * S * 64), d_weight4(D * S * 64), d_bias(D), d_bias4(D);
    for (const bool many : {false, true}) {
        const int threads = many ? 4 : 1;
        const Floats& o = many ? out4 : out;
        form.conv_u8(N, S, H, W, D, pictures.at(), S * H * W, weight.at(), bias.at(), o.at(), true, threads);
        form.conv_u8_back(N, S, H, W, D, pictures.at(), S * H * W, grad.at(), o.at(), (many ? d_weight4 : d_weight).at(),
                          (many ? d_bias4 : d_bias).at(), threads);
    }
    same("conv_u8", out, out4), same("conv_u8_back", d_weight, d_weight4), same("conv_u8_back", d_bias, d_bias4);
    for (const bool many : {false, true})
        form.conv_u8_frames(N, S, H, W, D, frames.at(), 3 * H * W, H * W, t.at(), b.at(), age.at(), weight.at(), bias.at(),
                            (many ? out4 : out).at(), true, many ? 4 : 1);
    same("conv_u8_frames", out, out4);
}

void conv_f32_of(i64 N, i64 C, i64 H, i64 W, i64 D, i64 k, i64 s, i64 p) {
    const i64 rows = (H + 2 * p - k) / s + 1, columns = (W + 2 * p - k) / s + 1;
    const Geometry geometry{C, H, W, D, k, s, p};
    Floats x(N * H * W * C), weight(D * C * k * k), bias(D), grad(N * rows * columns * D);
    Floats out(N * rows * columns * D), out4(N * rows * columns * D), d_x(N * H * W * C), d_x4(N * H * W * C);
    Floats d_weight(D * C * k * k), d_weight4(D * C * k * k), d_bias(D), d_bias4(D);
    for (const bool many : {false, true}) {
        const Floats& o = many ? out4 : out;
        form.conv_f32_winograd(N, geometry, x.at(), weight.at(), bias.at(), o.at(), true, many ? 4 : 1);
        form.conv_f32_back(N, geometry, x.at(), grad.at(), o.at(), weight.at(), (many ? d_x4 : d_x).at(),
                           (many ? d_weight4 : d_weight).at(), (many ? d_bias4 : d_bias).at(), many ? 4 : 1);
    }
    same("conv_f32_winograd", out, out4), same("conv_f32_back", d_x, d_x4), same("conv_f32_back", d_weight, d_weight4);
}

void linear_of(i64 N, i64 K, i64 G) {
    Floats x(N * K), weight(G * K), bias(G), out(N * G), out4(N * G);
    form.linear_small_batch(N, K, G, x.at(), weight.at(), bias.at(), out.at(), 1);
    form.linear_small_batch(N, K, G, x.at(), weight.at(), bias.at(), out4.at(), 4);
    same("linear_small_batch", out, out4);
}

void layer_norm_of(i64 N, i64 F) {
    Floats x(N * F), weight(F), bias(F), out(N * F), out4(N * F);
    layer_norm(N, F, x.at(), weight.at(), bias.at(), out.at(), 1);
    layer_norm(N, F, x.at(), weight.at(), bias.at(), out4.at(), 4);
    same("layer_norm", out, out4);
}

void frames_of(i64 N, i64 pixels) {
    const i64 S = 4;
    Bytes frames((N + S) * 3 * pixels), age(N), stacks(N * S * pixels);
    Longs t(N), b(N);
    for (i64 i = 0; i < N; i++) t.data[i] = i, b.data[i] = i % 3, age.data[i] %= 4;
    gather_stacks(N, S, pixels, frames.at(), 3 * pixels, pixels, t.at(), b.at(), age.at(), stacks.at(), 4);
}

void small_ones(i64 N, i64 A) {
    Floats logits(N * A), uniform(N), log_prob(N), epsilon(N), x(N * A);
    Longs action(N);
    for (i64 i = 0; i < N; i++) uniform.data[i] = std::abs(uniform.data[i]) * 0.999f, epsilon.data[i] = 0.3f;
    sample_categorical(N, A, logits.at(), uniform.at(), action.at(), log_prob.at());
    epsilon_greedy(N, A, logits.at(), uniform.at(), epsilon.at(), 1, action.at());
    for (i64 i = 0; i < N; i++)
        if (action.data[i] < 0 || action.data[i] >= A) std::exit(1);
    largest_value(N, A, logits.at(), log_prob.at());
    relu(N * A, x.at());
    copy(N * A * 4, logits.at(), x.at());
}

}  // namespace

int main() {
    team() = threads_of_our_own;
    const Vectors best = vectors();
    if (best == Vectors::none) return std::puts("no AVX2: nothing to drive"), 0;
    std::vector<Form> forms{FORM(avx2)};
    if (best == Vectors::avx512) forms.push_back(FORM(avx512));
    for (const Form& each : forms) {
        form = each;
        for (const i64 N : {1, 3, 32}) {
            conv_u8_of(N, 84, 84, 32), conv_u8_of(N, 104, 80, 16), conv_u8_of(N, 11, 9, 16);
            conv_f32_of(N, 32, 20, 20, 64, 4, 2, 0), conv_f32_of(N, 64, 9, 9, 64, 3, 1, 0);
            conv_f32_of(N, 16, 25, 19, 32, 4, 2, 1), conv_f32_of(N, 64, 12, 9, 64, 3, 1, 1),
                conv_f32_of(N, 16, 4, 5, 16, 4, 2, 1);
            linear_of(N, 3136, 512), linear_of(N, 512, 7), linear_of(N, 256, 1);
            frames_of(N, 84 * 84), frames_of(N, 37), small_ones(N, 18), small_ones(N, 1), layer_norm_of(N, 7601);
        }
        for (const i64 N : {2, 4, 47, 64}) linear_of(N, 528, 31);
    }
    std::puts("clean");
}
