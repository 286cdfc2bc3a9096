// A `Vector` is a register of WIDE float32 numbers: 16 with AVX-512, 8 with AVX2.
// vector_kernels.h includes this header once for each instruction set.

namespace accel::ACCEL_FORM {

constexpr int WIDE = ACCEL_WIDE;

#if ACCEL_WIDE == 16

using Vector = __m512;
#define ACCEL_MM(name) _mm512_##name
ACCEL_INLINE Vector numbers_at(const std::uint8_t* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
// Returns each number at `from` for which the number at `out` is above 0, and 0 in place of the other numbers.
ACCEL_INLINE Vector where_positive(const float* out, const float* from) {
    return _mm512_maskz_loadu_ps(_mm512_cmp_ps_mask(_mm512_loadu_ps(out), _mm512_setzero_ps(), _CMP_GT_OQ), from);
}
ACCEL_INLINE float sum_of(Vector x) { return _mm512_reduce_add_ps(x); }

#else

using Vector = __m256;
#define ACCEL_MM(name) _mm256_##name
ACCEL_INLINE Vector numbers_at(const std::uint8_t* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
ACCEL_INLINE Vector where_positive(const float* out, const float* from) {
    return _mm256_and_ps(_mm256_cmp_ps(_mm256_loadu_ps(out), _mm256_setzero_ps(), _CMP_GT_OQ), _mm256_loadu_ps(from));
}
ACCEL_INLINE float sum_of(Vector x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

#endif

ACCEL_INLINE Vector numbers_at(const float* from) { return ACCEL_MM(loadu_ps)(from); }

}  // namespace accel::ACCEL_FORM
