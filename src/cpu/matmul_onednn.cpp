#include "cpu/matmul_onednn.h"

#include "core/hash.h"
#include "cpu/matmul_pieces.h"
#include "cpu/onednn.h"
#include "cpu/parallel.h"
#include "cpu/parallel_omp.h"
#include "cpu/thread_scratch.h"

#include <facula/core/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <unordered_map>
#include <vector>

namespace facula {
namespace {

// Row-major with a leading dimension, or its transpose.
struct Lead {
  char trans;
  int64_t ld;
};
Lead lead_of(const MatrixArg& m, int64_t rows, int64_t cols) {
  bool by_rows = m.col_stride == 1 || cols == 1;
  if (by_rows && (rows == 1 || m.row_stride >= cols))
    return {'N', rows == 1 ? std::max<int64_t>(cols, 1) : m.row_stride};
  return {'T', cols == 1 ? std::max<int64_t>(rows, 1) : m.col_stride};
}

void check(dnnl_status_t status, const char* what) {
  FACULA_CHECK(status == dnnl_success, InternalError, "oneDNN: ", what, " failed with status ",
               static_cast<int>(status));
}

// Products worth a thread of their own, in multiplications.
constexpr int64_t kSmallProduct = 64 * 64 * 64;
constexpr int64_t kSmallPrimitive = 128 * 128 * 128;
constexpr int64_t kLargeProduct = 256 * 256 * 256;

// What a product may use: small ones lose more at the fork than they gain.
int threads_for(int64_t work) { return in_parallel_region() || work <= kSmallProduct ? 1 : get_num_threads(); }

template <class One>
void over_batch(const MatmulArgs& args, One&& one) {
  int64_t work = std::max<int64_t>(1, args.m * args.n * args.k);
  // Large products use all threads inside, one after the other.
  bool inside = args.batch == 1 || (work > 8 * kSmallProduct && args.batch < 2 * get_num_threads());
  if (inside) {
    ScopedOmpThreads threads(threads_for(work));
    for (int64_t i = 0; i < args.batch; ++i) one(i);
    return;
  }
  parallel_for(0, args.batch, std::max<int64_t>(1, kSmallProduct / 4 / work), [&](int64_t first, int64_t last) {
    ScopedOmpThreads threads(1);
    for (int64_t i = first; i < last; ++i) one(i);
  });
}

// What a product with the primitive API depends on. Creating a primitive costs more than running a small one.
using Key = std::array<int64_t, 11>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t h = 0;
    for (int64_t v : key) h = detail::hash_combine(h, static_cast<size_t>(v));
    return h;
  }
};

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, scratch;
};

using DataType = dnnl::memory::data_type;

dnnl::memory::desc describe(const MatrixArg& m, int64_t rows, int64_t cols, DataType type) {
  return dnnl::memory::desc({rows, cols}, type, {m.row_stride, m.col_stride});
}

Product make_product(const MatmulArgs& args, DataType type) {
  Product p;
  p.a = describe(args.a, args.m, args.k, type);
  p.b = describe(args.b, args.k, args.n, type);
  p.c = describe(args.c, args.m, args.n, type);
  dnnl::primitive_attr attr;
  // Given at each call: a primitive that has its own keeps it, and with many threads it is larger than a matrix.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (args.beta != 0) {
    dnnl::post_ops post;
    post.append_sum(static_cast<float>(args.beta));
    attr.set_post_ops(post);
  }
#if DNNL_VERSION_MAJOR >= 3
  dnnl::matmul::primitive_desc desc(onednn::engine(), p.a, p.b, p.c, attr);
#else
  dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(p.a, p.b, p.c), attr, onednn::engine());
#endif
  p.primitive = dnnl::matmul(desc);
  p.scratch = desc.scratchpad_desc();
  return p;
}

const Product& cached_product(const MatmulArgs& args, DataType type, int threads) {
  thread_local std::unordered_map<Key, Product, KeyHash> cache;
  const Key key = {args.m,
                   args.n,
                   args.k,
                   args.a.row_stride,
                   args.a.col_stride,
                   args.b.row_stride,
                   args.b.col_stride,
                   args.c.row_stride,
                   static_cast<int64_t>(type),
                   std::bit_cast<int64_t>(args.beta),
                   threads};
  auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= 256) cache.clear();
  return cache.emplace(key, make_product(args, type)).first->second;
}

void execute(const Product& p, void* a, void* b, void* c) {
  dnnl::memory ma(p.a, onednn::engine(), a), mb(p.b, onednn::engine(), b), mc(p.c, onednn::engine(), c);
  std::unordered_map<int, dnnl::memory> all = {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}};
  if (const size_t bytes = p.scratch.get_size())
    all[DNNL_ARG_SCRATCHPAD] = dnnl::memory(p.scratch, onednn::engine(), thread_scratch(bytes));
  p.primitive.execute(onednn::stream(), all);
  onednn::stream().wait();
}

#if defined(__x86_64__)
// Whether oneDNN may use these instructions on this machine.
bool may_use(dnnl_cpu_isa_t isa) {
  onednn::initialize();
  return (dnnl_get_effective_cpu_isa() & isa) == isa;
}
#endif

bool has_avx512() {
#if defined(__x86_64__)
  static const bool has = may_use(dnnl_cpu_isa_avx512_core);
  return has;
#else
  return false;
#endif
}

// Without the instructions for it (VNNI), oneDNN adds products of bytes in pairs of 16 bits, which saturate.
bool int8_products_are_exact() {
#if defined(__x86_64__)
  static const bool exact = may_use(dnnl_cpu_isa_avx512_core_vnni);
  return exact;
#else
  return true;
#endif
}

