// Fills device memory with random numbers: the same stream as the CPU's (cpu/random.h), bit for bit.
#pragma once

#include "cpu/random.h"
#include "gpu/encoder.h"
#include "gpu/graph.h"

namespace facula::gpu {

// Fills `count` contiguous elements on work.device. `place` says where in the generator's stream; fill.seed and fill.offset are
// not looked at.
void random_fill(const RandomFill& fill, ScalarType dtype, void* data, int64_t count, const Work& work,
                 const RandomPlace& place);

}  // namespace facula::gpu
