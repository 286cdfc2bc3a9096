// A `Vector` consists of WIDE float32 numbers in a register: 16 for AVX-512, 8 for AVX2.
// The header is included by vector_kernels.h, once for each instruction set.

namespace accel::ACCEL_FORM {

constexpr int WIDE = ACCEL_WIDE;

#if ACCEL_WIDE == 16

using Vector = __m512;
#define ACCEL_MM(name) _mm512_##name
ACCEL_INLINE Vector numbers_at(const std::uint8_t* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
// Returns the numbers at `from` where those at `out` are above 0, else 0.
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
