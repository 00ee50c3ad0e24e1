// Walks pointwise programs over tiles. Reductions are in executor_reduce.cpp.
#include "cpu/executor.h"

#include "core/shape.h"
#include "core/sort_few.h"
#include "cpu/copy_kernels.h"
#include "cpu/parallel.h"
#include "cpu/tile_eval.h"

#include <facula/core/error.h>

#include <algorithm>
#include <cstdlib>

namespace facula {

ParamValue param_value(const Scalar& s, CType type) {
  ParamValue v{};
  switch (type) {
    case CType::F32: v.f32 = static_cast<float>(s.toDouble()); break;
    case CType::F64: v.f64 = s.toDouble(); break;
    case CType::I32:
      v.i32 = static_cast<int32_t>(s.isFloatingPoint() ? static_cast<int64_t>(s.toDouble()) : s.toLong());
      break;
    case CType::I64: v.i64 = s.toLong(); break;
    case CType::U64: v.u64 = s.toUInt64(); break;
    case CType::B8: v.b8 = s.toBool(); break;
    case CType::C64: {
      auto z = s.toComplexDouble();
      v.c64[0] = static_cast<float>(z.real());
      v.c64[1] = static_cast<float>(z.imag());
      break;
    }
    case CType::C128: {
      auto z = s.toComplexDouble();
      v.c128[0] = z.real();
      v.c128[1] = z.imag();
      break;
    }
  }
  return v;
}

CpuProgram::CpuProgram(Program program) : program_(std::move(program)), plan_(std::make_unique<TilePlan>(program_)) {}
CpuProgram::~CpuProgram() = default;
CpuProgram::CpuProgram(CpuProgram&&) noexcept = default;

namespace {

constexpr size_t kMaxArrays = 32;

// Whether the result goes to memory past the cache. Memory that is also read is in the cache already.
bool streams(const CpuProgram& program, int64_t count, const void* const* loads, const void* memory) {
  const Program& p = program.program();
  if (!program.plan().waits_for_memory) return false;
  if (p.stores().size() != 1 ||
      !detail::worth_streaming(count * static_cast<int64_t>(elementSize(p.stores()[0].dtype))))
    return false;
  const void* const* end = loads + p.loads().size();
  return std::find(loads, end, memory) == end;
}

// One operation on arrays that its function takes as they are.
void run_single(const CpuProgram& p, int64_t begin, int64_t end, const void* const* loads, const ParamValue* params,
                void* const* stores, bool stream) {
  const TilePlan& plan = p.plan();
  const TileStep& step = plan.prologue[0];
  const auto& values = p.program().values();
  constexpr int64_t kConstantBytes = 8192;
  alignas(64) char constants[3][kConstantBytes];
  int64_t most = end - begin;
  for (uint16_t v : plan.param_values)
    most = std::min<int64_t>(most, kConstantBytes / static_cast<int64_t>(ctype_size(plan.types[v])));

  struct Source {
    const char* data = nullptr;
    int64_t width = 0;  // 0 for a constant
  } sources[3];
  for (int k = 0; k < 3; ++k) {
    uint16_t v = step.operands[k];
    if (v == kNoValue) continue;
    if (values[v].source == Program::Source::Param) {
      cpu::fill_tile(plan.types[v], &params[values[v].index], constants[k], static_cast<size_t>(most));
      sources[k] = {constants[k], 0};
    } else {
      uint16_t load = values[v].index;
      sources[k] = {static_cast<const char*>(loads[load]),
                    static_cast<int64_t>(elementSize(p.program().loads()[load]))};
    }
  }
  auto out_width = static_cast<int64_t>(elementSize(p.program().stores()[0].dtype));
  char* out = static_cast<char*>(stores[0]);
  const auto run = [&](cpu::TileFn fn, int64_t i, int64_t n, char* to) {
    fn(sources[0].data + i * sources[0].width, sources[1].data ? sources[1].data + i * sources[1].width : nullptr,
       sources[2].data ? sources[2].data + i * sources[2].width : nullptr, to, static_cast<size_t>(n));
  };
  if (!stream) {
    for (int64_t i = begin; i < end; i += most) run(plan.whole, i, std::min(most, end - i), out + i * out_width);
    return;
  }
  // From a buffer few lines at a time, so that the processor fetches the next operands while these are on their way to memory. The buffer lies in one
  // page: on Zen 5 one that lies across two makes exp take twice as long.
  alignas(detail::kStreamedRow) char staged[detail::kStreamedRow];
  const int64_t line = cpu::kLineBytes / out_width, most_staged = std::min(most, detail::kStreamedRow / out_width);
  for (int64_t i = begin, n; i < end; i += n) {
    char* to = out + i * out_width;
    const auto before_line = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % cpu::kLineBytes);
    if (plan.streamed && before_line == 0 && end - i >= line) {
      n = std::min(most, end - i) / line * line;
      run(plan.streamed, i, n, to);
      continue;
    }
    // What lies before the first whole line is a part of its own.
    n = std::min({before_line >= out_width ? before_line / out_width : most_staged, most_staged, end - i});
    run(plan.whole, i, n, staged);
    detail::stream_bytes(to, staged, n * out_width);
  }
  detail::end_stream();
}

// Whether the step that computes store k may write to memory instead of a buffer: no conversion is needed, and no later
// step still reads what is there.
bool may_write_directly(const CpuProgram& p, size_t k, const void* const* loads, size_t load_count,
                        const void* memory) {
  const TilePlan& plan = p.plan();
  const Program::Store& store = p.program().stores()[k];
  if (p.program().values()[store.value].source != Program::Source::Instruction) return false;
  if (compute_type(store.dtype) != plan.types[store.value] || store_fn(store.dtype)) return false;
  for (size_t other = 0; other < k; ++other)
    if (p.program().stores()[other].value == store.value) return false;
  bool last = plan.prologue.back().result == store.value;
  return last || std::find(loads, loads + load_count, memory) == loads + load_count;
}

}  // namespace

