// The float32 kernels for one instruction set, which vector_kernels.h selects by macros.
#include "vector.h"
#include "winograd_transforms.h"
#include "conv_f32_points.h"
#include "products.h"
#include "conv_f32_batch.h"
#include "conv_u8.h"
#include "linear_small_batch.h"
#undef ACCEL_FORM
#undef ACCEL_WIDE
#undef ACCEL_VECTOR
#undef ACCEL_MM
