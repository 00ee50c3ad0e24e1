// Copies, fills and sequences on one device, for every dtype and layout. Results have the CPU's bits (cpu/convert.h, ops/creation.cpp).
// Strides are in elements, of any sign.
#pragma once

#include "gpu/encoder.h"

#include <facula/core/array_ref.h>
#include <facula/core/dtype.h>

namespace facula::gpu {

// to[i . to_strides] = from[i . from_strides] for each index i of `sizes`, converted where the dtypes differ. The arrays must not
// overlap unless they are the same with the same strides. Equal dtypes move bits, whatever they mean.
void copy_strided(void* to, const int64_t* to_strides, ScalarType to_dtype, const void* from,
                  const int64_t* from_strides, ScalarType from_dtype, IntArrayRef sizes, const Work& work);

// to[i . strides] = *element for each index i of `sizes`; `element` is what memory of `dtype` holds.
void fill_strided(void* to, const int64_t* strides, ScalarType dtype, IntArrayRef sizes, const void* element,
                  const Work& work);

// data[i] = base + step * (i - anchor) for i in [0, count), computed in double and rounded once to `dtype`.
void fill_affine(void* data, ScalarType dtype, int64_t count, double base, double step, int64_t anchor,
                 const Work& work);
// data[i] = start + step * i for integer dtypes, wrapping.
void fill_integers(void* data, ScalarType dtype, int64_t count, int64_t start, int64_t step, const Work& work);

}  // namespace facula::gpu
