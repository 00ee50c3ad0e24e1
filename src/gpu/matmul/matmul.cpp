// Which way a product goes. Products with a vector are our own: they are as fast as memory; so are small ones, which are
// over before a library's kernels are under way. All others go to the vendor's library if it has an answer, else to our
// tiles. Operands that run neither along rows nor along columns are
// copied first for a library; our kernels take any.
#include "gpu/matmul/matmul.h"

#include "core/ceil_div.h"
#include "gpu/memory/allocator.h"
#include "gpu/kernel.h"
#include "gpu/libs/blas.h"
#include "gpu/matmul/matmul_shape.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>

namespace facula::gpu {
namespace {

namespace mk = matmul_kernels;

constexpr int kThreads = 256;
constexpr int64_t kMostBlocksY = 65535;
// Multiplications of a product from which on it pays to copy an operand for a library.
constexpr double kWorthCopying = 1 << 22;

// ---- element types and kernels -------------------------------------------------------------------------------------

// What a kernel's text calls an element type, and the bytes of an operand's element and of a number that sums are kept
// in.
struct Element {
  const char* name = nullptr;
  int in_bytes = 0, out_bytes = 0, sum_bytes = 0;
  bool cores = false;  // whether tensor cores may multiply it
};
enum ElementId {
  kFloat32,
  kTf32,
  kFloat64,
  kHalfId,
  kBFloat16Id,
  kE5M2,
  kE4M3,
  kC64,
  kC128,
  kI8,
  kI16,
  kI32,
  kI64,
  kI8To32,
  kNumElements
};
constexpr Element kElements[kNumElements] = {
    {"Float32", 4, 4, 4},        {"Float32", 4, 4, 4, true}, {"Float64", 8, 8, 8},    {"Half", 2, 2, 4, true},
    {"BFloat16", 2, 2, 4, true}, {"Float8E5M2", 1, 1, 4},    {"Float8E4M3", 1, 1, 4}, {"Complex64", 8, 8, 8},
    {"Complex128", 16, 16, 16},  {"Int8", 1, 1, 4},          {"Int16", 2, 2, 4},      {"Int32", 4, 4, 4},
    {"Int64", 8, 8, 8},          {"Int8To32", 1, 4, 4},
};

ElementId element_of(ScalarType dtype, const char* op) {
  switch (dtype) {
    case ScalarType::Float: return allow_tf32() ? kTf32 : kFloat32;
    case ScalarType::Double: return kFloat64;
    case ScalarType::Half: return kHalfId;
    case ScalarType::BFloat16: return kBFloat16Id;
    case ScalarType::Float8_e5m2: return kE5M2;
    case ScalarType::Float8_e4m3fn: return kE4M3;
    case ScalarType::ComplexFloat: return kC64;
    case ScalarType::ComplexDouble: return kC128;
    case ScalarType::Byte:
    case ScalarType::Char: return kI8;
    case ScalarType::Short:
    case ScalarType::UInt16: return kI16;
    case ScalarType::Int:
    case ScalarType::UInt32: return kI32;
    case ScalarType::Long:
    case ScalarType::UInt64: return kI64;
    default:
      throw DTypeError(str(op, ": \"addmm_impl_cuda_\" not implemented for '", toString(dtype),
                           "'. Convert the matrices with .to(dtype) first"));
  }
}

enum KernelKind { kSmall, kTile32, kTile64, kTile128, kRowsWarp, kRowsBlock, kColumns, kFinish, kNumKinds };

std::string kernel_text(const char* header, const std::string& params, int blocks_at_once, const std::string& bytes,
                        const std::string& call) {
  std::string text = str("#include \"gpu/kernels/", header, ".h\"\nnamespace mk = facula::matmul_kernels;\n");
  text += str("extern \"C\" __global__ void __launch_bounds__(", kThreads, ", ", blocks_at_once,
              ") facula_matmul(mk::", params, " p) {\n");
  if (bytes.empty()) return text + str("  mk::", call, "(p);\n}\n");
  return text + str("  __shared__ mk::Shared16 shared[(", bytes, " + 15) / 16];\n  mk::", call, "(p, shared);\n}\n");
}

std::string kernel_text(KernelKind kind, ElementId id) {
  const Element& e = kElements[id];
  const std::string type = str("mk::", e.name);
  const auto tile = [&](int side) {
    const int blocks_at_once = 2;  // one multiplies while the other waits for memory
    if (e.cores && side > 32)
      return kernel_text("matmul_mma", "Params", blocks_at_once, str("mk::kCoreBytes<", type, ", ", side, ">"),
                         str("square_product<", type, ", ", side, ">"));
    const int depth = e.in_bytes == 4 && side == 128 ? 8 : 16;  // what all threads fetch in pieces of 16 bytes
    return kernel_text(
        "matmul", "Params", blocks_at_once, str("mk::kTileBytes<", type, ", ", side, ", ", side, ", ", depth, ">"),
        str("tile_product<", type, ", ", side, ", ", side, ", ", depth, ", ", side / 16, ", ", side / 16, ">"));
  };
  const auto vector = [&](const std::string& numbers, const std::string& call) {
    // What is under way fits the registers of so many blocks.
    const int blocks_at_once = e.in_bytes == 1 ? 2 : kind == kRowsWarp && e.in_bytes > 2 ? 3 : 4;
    return kernel_text("matmul_vector", "VectorParams", blocks_at_once, str(numbers, " * sizeof(", type, "::Compute)"),
                       call);
  };
  switch (kind) {
    case kSmall:
      return kernel_text("matmul", "SmallParams", 2, str("mk::kSmallBytes<", type, ">"),
                         str("small_product<", type, ">"));
    case kTile32: return tile(32);
    case kTile64: return tile(64);
    case kTile128: return tile(128);
    case kRowsWarp: return vector("16", str("vector_by_rows<", type, ", 32, 2>"));
    case kRowsBlock: return vector("8", str("vector_by_rows<", type, ", 256, 1>"));
    case kColumns:
      return vector(str("mk::kVectorWidth<", type, "> * ", kThreads), str("vector_by_columns<", type, ">"));
    default: return kernel_text("matmul", "FinishParams", 4, "", str("finish<", type, ">"));
  }
}

std::string pack_text(int width) {
  static constexpr const char* kWords[] = {"unsigned char", "unsigned short", "unsigned", "unsigned long long",
                                           "mk::Complex<double>"};
  const char* type = kWords[std::countr_zero(static_cast<unsigned>(width))];
  return kernel_text("matmul", "PackParams", 4, str("32 * 33 * sizeof(", type, ")"), str("pack<", type, ">"));
}

// Kernels are made when they are first needed and stay.
class KernelSlot {
 public:
  template <class Text>
  const Kernel& get(const Text& text) {
    if (const Kernel* there = kernel_.load(std::memory_order_acquire)) return *there;
    const auto* made = new Kernel("facula_matmul", text());
    const Kernel* expected = nullptr;
    if (kernel_.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *expected;
  }

 private:
  std::atomic<const Kernel*> kernel_{nullptr};
};

const Kernel& kernel(KernelKind kind, ElementId id) {
  static auto* slots = new std::array<KernelSlot, static_cast<size_t>(kNumKinds) * kNumElements>;
  if (id == kTf32 && kind != kTile64 && kind != kTile128) id = kFloat32;  // these do not round
  return (*slots)[static_cast<size_t>(kind) * kNumElements + id].get([&] { return kernel_text(kind, id); });
}
const Kernel& pack_kernel(int width) {
  static auto* slots = new std::array<KernelSlot, 5>;
  return (*slots)[static_cast<size_t>(std::countr_zero(static_cast<unsigned>(width)))].get(
      [&] { return pack_text(width); });
}

template <class P>
void launch_kernel(const Kernel& which, int64_t blocks_x, int64_t blocks_y, P& params, const Work& work) {
  void* arguments[] = {&params};
  const Dim3 grid{static_cast<uint32_t>(blocks_x), static_cast<uint32_t>(std::min(blocks_y, kMostBlocksY)), 1};
  launch(which, grid, {kThreads, 1, 1}, 0, arguments, work);
}

// Device memory for the time of one product: it goes back to the stream's own blocks, in order.
class Scratch {
 public:
  Scratch(size_t bytes, const Work& work) : held_(allocate(work.device, bytes, work.op)) {}
  ~Scratch() {
    if (held_.block) gpu::free(held_.block);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return held_.data; }

