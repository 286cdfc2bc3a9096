// In small correlations, F(m, r) computes m outputs of r taps from m + r - 1 products instead of m r.
// | y = A' [(G g) * (B' d)]      d [m + r - 1] numbers, g [r] taps, y [m] outputs
//
// In two dimensions the transforms are applied along rows and columns.
// Sources: Winograd 1980; Lavin & Gray 2016, "Fast algorithms for convolutional neural networks", equations 4 to 8.
// Each of Winograd's products is the value of a product of two polynomials at one point.
// Winograd's map is bilinear in d and g, so their gradients are B [(G g) * (A y)] and G' [(B' d) * (A y)].
#pragma once
#include "../x86.h"

namespace accel {

// A transform matrix has one row for each point.
// The rows of a point and its negative, 1 and 2 (and 3 and 4), differ in the sign of the odd columns.
template <int POINTS, int VALUES>
struct Transform {
    float of[POINTS][VALUES];
};

template <int R>
struct Winograd;

template <>
struct Winograd<2> {  // F(3, 2) multiplies polynomials at the points 0, 1, -1 and infinity.
    static constexpr int outputs = 3, points = 4;
    static constexpr Transform<4, 4> input{{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}};
    static constexpr Transform<4, 3> output{{{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, -1}}};
    static constexpr Transform<4, 2> weight{{{1, 0}, {1.f / 2, 1.f / 2}, {1.f / 2, -1.f / 2}, {0, 1}}};
};

template <>
struct Winograd<3> {  // F(4, 3) has half the error at the points 0, +-2/3, +-3/2, infinity, compared with 0, +-1, +-2.
    static constexpr int outputs = 4, points = 6;
    static constexpr Transform<6, 6> input{{{1, 0, -97.f / 36, 0, 1, 0},
                                            {0, -3.f / 2, -9.f / 4, 2.f / 3, 1, 0},
                                            {0, 3.f / 2, -9.f / 4, -2.f / 3, 1, 0},
                                            {0, -2.f / 3, -4.f / 9, 3.f / 2, 1, 0},
                                            {0, 2.f / 3, -4.f / 9, -3.f / 2, 1, 0},
                                            {0, 1, 0, -97.f / 36, 0, 1}}};
    static constexpr Transform<6, 4> output{{{1, 0, 0, 0},
                                             {1, 2.f / 3, 4.f / 9, 8.f / 27},
                                             {1, -2.f / 3, 4.f / 9, -8.f / 27},
                                             {1, 3.f / 2, 9.f / 4, 27.f / 8},
                                             {1, -3.f / 2, 9.f / 4, -27.f / 8},
                                             {0, 0, 0, 1}}};
    static constexpr Transform<6, 3> weight{{{1, 0, 0},
                                             {-81.f / 130, -54.f / 130, -36.f / 130},
                                             {-81.f / 130, 54.f / 130, -36.f / 130},
                                             {8.f / 65, 12.f / 65, 18.f / 65},
                                             {8.f / 65, -12.f / 65, 18.f / 65},
                                             {0, 0, 1}}};
};

#if ACCEL_X86

#define ACCEL_INLINE ACCEL_AVX512 __attribute__((always_inline)) inline

// Adds c x to a sum, which may be empty, where the compile-time constant c is mostly 1, -1 or 0.
struct Terms {
    __m512 sum = {};
    bool any = false;
};
ACCEL_INLINE void add_term(Terms& to, float c, __m512 x) {
    if (c == 0) return;
    if (!to.any) to.sum = c == 1 ? x : _mm512_mul_ps(_mm512_set1_ps(c), x);
    else
        to.sum = c == 1    ? _mm512_add_ps(to.sum, x)
                 : c == -1 ? _mm512_sub_ps(to.sum, x)
                           : _mm512_fmadd_ps(_mm512_set1_ps(c), x, to.sum);
    to.any = true;
}

// Computes y[i] = sum_j of[i][j] x[j].
// Two opposite points share the sum over even columns and, up to sign, the sum over odd columns.
template <const auto& T, int P, int V>
ACCEL_INLINE void to_points(const __m512 (&x)[V], __m512 (&y)[P]) {
#pragma GCC unroll 8
    for (int i = 0; i < P; i += P - 1) {
        Terms all{};
#pragma GCC unroll 8
        for (int j = V - 1; j >= 0; j--) add_term(all, T.of[i][j], x[j]);
        y[i] = all.sum;
    }
#pragma GCC unroll 8
    for (int i = 1; i + 1 < P; i += 2) {
        Terms even{}, odd{};
#pragma GCC unroll 8
        for (int j = V - 1; j >= 0; j--) add_term(j % 2 ? odd : even, T.of[i][j], x[j]);
        y[i] = _mm512_add_ps(even.sum, odd.sum);
        y[i + 1] = _mm512_sub_ps(even.sum, odd.sum);
    }
}

// Computes y[j] = sum_i of[i][j] x[i].
template <const auto& T, int P, int V>
ACCEL_INLINE void to_values(const __m512 (&x)[P], __m512 (&y)[V]) {
    __m512 sum[P], difference[P];
#pragma GCC unroll 8
    for (int i = 1; i + 1 < P; i += 2) {
        sum[i] = _mm512_add_ps(x[i], x[i + 1]);
        difference[i] = _mm512_sub_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) {
        Terms terms{};
        add_term(terms, T.of[0][j], x[0]);
#pragma GCC unroll 8
        for (int i = 1; i + 1 < P; i += 2) add_term(terms, T.of[i][j], j % 2 ? difference[i] : sum[i]);
        add_term(terms, T.of[P - 1][j], x[P - 1]);
        y[j] = terms.sum;
    }
}

// Computes T x T' and T' x T in two dimensions.
template <const auto& T, int P, int V>
ACCEL_INLINE void to_points_2d(const __m512 (&x)[V][V], __m512 (&y)[P][P]) {
    __m512 half[P][V];
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) {
        __m512 column[V], points[P];
#pragma GCC unroll 8
        for (int i = 0; i < V; i++) column[i] = x[i][j];
        to_points<T, P, V>(column, points);
#pragma GCC unroll 8
        for (int i = 0; i < P; i++) half[i][j] = points[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < P; i++) to_points<T, P, V>(half[i], y[i]);
}

template <const auto& T, int P, int V>
ACCEL_INLINE void to_values_2d(const __m512 (&x)[P][P], __m512 (&y)[V][V]) {
    __m512 half[V][P];
#pragma GCC unroll 8
    for (int j = 0; j < P; j++) {
        __m512 column[P], values[V];
#pragma GCC unroll 8
        for (int i = 0; i < P; i++) column[i] = x[i][j];
        to_values<T, P, V>(column, values);
#pragma GCC unroll 8
        for (int i = 0; i < V; i++) half[i][j] = values[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < V; i++) to_values<T, P, V>(half[i], y[i]);
}

#undef ACCEL_INLINE

#endif

}  // namespace accel
