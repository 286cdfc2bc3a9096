// Computes a fully connected layer x W' + b for an x with few rows.
// Repacking the large matrix W, as libraries for matrix products do, would take as long as the product itself.
// | out[n][g] = b[g] + sum over k of x[n][k] W[g][k]        both are contiguous along k: WIDE numbers at a time
//
// Each output has WIDE partial sums, one for each k modulo WIDE, which are added at the end.
// Each output row is bitwise identical for any batch size and number of threads.
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

constexpr i64 MAX_ROWS = 64;  // MAX_ROWS is the maximum batch size N.
// K is processed in pieces, so that twelve rows of W (six of them prefetched) and ROWS rows of x fit into the
// first-level cache.
constexpr i64 PIECE = 576;
constexpr int ROWS = WIDE == 16 ? 4 : 2, AT_ONCE = 6;  // The sums of ROWS rows of x and AT_ONCE of W fit in the registers.

struct Wide {
    i64 N, K, G;
    const float *x, *weight, *bias;
    float* out;
};

// Adds the terms k in [from, to), where to - from is a multiple of WIDE, to the sums for P rows of x and Q rows of W.
// Prefetches A rows of W from `ahead` on.
template <int P, int Q, int A = 0>
ACCEL_VECTOR inline void add_terms(const Wide& w, i64 n, i64 g, i64 from, i64 to, Vector* sums, const float* ahead = nullptr) {
    Vector s[P][Q];
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) s[p][q] = from ? sums[p * Q + q] : ACCEL_MM(setzero_ps)();
    const float *x = w.x + n * w.K, *weight = w.weight + g * w.K;
    for (i64 k = from; k < to; k += WIDE) {
        Vector row[P];
#pragma GCC unroll 4
        for (int p = 0; p < P; p++) row[p] = ACCEL_MM(loadu_ps)(x + p * w.K + k);
#pragma GCC unroll 6
        for (int a = 0; a < A; a++) _mm_prefetch(reinterpret_cast<const char*>(ahead + a * w.K + k - from), _MM_HINT_T0);
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) {
            const Vector column = ACCEL_MM(loadu_ps)(weight + q * w.K + k);
#pragma GCC unroll 4
            for (int p = 0; p < P; p++) s[p][q] = ACCEL_MM(fmadd_ps)(row[p], column, s[p][q]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
#pragma GCC unroll 6
        for (int q = 0; q < Q; q++) sums[p * Q + q] = s[p][q];
}

// Computes the outputs of Q rows of W from g on, for all rows of x.
// `then` points to the next rows of W to prefetch, or is null.
template <int Q>
ACCEL_VECTOR void outputs_of(const Wide& w, i64 g, const float* then = nullptr) {
    alignas(64) Vector sums[MAX_ROWS * Q];
    const i64 blocks = std::max(w.N / ROWS, i64(1)), each = (Q + blocks - 1) / blocks;
    for (i64 from = 0; from < w.K; from += PIECE) {
        const i64 to = std::min(from + PIECE, w.K);
        const float* const next = to < w.K ? w.weight + g * w.K + to : then;
        i64 n = 0;
        // `each` is the number of rows of W that are prefetched while ROWS rows of x are processed.
        for (i64 row = 0; n + ROWS <= w.N; n += ROWS, row += each) {
            const float* const ahead = next ? next + row * w.K : nullptr;
            Vector* const to_add = sums + n * Q;
            if (!next || row >= Q) add_terms<ROWS, Q>(w, n, g, from, to, to_add);
            else if (each == 1) add_terms<ROWS, Q, 1>(w, n, g, from, to, to_add, ahead);
            else if (each == 2) add_terms<ROWS, Q, 2>(w, n, g, from, to, to_add, ahead);
            else if (each == 3) add_terms<ROWS, Q, 3>(w, n, g, from, to, to_add, ahead);
            else add_terms<ROWS, Q, Q>(w, n, g, from, to, to_add, ahead);
        }
        for (; n < w.N; n++) add_terms<1, Q>(w, n, g, from, to, sums + n * Q);
    }
    for (i64 n = 0; n < w.N; n++)
        for (int q = 0; q < Q; q++) w.out[n * w.G + g + q] = w.bias[g + q] + sum_of(sums[n * Q + q]);
}

// Computes out [N, G] from x [N, K], weight [G, K] and bias [G], with N at most MAX_ROWS and K a multiple of 16.
inline void linear_small_batch(i64 N, i64 K, i64 G, address x, address weight, address bias, address out, int threads) {
    const Wide w{N, K, G, at<const float>(x), at<const float>(weight), at<const float>(bias), at<float>(out)};
    share((G + AT_ONCE - 1) / AT_ONCE, threads,
          [&](i64 from, i64 to) {
              // The loop's direction alternates between calls, because the last rows of W are still in the cache at the
              // next call.
              static thread_local bool back = false;
              back = !back;
              for (i64 j = from; j < to; j++) {
                  const i64 i = back ? j : from + to - 1 - j;
                  const i64 following = AT_ONCE * (back ? i + 1 : i - 1);
                  const bool whole = j + 1 < to && following + AT_ONCE <= G;
                  if (AT_ONCE * (i + 1) <= G) outputs_of<AT_ONCE>(w, AT_ONCE * i, whole ? w.weight + following * K : nullptr);
                  else
                      for (i64 g = AT_ONCE * i; g < G; g++) outputs_of<1>(w, g);
              }
          },
          1);
}

}  // namespace accel::ACCEL_FORM