 private:
  Allocation held_;
};

// ---- products as they are handed on --------------------------------------------------------------------------------

struct Product {
  ElementId element;
  ScalarType dtype, out_dtype;
  int64_t m, n, k;
  MatrixArg a, b, c;  // batches are in `batch`
  BatchShape batch;
  double alpha, beta;
  const void* bias = nullptr;
  Activation activation = Activation::None;  // of libraries and, if it is Relu, of small products only
  void* before = nullptr;
};

const char* shifted(const void* data, int64_t elements, int width) {
  return static_cast<const char*>(data) + elements * width;
}

mk::Factor factor(double value) { return {value, 0, static_cast<unsigned long long>(static_cast<int64_t>(value))}; }

void put_batch(const BatchShape& batch, const int64_t* from, long long* sizes, long long* strides) {
  for (int d = 0; d < mk::kBatchDims; ++d) {
    if (sizes) sizes[d] = batch.sizes[d];
    strides[d] = from[d];
  }
}

// An operand as kernels fetch it. Wide where every row (column) and every matrix begins at a multiple of `width` bytes.
mk::Operand operand(const void* data, int64_t row_stride, int64_t depth_stride, const BatchShape& batch,
                    const int64_t* strides, int in_bytes, int width) {
  mk::Operand o{};
  o.data = data;
  o.row_stride = row_stride;
  o.depth_stride = depth_stride;
  put_batch(batch, strides, nullptr, o.batch_strides);
  const bool along_rows = row_stride == 1 && depth_stride != 1 ? true
                          : depth_stride == 1                  ? false
                                                               : row_stride < depth_stride;
  const int64_t step = along_rows ? row_stride : depth_stride, other = along_rows ? depth_stride : row_stride;
  const auto aligned = [&](int64_t elements) { return elements * in_bytes % width == 0; };
  bool wide = step == 1 && aligned(other) && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0;
  for (int d = 0; d < mk::kBatchDims; ++d) wide = wide && (batch.sizes[d] == 1 || aligned(strides[d]));
  o.fetch = (along_rows ? mk::kAlongRows : mk::kAlongDepth) | (wide ? mk::kWide : 0);
  return o;
}

// Row-major copies of an operand, one matrix behind the other; turned ones lie by columns. Matrices that the batch
// repeats are copied once.
struct Packed {
  Packed(MatrixArg& matrix, int64_t& offset, int64_t* strides, int64_t rows, int64_t cols, bool turned,
         const BatchShape& batch, int width, const Work& work)
      : memory(static_cast<size_t>(matrices(batch, strides) * rows * cols * width), work) {
    mk::PackParams k{};
    k.from = shifted(matrix.data, offset, width);
    k.to = memory.data();
    k.rows = turned ? cols : rows;
    k.cols = turned ? rows : cols;
    k.row_stride = turned ? matrix.col_stride : matrix.row_stride;
    k.col_stride = turned ? matrix.row_stride : matrix.col_stride;
    k.batch = matrices(batch, strides);
    int64_t distance = rows * cols;
    for (int d = mk::kBatchDims - 1; d >= 0; --d) {
      const bool repeated = strides[d] == 0;
      k.batch_sizes[d] = repeated ? 1 : batch.sizes[d];
      k.batch_strides[d] = strides[d];
      if (repeated) continue;
      strides[d] = distance;
      distance *= batch.sizes[d];
    }
    launch_kernel(pack_kernel(width), ceil_div(k.rows, 32) * ceil_div(k.cols, 32), k.batch, k, work);
    matrix = {memory.data(), turned ? 1 : cols, turned ? rows : 1};
    offset = 0;
  }
  static int64_t matrices(const BatchShape& batch, const int64_t* strides) {
    int64_t count = 1;
    for (int d = 0; d < mk::kBatchDims; ++d) count *= strides[d] == 0 ? 1 : batch.sizes[d];
    return count;
  }
  Scratch memory;
};

// ---- our own kernels -----------------------------------------------------------------------------------------------

// How many parts the sum of `depth` is cut into, so that enough blocks are there for the chip.
int64_t splits_for(int64_t blocks, int64_t wanted, int64_t depth, int64_t least_depth, int64_t most) {
  if (blocks >= wanted || blocks == 0) return 1;
  return std::max<int64_t>(1, std::min({wanted / blocks, depth / least_depth, most}));
}

void finish_splits(const Product& p, const void* partial, int64_t splits, int64_t m, int64_t n, int64_t row_stride,
                   int64_t col_stride, int64_t bias_stride, const Work& work) {
  mk::FinishParams f{};
  f.partial = partial;
  f.c = const_cast<char*>(shifted(p.c.data, p.batch.c0, kElements[p.element].out_bytes));
  f.bias = p.bias;
  f.c_row_stride = row_stride;
  f.c_col_stride = col_stride;
  f.bias_stride = bias_stride;
  put_batch(p.batch, p.batch.c, f.batch_sizes, f.c_batch_strides);
  f.m = m;
  f.n = n;
  f.batch = p.batch.count();
  f.splits = splits;
  f.alpha = factor(p.alpha);
  f.beta = factor(p.beta);
  f.add_c = p.beta != 0;
  launch_kernel(kernel(kFinish, p.element), std::min<int64_t>(ceil_div(m * n * f.batch, kThreads), 1 << 16), 1, f,
                work);
}

// One of m and n is 1: a matrix of the other's rows times a vector.
void vector_product(const Product& p, const Work& work) {
  const Element& e = kElements[p.element];
  const bool by_a = p.n == 1;  // A is the matrix
  mk::VectorParams v{};
  v.rows = by_a ? p.m : p.n;
  v.depth = p.k;
  const void* matrix = by_a ? shifted(p.a.data, p.batch.a0, e.in_bytes) : shifted(p.b.data, p.batch.b0, e.in_bytes);
  v.a = by_a ? operand(matrix, p.a.row_stride, p.a.col_stride, p.batch, p.batch.a, e.in_bytes, 16)
             : operand(matrix, p.b.col_stride, p.b.row_stride, p.batch, p.batch.b, e.in_bytes, 16);
  MatrixArg x = by_a ? p.b : p.a;
  if (by_a) std::swap(x.row_stride, x.col_stride);  // as a row
  BatchShape batch = p.batch;
  int64_t *x_first = by_a ? &batch.b0 : &batch.a0, *x_strides = by_a ? batch.b : batch.a;
  const auto vector = [&] {
    return operand(shifted(x.data, *x_first, e.in_bytes), 0, x.col_stride, batch, x_strides, e.in_bytes, 16);
  };
  mk::Operand fetched = vector();
  // Large matrices are worth a vector that is read like them.
  std::optional<Packed> packed;
  if (!(fetched.fetch & mk::kWide) && (v.a.fetch & mk::kWide) && v.rows * v.depth >= 1 << 18) {
    packed.emplace(x, *x_first, x_strides, 1, v.depth, false, batch, e.in_bytes, work);
    fetched = vector();
  }
  v.x = fetched.data;
  v.x_stride = x.col_stride;
  v.wide_x = (fetched.fetch & mk::kWide) != 0;
  put_batch(batch, x_strides, v.batch_sizes, v.x_batch_strides);
  v.y = const_cast<char*>(shifted(p.c.data, p.batch.c0, e.out_bytes));
  v.y_stride = by_a ? p.c.row_stride : 1;
  put_batch(p.batch, p.batch.c, nullptr, v.y_batch_strides);
  v.bias = p.bias;
  v.bias_stride = by_a ? 0 : 1;
  v.batch = p.batch.count();
  v.alpha = factor(p.alpha);
  v.beta = factor(p.beta);
  v.add_y = p.beta != 0;

  const bool columns = (v.a.fetch & mk::kAlongRows) != 0 && v.rows > 1;
  const int64_t processors = properties(work.device).multiprocessors, wanted = 4 * processors;
  KernelKind kind = kColumns;
  int64_t rows_each = 32 * std::max(1, 16 / e.in_bytes);
  if (!columns) {
    // Warps with two rows each need no barriers, and share what is read of x; but there must be enough of them to keep memory busy.
    const bool enough = ceil_div(v.rows, 2) * v.batch >= 24 * processors;
    const bool whole_block = !enough && (v.depth * e.in_bytes >= 8192 || ceil_div(v.rows, 16) * v.batch < processors);
    kind = whole_block ? kRowsBlock : kRowsWarp;
    rows_each = whole_block ? 1 : 16;
  }
  const int64_t blocks = ceil_div(v.rows, rows_each);
  v.splits = splits_for(blocks * v.batch, wanted, v.depth, columns ? 64 : 4096, 128);
  // Whole steps of all threads, so that wide reads stay aligned.
  v.split_depth = v.splits == 1 ? std::max<int64_t>(v.depth, 1) : ceil_div(ceil_div(v.depth, v.splits), 64) * 64;
  v.splits = std::max<int64_t>(1, ceil_div(v.depth, v.split_depth));
  if (v.splits == 1) return launch_kernel(kernel(kind, p.element), blocks, v.batch, v, work);
  Scratch partial(static_cast<size_t>(v.splits * v.batch * v.rows * e.sum_bytes), work);
  v.partial = partial.data();
  launch_kernel(kernel(kind, p.element), blocks, v.batch * v.splits, v, work);
  finish_splits(p, v.partial, v.splits, v.rows, 1, v.y_stride, 1, v.bias_stride, work);
}

// Measured on an H200, in graphs of nothing but products: 64 x 64 x 64 takes 1.8 us where cuBLAS takes 3.1 in float32 and 2.3
// in 16 bits; it wins up to two tiles for each multiprocessor and sums of 512, or of 64 where a library uses tensor cores.
bool is_small(const Product& p, int device) {
  if (!allow_small_products() || (p.activation != Activation::None && p.activation != Activation::Relu)) return false;
  int64_t most_depth = 0;
  switch (p.element) {
    case kFloat32: most_depth = 512; break;
    case kTf32:
    case kHalfId:
    case kBFloat16Id: most_depth = 64; break;
    default: return false;
  }
  if (p.k > most_depth) return false;
  const int64_t tiles = ceil_div(p.m, mk::kSmallSide) * ceil_div(p.n, mk::kSmallSide);
  if (tiles * p.batch.count() > 2 * properties(device).multiprocessors) return false;
  int batches = 0;
  for (int d = 0; d < mk::kBatchDims; ++d) batches += p.batch.sizes[d] > 1;
  const auto fits = [](const MatrixArg& x, int64_t rows, int64_t cols) {
    constexpr int64_t kMost = INT32_MAX / 2;
    return std::max(x.row_stride, x.col_stride) < kMost &&
           (rows + 64) * x.row_stride + (cols + 64) * x.col_stride < kMost;  // tiles may reach over the ends
  };
  return batches <= 1 && fits(p.a, p.m, p.k) && fits(p.b, p.k, p.n) && fits(p.c, p.m, p.n);
}

void small_product(const Product& p, const Work& work) {
  const Element& e = kElements[p.element];
  int along = mk::kBatchDims - 1;
  for (int d = 0; d < mk::kBatchDims; ++d)
    if (p.batch.sizes[d] > 1) along = d;
  const auto small = [&](const mk::Operand& o) {
    return mk::SmallOperand{
        o.data, o.batch_strides[along], static_cast<int>(o.row_stride), static_cast<int>(o.depth_stride), o.fetch, 0};
  };
  mk::SmallParams s{};
  s.a = small(operand(shifted(p.a.data, p.batch.a0, e.in_bytes), p.a.row_stride, p.a.col_stride, p.batch, p.batch.a,
                      e.in_bytes, 16));
  s.b = small(operand(shifted(p.b.data, p.batch.b0, e.in_bytes), p.b.col_stride, p.b.row_stride, p.batch, p.batch.b,
                      e.in_bytes, 16));
  s.c = const_cast<char*>(shifted(p.c.data, p.batch.c0, e.out_bytes));
  s.bias = p.bias;
  s.c_batch_stride = p.batch.c[along];
  s.c_row_stride = static_cast<int>(p.c.row_stride);
  s.m = static_cast<int>(p.m);
  s.n = static_cast<int>(p.n);
  s.k = static_cast<int>(p.k);
  s.alpha = factor(p.alpha);
  s.beta = factor(p.beta);
  s.add_c = p.beta != 0;
  s.relu = p.activation == Activation::Relu;
  void* arguments[] = {&s};
  const auto blocks = [](int64_t size) { return static_cast<uint32_t>(ceil_div(size, mk::kSmallSide)); };
  launch(kernel(kSmall, p.element), {blocks(p.n), blocks(p.m), static_cast<uint32_t>(p.batch.sizes[along])},
         {kThreads, 1, 1}, 0, arguments, work);
}

void tile_product(const Product& p, const Work& work) {
  const Element& e = kElements[p.element];
  const int64_t batch = p.batch.count(), processors = properties(work.device).multiprocessors;
  // The largest tile that still gives every multiprocessor something to do.
  int side = e.sum_bytes >= 16 ? 32 : e.sum_bytes == 8 ? 64 : 128;
  const auto tiles = [&](int64_t s) { return ceil_div(p.m, s) * ceil_div(p.n, s); };
  const bool cores_matter = e.cores && p.k >= 64;  // the smallest tile has no use for tensor cores
  while (side > (cores_matter ? 64 : 32) && tiles(side) * batch < processors) side /= 2;
  while (side > 32 && std::min(p.m, p.n) <= side / 4 && !cores_matter) side /= 2;
  const KernelKind kind = side == 128 ? kTile128 : side == 64 ? kTile64 : kTile32;

  mk::Params t{};
  t.a = operand(shifted(p.a.data, p.batch.a0, e.in_bytes), p.a.row_stride, p.a.col_stride, p.batch, p.batch.a,
                e.in_bytes, 16);
  t.b = operand(shifted(p.b.data, p.batch.b0, e.in_bytes), p.b.col_stride, p.b.row_stride, p.batch, p.batch.b,
                e.in_bytes, 16);
  t.c = const_cast<char*>(shifted(p.c.data, p.batch.c0, e.out_bytes));
  t.bias = p.bias;
  t.c_row_stride = p.c.row_stride;
  put_batch(p.batch, p.batch.c, t.batch_sizes, t.c_batch_strides);
  t.m = p.m;
  t.n = p.n;
  t.k = p.k;
  t.batch = batch;
  t.tiles_m = ceil_div(p.m, side);
  t.tiles_n = ceil_div(p.n, side);
  t.alpha = factor(p.alpha);
  t.beta = factor(p.beta);
  t.add_c = p.beta != 0;
  const int pair = std::min(2 * e.out_bytes, 16);
  t.pairs =
      p.c.row_stride * e.out_bytes % pair == 0 && reinterpret_cast<uintptr_t>(t.c) % static_cast<uintptr_t>(pair) == 0;
  for (int d = 0; d < mk::kBatchDims; ++d)
    t.pairs = t.pairs && (p.batch.sizes[d] == 1 || p.batch.c[d] * e.out_bytes % pair == 0);

  const int64_t blocks = t.tiles_m * t.tiles_n;
  t.splits = splits_for(blocks * batch, 2 * processors, p.k, 256, 64);
  t.split_depth = t.splits == 1 ? std::max<int64_t>(p.k, 1) : ceil_div(ceil_div(p.k, t.splits), 64) * 64;
  t.splits = std::max<int64_t>(1, ceil_div(p.k, t.split_depth));
  if (t.splits == 1) return launch_kernel(kernel(kind, p.element), blocks, batch, t, work);
  Scratch partial(static_cast<size_t>(t.splits * batch * p.m * p.n * e.sum_bytes), work);
  t.partial = partial.data();
  launch_kernel(kernel(kind, p.element), blocks, batch * t.splits, t, work);
  finish_splits(p, t.partial, t.splits, p.m, p.n, p.c.row_stride, 1, 1, work);
}

// ---- the library ---------------------------------------------------------------------------------------------------

// The product as one library call for each step of all loops but the longest.
bool library_calls(Blas& with, const Product& p, const Leading& a, const Leading& b, const Work& work) {
  const Element& e = kElements[p.element];
  // Row-major C is C turned in a library's eyes: C^T = B^T A^T.
  BlasProblem problem;
  problem.dtype = p.dtype;
  problem.out_dtype = p.out_dtype;
  problem.transpose_a = !b.by_rows;
  problem.transpose_b = !a.by_rows;
  problem.tf32 = p.element == kTf32;
  problem.reduced = p.dtype == ScalarType::Half       ? allow_fp16_reduced_precision_reduction()
                    : p.dtype == ScalarType::BFloat16 ? allow_bf16_reduced_precision_reduction()
                                                      : true;
  problem.narrow_sums = p.dtype == ScalarType::Half && allow_fp16_accumulation();
  problem.m = p.n;
  problem.n = p.m;
  problem.k = p.k;
  problem.lda = b.distance;
  problem.ldb = a.distance;
  problem.ldd = std::max(p.c.row_stride, p.n);
  problem.alpha = p.alpha;
  problem.beta = p.beta;
  problem.bias = p.bias;
  problem.activation = p.activation;
  problem.before = p.before;

  int longest = mk::kBatchDims - 1;
  for (int d = 0; d < mk::kBatchDims; ++d)
    if (p.batch.sizes[d] > p.batch.sizes[longest]) longest = d;
  problem.batch = p.batch.sizes[longest];
  problem.stride_a = p.batch.b[longest];
  problem.stride_b = p.batch.a[longest];
  problem.stride_d = p.batch.c[longest];
  const int64_t calls = p.batch.count() / problem.batch;
  // Many calls for small products take longer than one launch of our own.
  const double each = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                      static_cast<double>(problem.batch);
  if (calls > 4 && each < (1 << 26)) return false;

  const StreamRef stream = encode(work);
  for (int64_t call = 0; call < calls; ++call) {
    int64_t rest = call, at_a = p.batch.a0, at_b = p.batch.b0, at_c = p.batch.c0;
    for (int d = mk::kBatchDims - 1; d >= 0; --d) {
      if (d == longest) continue;
      const int64_t step = rest % p.batch.sizes[d];
      rest /= p.batch.sizes[d];
      at_a += step * p.batch.a[d];
      at_b += step * p.batch.b[d];
      at_c += step * p.batch.c[d];
    }
    problem.a = shifted(p.b.data, at_b, e.in_bytes);
    problem.b = shifted(p.a.data, at_a, e.in_bytes);
    problem.d = const_cast<char*>(shifted(p.c.data, at_c, e.out_bytes));
    if (!with.matmul(problem, stream, work.op)) {
      // Alignments may differ from matrix to matrix: what was queued is right, the rest is computed one by one.
      if (call == 0) return false;
      Product one = p;
      one.batch = {};
      one.batch.sizes[mk::kBatchDims - 1] = problem.batch;
      one.batch.a[mk::kBatchDims - 1] = problem.stride_b;
      one.batch.b[mk::kBatchDims - 1] = problem.stride_a;
      one.batch.c[mk::kBatchDims - 1] = problem.stride_d;
      one.batch.a0 = at_a;
      one.batch.b0 = at_b;
      one.batch.c0 = at_c;
      tile_product(one, work);
    }
  }
  return true;
}

bool library_product(const Product& p, const Work& work) {
  if (!allow_blas() || p.element == kI8) return false;
  Blas* with = blas();
  if (!with || !with->supports(p.dtype, work.device)) return false;
  const Leading a = leading(p.a, p.m, p.k), b = leading(p.b, p.k, p.n);
  // Libraries multiply int8 well only where both operands run along the sum.
  const bool int8 = p.element == kI8To32, keep_a = a.ok && (!int8 || a.by_rows), keep_b = b.ok && !(int8 && b.by_rows);
  const double size = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
                      static_cast<double>(p.batch.count());
  if ((keep_a && keep_b) || size < kWorthCopying) return a.ok && b.ok && library_calls(*with, p, a, b, work);
  Product copied = p;
  std::optional<Packed> packed_a, packed_b;
  const int width = kElements[p.element].in_bytes;
  if (!keep_a) packed_a.emplace(copied.a, copied.batch.a0, copied.batch.a, p.m, p.k, false, p.batch, width, work);
  if (!keep_b) packed_b.emplace(copied.b, copied.batch.b0, copied.batch.b, p.k, p.n, int8, p.batch, width, work);
  return library_calls(*with, copied, leading(copied.a, p.m, p.k), leading(copied.b, p.k, p.n), work);
}

void product(Product p, const MatmulArgs& args, const Work& work) {
  if (p.m == 0 || p.n == 0 || args.batch == 0) return;
  enter(work.device, work.op);
  if (!batch_shape(args, p.batch)) {
    // No pattern: one by one.
    for (int64_t i = 0; i < args.batch; ++i) {
      MatmulArgs one = args;
      one.batch = 1;
      one.a.batch_offsets = args.a.batch_offsets ? args.a.batch_offsets + i : nullptr;
      one.b.batch_offsets = args.b.batch_offsets ? args.b.batch_offsets + i : nullptr;
      one.c.batch_offsets = args.c.batch_offsets ? args.c.batch_offsets + i : nullptr;
      const int64_t a = one.a.batch_offsets ? 0 : args.a.offset(i), b = one.b.batch_offsets ? 0 : args.b.offset(i),
                    c = one.c.batch_offsets ? 0 : args.c.offset(i);
      const Element& e = kElements[p.element];
      Product next = p;
      next.a.data = const_cast<char*>(shifted(p.a.data, a, e.in_bytes));
      next.b.data = const_cast<char*>(shifted(p.b.data, b, e.in_bytes));
      next.c.data = const_cast<char*>(shifted(p.c.data, c, e.out_bytes));
      product(next, one, work);
    }
    return;
  }
  // Matrices of A that follow each other and meet the same B are one tall matrix.
  constexpr int kLast = mk::kBatchDims - 1;
  BatchShape& s = p.batch;
  if (p.m == 1) {
    p.a.row_stride = s.a[kLast];
    p.c.row_stride = s.c[kLast];
  }
  if (s.sizes[kLast] > 1 && s.b[kLast] == 0 && s.a[kLast] == p.m * p.a.row_stride &&
      s.c[kLast] == p.m * p.c.row_stride) {
    p.m *= s.sizes[kLast];
    s.sizes[kLast] = 1;
    s.a[kLast] = s.c[kLast] = 0;
  }
  if (p.k > 0 && (p.m == 1 || p.n == 1)) return vector_product(p, work);
  if (p.k > 0 && is_small(p, work.device)) return small_product(p, work);
  if (p.k > 0 && library_product(p, work)) return;
  tile_product(p, work);
}

Product product_of(const MatmulArgs& args, ElementId element, ScalarType out_dtype) {
  return {element, args.dtype, out_dtype, args.m, args.n, args.k, args.a, args.b, args.c, {}, args.alpha, args.beta};
}

}  // namespace

void matmul(const MatmulArgs& args, const Work& work) {
  product(product_of(args, element_of(args.dtype, work.op), args.dtype), args, work);
}

void matmul_bias(const MatmulArgs& args, const void* bias, const Work& work) {
  FACULA_INTERNAL_CHECK(args.beta == 0);
  Product p = product_of(args, element_of(args.dtype, work.op), args.dtype);
  p.bias = bias;
  product(p, args, work);
}

bool matmul_activation(const MatmulArgs& args, const void* bias, Activation activation, void* before,
                       const Work& work) {
  FACULA_INTERNAL_CHECK(args.beta == 0 && args.batch == 1 && (!before || activation == Activation::GeluTanh));
  if (args.m <= 1 || args.n <= 1 || args.k == 0) return false;  // vectors are our own
  // A library's gelu has ten digits at most.
  if (args.dtype == ScalarType::Double && activation == Activation::GeluTanh) return false;
  Product p = product_of(args, element_of(args.dtype, work.op), args.dtype);
  p.bias = bias;
  p.activation = activation;
  p.before = before;
  enter(work.device, work.op);
  if (!batch_shape(args, p.batch)) return false;
  if (!is_small(p, work.device)) return library_product(p, work);
  small_product(p, work);
  return true;
}

void matmul_int8(const MatmulArgs& args, const Work& work) {
  product(product_of(args, kI8To32, ScalarType::Int), args, work);
}

void gemv(const GemvArgs& args, const Work& work) {
  MatmulArgs m;
  m.dtype = args.dtype;
  m.m = args.m;
  m.n = 1;
  m.k = args.k;
  m.a = {const_cast<void*>(args.a), args.row_stride, args.col_stride};
  m.b = {const_cast<void*>(args.x), 1, 1};
  m.c = {args.y, 1, 1};
  matmul(m, work);
}

}  // namespace facula::gpu
