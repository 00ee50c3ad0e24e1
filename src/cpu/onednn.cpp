#include "cpu/onednn.h"

#include "core/env.h"
#include "cpu/simd/simd_limit.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cctype>
#include <string>

namespace facula::onednn {
namespace {

#if defined(__x86_64__)
// Some virtual machines announce AMX but hide the table of its tile sizes; oneDNN then sets tiles up wrongly and its code
// traps.
bool tiles_are_hidden() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (1u << 24)) == 0) return false;
  return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
}

// Whether the user keeps oneDNN below AMX with its own variable, whose limit a call of ours would replace.
bool user_limits_onednn() {
  auto text = env(EnvVar::OnednnIsa);
  if (!text) text = env(EnvVar::DnnlIsa);
  if (!text) return false;
  std::string name(*text);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return (name.starts_with("SSE") || name.starts_with("AVX")) && name.find("AMX") == std::string::npos;
}
#endif

void limit_instructions() {
#if defined(__x86_64__)
  switch (cpu::simd_limit()) {
    case cpu::SimdLimit::Sse4: dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41); return;
    case cpu::SimdLimit::Avx2: dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); return;
    case cpu::SimdLimit::Avx512: dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16); return;
    case cpu::SimdLimit::None:
    case cpu::SimdLimit::Neon: break;
  }
  if (tiles_are_hidden() && !user_limits_onednn()) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
#endif
}

}  // namespace

void initialize() {
  static const bool done = [] {
    limit_instructions();
    return true;
  }();
  (void)done;
}

dnnl::engine& engine() {
  static auto* e = [] {
    initialize();
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *e;
}
dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

}  // namespace facula::onednn