// A product of bytes through float. As many terms go into one product as leave every partial sum a whole number of at most
// 2^24, which floats hold exactly whatever the order; the sums of these wrap as integers.
void int8_through_float(const MatmulArgs& args) {
  constexpr int64_t kExactTerms = (int64_t{1} << 24) / (128 * 128);
  const auto widen = [](const MatrixArg& m, int64_t first_row, int64_t rows, int64_t first_col, int64_t cols) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    const auto* from = static_cast<const int8_t*>(m.data) + first_row * m.row_stride + first_col * m.col_stride;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        values[static_cast<size_t>(r * cols + c)] = static_cast<float>(from[r * m.row_stride + c * m.col_stride]);
    return values;
  };
  const int64_t c_stride = std::max<int64_t>(args.c.row_stride, args.n);
  auto* out = static_cast<uint32_t*>(args.c.data);
  for (int64_t r = 0; r < args.m; ++r) std::fill_n(out + r * c_stride, args.n, 0u);
  std::vector<float> sums(static_cast<size_t>(args.m * args.n));
  for (int64_t first = 0; first < args.k; first += kExactTerms) {
    const int64_t terms = std::min(kExactTerms, args.k - first);
    const std::vector<float> a = widen(args.a, 0, args.m, first, terms), b = widen(args.b, first, terms, 0, args.n);
    check(
        dnnl_sgemm('N', 'N', args.m, args.n, terms, 1.0f, a.data(), terms, b.data(), args.n, 0.0f, sums.data(), args.n),
        "sgemm");
    for (int64_t r = 0; r < args.m; ++r)
      for (int64_t c = 0; c < args.n; ++c)
        out[r * c_stride + c] += static_cast<uint32_t>(static_cast<int32_t>(sums[static_cast<size_t>(r * args.n + c)]));
  }
}

// Which of oneDNN's two ways a product of floats goes: through the primitive, or through sgemm. With eight threads and more the primitive shares
// large products out better. With few, sgemm is ahead, but not where it has to turn B, as in a linear layer: for some rows to a thousand of them the
// primitive's kernels for AVX-512 take a fifth of its time to all of it (Zen 4, two threads). A primitive is made when its shape first occurs, which takes
// half a millisecond: too long for small products.
bool primitive_is_faster(const MatmulArgs& args, const Lead& a, const Lead& b, int threads) {
  if (args.batch != 1 || args.alpha != 1) return false;
  const int64_t work = args.m * args.n * args.k;
  if (threads >= 8) return work >= kLargeProduct;
  return b.trans == 'T' && work >= kSmallPrimitive && has_avx512() && args.k >= 16 && args.m <= 1024 &&
         args.m >= (a.trans == 'T' ? 2 : 16);
}

}  // namespace

void onednn_matmul_f32(const MatmulArgs& args) {
  onednn::initialize();
  Lead la = lead_of(args.a, args.m, args.k), lb = lead_of(args.b, args.k, args.n);
  if (const int count = threads_for(args.m * args.n * args.k); primitive_is_faster(args, la, lb, count)) {
    ScopedOmpThreads threads(count);
    const auto data = [](const MatrixArg& matrix) { return static_cast<float*>(matrix.data) + matrix.offset(0); };
    return execute(cached_product(args, DataType::f32, count), data(args.a), data(args.b), data(args.c));
  }
  over_batch(args, [&](int64_t i) {
    check(dnnl_sgemm(la.trans, lb.trans, args.m, args.n, args.k, static_cast<float>(args.alpha),
                     static_cast<const float*>(args.a.data) + args.a.offset(i), la.ld,
                     static_cast<const float*>(args.b.data) + args.b.offset(i), lb.ld, static_cast<float>(args.beta),
                     static_cast<float*>(args.c.data) + args.c.offset(i), std::max<int64_t>(args.c.row_stride, args.n)),
          "sgemm");
  });
}

bool onednn_matmul_bf16(const MatmulArgs& args) {
  if (args.alpha != 1) return false;
  static const bool available = [] {
    MatmulArgs probe;
    probe.m = probe.n = probe.k = 16;
    probe.a = probe.b = probe.c = {nullptr, 16, 1};
    try {
      make_product(probe, DataType::bf16);
      return true;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  if (!available) return false;
  // Columns, which each piece lays out anew, cost these kernels less than tiles: two threads take 650 us for a product of 512 cut into rows, 720 cut into
  // columns (Zen 4).
  over_pieces(args, 2, [](const MatmulArgs& piece) {
    ScopedOmpThreads threads(1);
    execute(cached_product(piece, DataType::bf16, 1), piece.a.data, piece.b.data, piece.c.data);
  });
  return true;
}

void onednn_matmul_int8(const MatmulArgs& args) {
  onednn::initialize();
  Lead la = lead_of(args.a, args.m, args.k), lb = lead_of(args.b, args.k, args.n);
  int32_t no_offset = 0;
  ScopedOmpThreads threads(threads_for(args.m * args.n * args.k));
  if (!int8_products_are_exact()) return int8_through_float(args);
  check(
      dnnl_gemm_s8s8s32(la.trans, lb.trans, 'F', args.m, args.n, args.k, 1.0f, static_cast<const int8_t*>(args.a.data),
                        la.ld, 0, static_cast<const int8_t*>(args.b.data), lb.ld, 0, 0.0f,
                        static_cast<int32_t*>(args.c.data), std::max<int64_t>(args.c.row_stride, args.n), &no_offset),
      "gemm_s8s8s32");
}

const char* onednn_version() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  }();
  return text.c_str();
}

}  // namespace facula