void CpuProgram::run_contiguous(int64_t count, const void* const* loads, const ParamValue* params,
                                void* const* stores) const {
  if (count == 0) return;
  const TilePlan& plan = *plan_;
  const bool stream = streams(*this, count, loads, stores[0]);
  if (plan.whole) {
    if (!worth_a_team(count, plan.grain)) return run_single(*this, 0, count, loads, params, stores, stream);
    return parallel_for(0, count, plan.grain,
                        [&](int64_t b, int64_t e) { run_single(*this, b, e, loads, params, stores, stream); });
  }
  size_t load_count = program_.loads().size();
  const auto& outs = program_.stores();
  FACULA_INTERNAL_CHECK(outs.size() <= kMaxArrays);
  bool direct[kMaxArrays];
  for (size_t k = 0; k < outs.size(); ++k) direct[k] = may_write_directly(*this, k, loads, load_count, stores[k]);
  auto work = [&](int64_t b, int64_t e) {
    TileEval eval(*this, params, e - b);
    alignas(64) char staged[kTileBudget];
    for (int64_t i = b; i < e; i += plan.tile_elements) {
      int64_t n = std::min(plan.tile_elements, e - i);
      eval.begin(1, n);
      for (size_t k = 0; k < load_count; ++k)
        eval.bind_load(
            k, static_cast<const char*>(loads[k]) + i * static_cast<int64_t>(elementSize(program_.loads()[k])), n, 1);
      auto address = [&](size_t k) {
        return static_cast<char*>(stores[k]) + i * static_cast<int64_t>(elementSize(outs[k].dtype));
      };
      for (size_t k = 0; k < outs.size(); ++k)
        if (direct[k]) eval.redirect(outs[k].value, stream ? staged : address(k));
      eval.run_prologue();
      for (size_t k = 0; k < outs.size(); ++k) eval.store(outs[k].value, outs[k].dtype, address(k), 1, n, n, 1, stream);
    }
    if (stream) detail::end_stream();
  };
  if (!worth_a_team(count, plan.grain)) return work(0, count);
  // Whole tiles go to threads, so that no tile is cut.
  int64_t tiles = (count + plan.tile_elements - 1) / plan.tile_elements;
  parallel_for(0, tiles, std::max<int64_t>(1, plan.grain / plan.tile_elements),
               [&](int64_t b, int64_t e) { work(b * plan.tile_elements, std::min(count, e * plan.tile_elements)); });
}

namespace {

// The iteration space after sorting and merging dims, with the strides of all arrays (loads first, then stores).
struct Space {
  size_t dims = 0, arrays = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxArrays][kMaxDims];
};

