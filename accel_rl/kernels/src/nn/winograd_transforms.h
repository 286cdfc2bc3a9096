// The transforms of Winograd's algorithms (winograd.h), for WIDE channels at a time.
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

// A sum, to which add_term adds c x. The constant c is known at compile time, and mostly 1, -1 or 0.
struct Terms {
    Vector sum = {};
    bool any = false;
};
ACCEL_INLINE void add_term(Terms& to, float c, Vector x) {
    if (c == 0) return;
    if (!to.any) to.sum = c == 1 ? x : ACCEL_MM(mul_ps)(ACCEL_MM(set1_ps)(c), x);
    else
        to.sum = c == 1    ? ACCEL_MM(add_ps)(to.sum, x)
                 : c == -1 ? ACCEL_MM(sub_ps)(to.sum, x)
                           : ACCEL_MM(fmadd_ps)(ACCEL_MM(set1_ps)(c), x, to.sum);
    to.any = true;
}

// Computes y[i] = sum_j of[i][j] x[j].
// A point and its negative have the same sum over even columns, and sums over odd columns of opposite sign.
template <const auto& T, int P, int V>
ACCEL_INLINE void to_points(const Vector (&x)[V], Vector (&y)[P]) {
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
        y[i] = ACCEL_MM(add_ps)(even.sum, odd.sum);
        y[i + 1] = ACCEL_MM(sub_ps)(even.sum, odd.sum);
    }
}

// Computes y[j] = sum_i of[i][j] x[i].
template <const auto& T, int P, int V>
ACCEL_INLINE void to_values(const Vector (&x)[P], Vector (&y)[V]) {
    Vector sum[P], difference[P];
#pragma GCC unroll 8
    for (int i = 1; i + 1 < P; i += 2) {
        sum[i] = ACCEL_MM(add_ps)(x[i], x[i + 1]);
        difference[i] = ACCEL_MM(sub_ps)(x[i], x[i + 1]);
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

// The transforms in two dimensions: to_points_2d computes T x T', and to_values_2d computes T' x T.
template <const auto& T, int P, int V>
ACCEL_INLINE void to_points_2d(const Vector (&x)[V][V], Vector (&y)[P][P]) {
    Vector half[P][V];
#pragma GCC unroll 8
    for (int j = 0; j < V; j++) {
        Vector column[V], points[P];
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
ACCEL_INLINE void to_values_2d(const Vector (&x)[P][P], Vector (&y)[V][V]) {
    Vector half[V][P];
#pragma GCC unroll 8
    for (int j = 0; j < P; j++) {
        Vector column[P], values[V];
#pragma GCC unroll 8
        for (int i = 0; i < P; i++) column[i] = x[i][j];
        to_values<T, P, V>(column, values);
#pragma GCC unroll 8
        for (int i = 0; i < V; i++) half[i][j] = values[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < V; i++) to_values<T, P, V>(half[i], y[i]);
}

}  // namespace accel::ACCEL_FORM
