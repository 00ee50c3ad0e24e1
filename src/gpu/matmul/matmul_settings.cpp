// Switches of matrix products, read by every product.
#include "core/env.h"
#include "gpu/matmul/matmul.h"

#include <atomic>

namespace facula::gpu {
namespace {

struct Settings {
  std::atomic<Float32Precision> float32{Float32Precision::Highest};
  std::atomic<bool> fp16_reduced{true}, bf16_reduced{true}, fp16_sums{false}, blas{true}, tune{false}, small{true};
  Settings() {
    if (const auto wish = env(EnvVar::Blas)) blas = *wish != "none";
    if (const auto wish = env_number(EnvVar::BlasTune, 0)) tune = *wish != 0;
  }
};
Settings& settings() {
  static auto* all = new Settings;
  return *all;
}

}  // namespace

Float32Precision float32_matmul_precision() { return settings().float32; }
void set_float32_matmul_precision(Float32Precision precision) { settings().float32 = precision; }
bool allow_tf32() { return settings().float32 != Float32Precision::Highest; }
void set_allow_tf32(bool allow) { settings().float32 = allow ? Float32Precision::High : Float32Precision::Highest; }
bool allow_fp16_reduced_precision_reduction() { return settings().fp16_reduced; }
void set_allow_fp16_reduced_precision_reduction(bool allow) { settings().fp16_reduced = allow; }
bool allow_bf16_reduced_precision_reduction() { return settings().bf16_reduced; }
void set_allow_bf16_reduced_precision_reduction(bool allow) { settings().bf16_reduced = allow; }
bool allow_fp16_accumulation() { return settings().fp16_sums; }
void set_allow_fp16_accumulation(bool allow) { settings().fp16_sums = allow; }
bool allow_blas() { return settings().blas; }
void set_allow_blas(bool allow) { settings().blas = allow; }
bool allow_small_products() { return settings().small; }
void set_allow_small_products(bool allow) { settings().small = allow; }
bool tune_blas() { return settings().tune; }
void set_tune_blas(bool tune) { settings().tune = tune; }

}  // namespace facula::gpu
