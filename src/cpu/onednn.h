// What all seams to oneDNN share: its engine and the stream of a thread. Only files that call oneDNN include this.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace facula::onednn {

// Sets the instructions that oneDNN may use. Must run before its first call; the others do it themselves.
void initialize();
dnnl::engine& engine();
dnnl::stream& stream();

}  // namespace facula::onednn
