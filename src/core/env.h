// The one place where environment variables are read, and the table of all there are. docs/environment.md is its text
// for users.
#pragma once

#include <optional>
#include <string_view>

#include <facula/core/export.h>

namespace facula {

// Variable, its name, what it does.
#define FACULA_FORALL_ENV_VARS(_)                                                                \
  _(NumThreads, "FACULA_NUM_THREADS", "threads of the CPU at start; default: what OpenMP takes") \
  _(HostCacheMb, "FACULA_HOST_CACHE_MB", "megabytes of freed host memory kept for reuse")        \
  _(Simd, "FACULA_SIMD", "widest vector instructions used: sse4, avx2, avx512 or neon")          \
  _(OnednnIsa, "ONEDNN_MAX_CPU_ISA", "oneDNN's own limit, which we do not raise")                \
  _(DnnlIsa, "DNNL_MAX_CPU_ISA", "the same under its older name")

enum class EnvVar {
#define FACULA_ENV_ENUMERATOR(id, name, text) id,
  FACULA_FORALL_ENV_VARS(FACULA_ENV_ENUMERATOR)
#undef FACULA_ENV_ENUMERATOR
};

// The value at the time of the call; nullopt when unset or empty.
FACULA_API std::optional<std::string_view> env(EnvVar var);
// The value as a whole number of at least `least`; nullopt when unset. Raises ValueError for other text.
FACULA_API std::optional<long> env_number(EnvVar var, long least);

}  // namespace facula
