// Winograd's algorithm F(m, r) computes m outputs of a convolution with r taps by m + r - 1 multiplications instead of
// m r.
// | y = A' [(G g) * (B' d)]      d [m + r - 1] numbers, g [r] taps, y [m] outputs
//
// In two dimensions, the transforms are applied along rows and along columns.
// Sources: Winograd 1980; Lavin & Gray 2016, "Fast algorithms for convolutional neural networks", equations 4 to 8.
// Each multiplication gives the value of a product of two polynomials at one point.
// y is bilinear in d and g, so that the gradients of d and g are B [(G g) * (A dy)] and G' [(B' d) * (A dy)], where dy
// is the gradient of y.
#pragma once

namespace accel {

// A transform matrix, with one row for each point. Rows 1 and 2 (and 3 and 4) belong to a point and its negative, and
// differ in the sign of the odd columns.
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

}  // namespace accel
