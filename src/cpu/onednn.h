// What all seams to oneDNN share: its engine, the stream of a thread, and work space. Only files that call oneDNN include this.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>

namespace facula::onednn {

// Sets the instructions that oneDNN may use. Must run before its first call; the others do it themselves.
void initialize();
dnnl::engine& engine();
dnnl::stream& stream();
// At least `bytes` of memory that the primitives of a thread take turns to use; what was there before is gone.
void* scratch(size_t bytes);

}  // namespace facula::onednn
