// The instructions behind product-inl.h.
#include "cpu/amx/product.h"

#include "cpu/simd/simd_limit.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hwy/base.h>

#include <cstring>
#include <utility>

HWY_PUSH_ATTRIBUTES("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,amx-tile,amx-bf16")
#include "cpu/amx/product-inl.h"

namespace facula::amx {
namespace {

// Eight tiles of 16 rows by 64 bytes, for as long as it lives. The compiler is told that memory is read and written, which the intrinsics of
// GCC 12 forget.
class TileRegisters {
 public:
  TileRegisters() {
    struct alignas(64) Config {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Config) == 64);
    static constexpr Config config;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  ~TileRegisters() { __asm__ volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

  template <int tile>
  void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  template <int tile>
  void load(const void* from, int64_t row_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(tile) : "memory");
  }
  template <int tile>
  void store(void* to, int64_t row_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(tile) : "memory");
  }
  // Rounds 32 sums.
  static void narrow(const float* from, uint16_t* to) {
    const auto all = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from));
    std::memcpy(to, &all, sizeof(all));
  }
  template <int sums, int a, int b>
  void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
  }
};

}  // namespace

void multiply(const Product& product, void* room) {
  TileRegisters tiles;
  multiply_with(tiles, product, static_cast<uint16_t*>(room));
}

}  // namespace facula::amx
HWY_POP_ATTRIBUTES

namespace facula::amx {
namespace {

// The system hands tiles out on request: they make the state of a thread larger by 8 KiB.
bool ask_for_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

bool processor_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTilesOfBf16 = 1u << 22, kTiles = 1u << 24;
  if ((d & kTilesOfBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr unsigned kVectorsOfBf16 = 1u << 5;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kVectorsOfBf16) == 0) return false;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

bool available() {
  static const bool yes = cpu::simd_limit() == cpu::SimdLimit::None && processor_has_tiles() && ask_for_tiles();
  return yes;
}

}  // namespace facula::amx

#else

#include <facula/core/error.h>

namespace facula::amx {

bool available() { return false; }
void multiply(const Product&, void*) { FACULA_INTERNAL_CHECK(false); }

}  // namespace facula::amx

#endif