// Dims of size 1 go; the rest are ordered so that the last one is the fastest of the first store, then merged.
void build_space(Space& s, IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ArrayArg> stores) {
  s.arrays = loads.size() + stores.size();
  const int64_t* raw[kMaxArrays];
  for (size_t a = 0; a < s.arrays; ++a) raw[a] = a < loads.size() ? loads[a].strides : stores[a - loads.size()].strides;
  size_t order[kMaxDims], n = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) order[n++] = d;
  const int64_t* key = raw[loads.size()];
  sort_few(order, order + n, [&](size_t a, size_t b) { return std::abs(key[a]) > std::abs(key[b]); });
  for (size_t k = 0; k < n; ++k) {
    size_t d = order[k];
    bool merge = s.dims > 0;
    for (size_t a = 0; merge && a < s.arrays; ++a) merge = s.strides[a][s.dims - 1] == raw[a][d] * sizes[d];
    if (!merge) {
      s.sizes[s.dims] = sizes[d];
      for (size_t a = 0; a < s.arrays; ++a) s.strides[a][s.dims] = raw[a][d];
      ++s.dims;
    } else {
      s.sizes[s.dims - 1] *= sizes[d];
      for (size_t a = 0; a < s.arrays; ++a) s.strides[a][s.dims - 1] = raw[a][d];
    }
  }
  if (s.dims == 0) {
    s.sizes[0] = 1;
    for (size_t a = 0; a < s.arrays; ++a) s.strides[a][0] = 0;
    s.dims = 1;
  }
}

// How the space is cut: columns run along the last dim, rows along `row_dim`.
struct Tiling {
  size_t row_dim = SIZE_MAX;  // SIZE_MAX: one row
  int64_t rows = 1, cols = 1;
};

// Whether a program of one operation needs no buffer: every operand is taken where it lies, row by row if need be.
bool all_in_place(const TilePlan& plan, const Space& s, size_t loads) {
  size_t inner = s.dims - 1;
  if (!plan.single || !plan.param_values.empty() || s.sizes[inner] < 64) return false;
  for (size_t a = 0; a < s.arrays; ++a) {
    int64_t along = s.strides[a][inner], rows_apart = s.dims > 1 ? s.strides[a][inner - 1] : s.sizes[inner];
    if (a >= loads) {
      if (along != 1 || rows_apart != s.sizes[inner]) return false;
      continue;
    }
    if (!plan.takes_one_element(plan.load_values[a], along) && !plan.takes_rows(rows_apart, along)) return false;
  }
  return true;
}

Tiling choose_tiling(const Space& s, int64_t tile_elements) {
  Tiling t;
  size_t inner = s.dims - 1;
  t.cols = std::min(s.sizes[inner], tile_elements);
  if (s.dims == 1) return t;
  // An array that strides far along the columns is read along its own fast dim instead: square tiles, one cache line
  // serves many rows.
  for (size_t a = 0; a < s.arrays; ++a) {
    int64_t along = std::abs(s.strides[a][inner]);
    if (along <= 1) continue;
    size_t best = inner;
    for (size_t d = 0; d < s.dims; ++d)
      if (s.strides[a][d] != 0 && std::abs(s.strides[a][d]) < std::abs(s.strides[a][best])) best = d;
    if (best == inner) continue;
    t.row_dim = best;
    t.cols = std::min<int64_t>(s.sizes[inner], 64);
    t.rows = std::min(s.sizes[best], std::max<int64_t>(1, tile_elements / t.cols));
    return t;
  }
  if (t.cols * 2 <= tile_elements) {
    t.row_dim = inner - 1;
    t.rows = std::min(s.sizes[inner - 1], tile_elements / t.cols);
  }
  return t;
}

}  // namespace

