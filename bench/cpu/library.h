// Selects the tensor library that a plugin is compiled against and names it `lib`. The cases themselves do not know
// which one it is.
#pragma once

#if defined(BENCH_LIBTORCH)

#include <torch/torch.h>

namespace lib = torch;

// Autograd bookkeeping is switched off for the peer: what is measured is kernels and calls, to the peer's advantage.
using NoAutograd = c10::InferenceMode;

inline const char* library_name() { return "libtorch " TORCH_VERSION; }

#elif defined(BENCH_FACULA)

#include <facula/facula.h>

namespace lib = facula;

struct NoAutograd {
  NoAutograd() {}
};

inline const char* library_name() { return "facula"; }

#else
#error "define BENCH_FACULA or BENCH_LIBTORCH"
#endif