void CpuProgram::run(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
                     std::span<const ArrayArg> stores) const {
  const TilePlan& plan = *plan_;
  FACULA_CHECK(loads.size() + stores.size() <= kMaxArrays, NotSupportedError, "a program may use at most ", kMaxArrays,
               " arrays, this one has ", loads.size() + stores.size(), "; split it");
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  if (count == 0) return;

  Space s;
  build_space(s, sizes, loads, stores);
  bool flat = s.dims == 1;
  for (size_t a = 0; flat && a < s.arrays; ++a) flat = s.strides[a][0] == 1 || s.sizes[0] == 1;
  if (flat) {
    const void* in[kMaxArrays];
    void* out[kMaxArrays];
    for (size_t a = 0; a < loads.size(); ++a) in[a] = loads[a].data;
    for (size_t a = 0; a < stores.size(); ++a) out[a] = stores[a].data;
    return run_contiguous(count, in, params.data(), out);
  }

  // Without buffers the size of a tile is bounded only by what a thread of several should take at once.
  constexpr int64_t kTileInPlace = 1 << 14;
  const bool team = worth_a_team(count, plan.grain);
  const void* load_data[kMaxArrays];
  for (size_t a = 0; a < loads.size(); ++a) load_data[a] = loads[a].data;
  const bool stream = streams(*this, count, load_data, stores[0].data);
  const bool no_buffer = !stream && all_in_place(plan, s, loads.size());
  Tiling t = choose_tiling(s, !no_buffer ? plan.tile_elements : team ? kTileInPlace : count);
  size_t inner = s.dims - 1;
  int64_t row_size = t.row_dim == SIZE_MAX ? 1 : s.sizes[t.row_dim];
  int64_t col_tiles = (s.sizes[inner] + t.cols - 1) / t.cols, row_tiles = (row_size + t.rows - 1) / t.rows;
  int64_t outer = count / s.sizes[inner] / row_size;
  int64_t width[kMaxArrays];
  for (size_t a = 0; a < s.arrays; ++a)
    width[a] = static_cast<int64_t>(
        elementSize(a < loads.size() ? program_.loads()[a] : program_.stores()[a - loads.size()].dtype));
  const auto& outs = program_.stores();

  bool direct[kMaxArrays];
  for (size_t k = 0; k < stores.size(); ++k)
    direct[k] = may_write_directly(*this, k, load_data, loads.size(), stores[k].data);

  auto work = [&](int64_t first, int64_t last) {
    TileEval eval(*this, params.data(), t.rows * t.cols);
    alignas(64) char staged[kTileBudget];
    for (int64_t tile = first; tile < last; ++tile) {
      int64_t rest = tile;
      int64_t col = rest % col_tiles * t.cols;
      rest /= col_tiles;
      int64_t row = rest % row_tiles * t.rows;
      rest /= row_tiles;
      int64_t offset[kMaxArrays] = {};
      for (size_t d = inner; d-- > 0;) {
        if (d == t.row_dim) continue;
        int64_t index = rest % s.sizes[d];
        rest /= s.sizes[d];
        for (size_t a = 0; a < s.arrays; ++a) offset[a] += index * s.strides[a][d];
      }
      int64_t rows = std::min(t.rows, row_size - row), cols = std::min(t.cols, s.sizes[inner] - col);
      auto row_stride = [&](size_t a) { return t.row_dim == SIZE_MAX ? 0 : s.strides[a][t.row_dim]; };
      for (size_t a = 0; a < s.arrays; ++a) offset[a] += col * s.strides[a][inner] + row * row_stride(a);
      eval.begin(rows, cols);
      for (size_t a = 0; a < loads.size(); ++a)
        eval.bind_load(a, static_cast<const char*>(loads[a].data) + offset[a] * width[a], row_stride(a),
                       s.strides[a][inner]);
      for (size_t k = 0; k < stores.size(); ++k) {
        size_t a = loads.size() + k;
        bool contiguous = (s.strides[a][inner] == 1 || cols == 1) && (rows == 1 || row_stride(a) == cols);
        void* memory = static_cast<char*>(stores[k].data) + offset[a] * width[a];
        if (program_.values()[outs[k].value].source != Program::Source::Instruction) continue;
        if (stream) memory = staged;
        eval.redirect(outs[k].value, direct[k] && contiguous ? memory : eval.buffer_of(outs[k].value));
      }
      eval.run_prologue();
      for (size_t k = 0; k < stores.size(); ++k) {
        size_t a = loads.size() + k;
        eval.store(outs[k].value, outs[k].dtype, static_cast<char*>(stores[k].data) + offset[a] * width[a], rows, cols,
                   row_stride(a), s.strides[a][inner], stream);
      }
    }
    if (stream) detail::end_stream();
  };
  int64_t tiles = outer * row_tiles * col_tiles;
  int64_t grain = std::max<int64_t>(1, plan.grain / (t.rows * t.cols));
  if (!team) return work(0, tiles);
  parallel_for(0, tiles, grain, work);
}

}  // namespace facula
