#include "cpu/tile_eval.h"

#include "cpu/copy_kernels.h"

#include <facula/core/error.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace facula {
namespace {

constexpr int64_t kMaxTile = 4096, kMinTile = 256;

// Memory that a thread keeps between runs. A nested evaluator on the same thread gets memory of its own.
struct Scratch {
  std::unique_ptr<char[]> memory;
  size_t size = 0;
  bool busy = false;

  char* take(size_t bytes) {
    if (bytes + 64 > size) {
      size = bytes + 64;
      memory = std::make_unique_for_overwrite<char[]>(size);
    }
    auto address = reinterpret_cast<uintptr_t>(memory.get());
    return memory.get() + ((address + 63) / 64 * 64 - address);
  }
};
thread_local Scratch scratch;

// How many times an addition the operation costs, roughly.
int64_t cost_of(const Program::Instruction& i) {
  if (i.is_cast || i.op < ScalarOp::exp) return 1;
  return i.op < ScalarOp::erf ? 6 : 12;
}

}  // namespace

TilePlan::TilePlan(const Program& program) {
  const auto& values = program.values();
  types.resize(values.size());
  slots.assign(values.size(), 0);
  load_values.resize(program.loads().size());
  param_values.resize(program.params().size());
  std::vector<uint16_t> value_of_instruction(program.instructions().size());
  for (size_t id = 0; id < values.size(); ++id) {
    types[id] = values[id].type;
    auto v = static_cast<uint16_t>(id);
    if (values[id].source == Program::Source::Load) load_values[values[id].index] = v;
    if (values[id].source == Program::Source::Param) param_values[values[id].index] = v;
    if (values[id].source == Program::Source::Instruction) value_of_instruction[values[id].index] = v;
  }

  int64_t cost = 0;
  size_t widest = 1;
  for (CType t : types) widest = std::max(widest, ctype_size(t));
  for (size_t k = 0; k < program.instructions().size(); ++k) {
    const auto& i = program.instructions()[k];
    TileStep step;
    if (i.is_cast) step.cast = cast_fn(i.type, i.result);
    else step.fn = cpu::tile_fn(i.op, i.type), step.fn_rows = cpu::tile_fn_rows(i.op, i.type);
    FACULA_INTERNAL_CHECK(step.fn || step.cast);
    std::copy(i.operands, i.operands + 3, step.operands);
    step.result = value_of_instruction[k];
    (k < program.epilogue_begin() ? prologue : epilogue).push_back(step);
    cost += cost_of(i);
  }

  // Buffers: constants keep theirs, the others give theirs back after the last step that reads them.
  std::vector<size_t> last_use(values.size(), 0);
  size_t total_steps = prologue.size() + epilogue.size();
  auto step_at = [&](size_t k) -> const TileStep& {
    return k < prologue.size() ? prologue[k] : epilogue[k - prologue.size()];
  };
  for (size_t k = 0; k < total_steps; ++k)
    for (uint16_t operand : step_at(k).operands)
      if (operand != kNoValue) last_use[operand] = k + 1;
  for (const auto& s : program.stores()) last_use[s.value] = total_steps + 1;
  if (program.reduction() != ReduceOp::None) last_use[program.reduced_value()] = total_steps + 1;

  std::vector<uint16_t> free_slots;
  auto take_slot = [&] {
    if (free_slots.empty()) return static_cast<uint16_t>(slot_count++);
    uint16_t s = free_slots.back();
    free_slots.pop_back();
    return s;
  };
  for (uint16_t v : param_values) slots[v] = take_slot();
  for (uint16_t v : load_values) slots[v] = take_slot();
  for (size_t k = 0; k < total_steps; ++k) {
    const TileStep& step = step_at(k);
    // The result may take over the buffer of an operand that ends here when elements are equally wide.
    uint16_t reused = kNoValue;
    std::vector<uint16_t> ended;  // free only once the result has its own: a step must not write over what it reads
    for (uint16_t operand : step.operands) {
      if (operand == kNoValue || last_use[operand] != k + 1) continue;
      Program::Source source = values[operand].source;
      if (source != Program::Source::Load && source != Program::Source::Instruction) continue;
      bool same_width = ctype_size(types[operand]) == ctype_size(types[step.result]);
      last_use[operand] = 0;  // an operand may stand twice
      if (reused == kNoValue && same_width && !step.cast) reused = slots[operand];
      else ended.push_back(slots[operand]);
    }
    slots[step.result] = reused != kNoValue ? reused : take_slot();
    free_slots.insert(free_slots.end(), ended.begin(), ended.end());
  }

  size_t per_element = std::max<size_t>(slot_count, 1) * widest;
  int64_t fitting = static_cast<int64_t>(kTileBudget / per_element) / 64 * 64;
  tile_elements = std::clamp(fitting, kMinTile, kMaxTile);
  slot_bytes = (static_cast<size_t>(tile_elements) * widest + 63) / 64 * 64;
  grain = std::max<int64_t>(2048, 32768 / std::max<int64_t>(cost, 1));
  size_t moved = 0;
  for (ScalarType t : program.loads()) moved += elementSize(t);
  for (const auto& s : program.stores()) moved += elementSize(s.dtype);
  waits_for_memory = 2 * cost < 3 * static_cast<int64_t>(moved);

  const bool one_step = program.reduction() == ReduceOp::None && prologue.size() == 1 && program.stores().size() == 1 &&
                        prologue[0].fn && program.stores()[0].value == prologue[0].result &&
                        compute_type(program.stores()[0].dtype) == types[prologue[0].result];
  auto loads_are = [&](auto test) { return std::all_of(program.loads().begin(), program.loads().end(), test); };
  // No more loads than operands: a load that nothing uses would be one for which by-row runs have no place.
  single = one_step && program.loads().size() <= std::size(prologue[0].operands) &&
           !store_fn(program.stores()[0].dtype) && loads_are([](ScalarType t) { return load_fn(t) == nullptr; });
  if (single) {
    whole = prologue[0].fn;
    streamed = cpu::tile_fn_streamed(program.instructions()[0].op, program.instructions()[0].type);
  }
  if (one_step && program.stores()[0].dtype == kBFloat16 && program.instructions()[0].type == CType::F32 &&
      program.params().empty() && loads_are([](ScalarType t) { return t == kBFloat16; }))
    whole = cpu::tile_fn_bfloat16(program.instructions()[0].op);
}

TileEval::TileEval(const CpuProgram& program, const ParamValue* params, int64_t elements)
    : program_(program), plan_(program.plan()) {
  size_t count = plan_.types.size();
  if (count > std::size(pointer_room_)) {
    many_pointers_.resize(count);
    pointers_ = many_pointers_.data();
  }
  size_t bytes = plan_.slot_count * plan_.slot_bytes;
  if (!scratch.busy) {
    scratch.busy = owns_scratch_ = true;
    buffer_ = scratch.take(bytes);
  } else {
    buffer_ = static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    if (!buffer_) throw OutOfMemoryError("cannot allocate tile buffers on cpu");
  }
  reset_results();
  auto fill = static_cast<size_t>(std::min(elements, plan_.tile_elements));
  for (size_t i = 0; i < plan_.param_values.size(); ++i) {
    uint16_t v = plan_.param_values[i];
    cpu::fill_tile(plan_.types[v], &params[i], slot(v), fill);
  }
}

TileEval::~TileEval() {
  if (owns_scratch_) scratch.busy = false;
  else std::free(buffer_);
}

void TileEval::reset_results() {
  for (size_t v = 0; v < plan_.types.size(); ++v) pointers_[v] = slot(static_cast<uint16_t>(v));
}

void TileEval::begin(int64_t rows, int64_t cols) {
  rows_ = rows;
  cols_ = cols;
  count_ = rows * cols;
  by_rows_ = one_element_rows_ = false;
}

void TileEval::bind_load(size_t i, const void* data, int64_t row_stride, int64_t col_stride) {
  uint16_t v = plan_.load_values[i];
  ScalarType dtype = program_.program().loads()[i];
  bool contiguous = (col_stride == 1 || cols_ == 1) && (rows_ == 1 || row_stride == cols_);
  ConvertFn convert = load_fn(dtype);
  if (i < kRemembered) row_bytes_[i] = cols_ * static_cast<int64_t>(ctype_size(plan_.types[v]));
  if (contiguous && !convert) {
    pointers_[v] = const_cast<char*>(static_cast<const char*>(data));
    return;
  }
  if (plan_.single && cols_ >= 64) {
    const bool one_element = plan_.takes_one_element(v, col_stride);
    if (one_element || plan_.takes_rows(row_stride, col_stride)) {
      by_rows_ = true;
      one_element_rows_ |= one_element;
      row_bytes_[i] = row_stride * static_cast<int64_t>(elementSize(dtype));
      pointers_[v] = const_cast<char*>(static_cast<const char*>(data));
      return;
    }
  }
  char* buffer = slot(v);
  pointers_[v] = buffer;
  if (i < kRemembered) {
    Loaded& l = loaded_[i];
    // Rows that repeat (stride 0) serve any smaller number of rows too.
    bool enough = rows_ == l.rows || (row_stride == 0 && rows_ < l.rows);
    if (data == l.data && enough && cols_ == l.cols && row_stride == l.row_stride && col_stride == l.col_stride) return;
    l = {data, rows_, cols_, row_stride, col_stride};
  }
  if (contiguous) convert(data, buffer, static_cast<size_t>(count_));
  else load_block(data, dtype, rows_, cols_, row_stride, col_stride, buffer);
}

void TileEval::forget_overwritten(const TileStep& step) {
  for (size_t i = 0; i < std::min(kRemembered, plan_.load_values.size()); ++i)
    if (pointers_[step.result] == slot(plan_.load_values[i])) loaded_[i].data = nullptr;
}

void TileEval::run(const std::vector<TileStep>& steps, int64_t count) {
  auto at = [&](uint16_t v) -> const void* { return v == kNoValue ? nullptr : pointers_[v]; };
  for (const TileStep& s : steps) {
    forget_overwritten(s);
    if (s.fn)
      s.fn(at(s.operands[0]), at(s.operands[1]), at(s.operands[2]), pointers_[s.result], static_cast<size_t>(count));
    else s.cast(at(s.operands[0]), pointers_[s.result], static_cast<size_t>(count));
  }
}

void TileEval::run_prologue() {
  if (!by_rows_) return run(plan_.prologue, count_);
  const TileStep& s = plan_.prologue[0];
  forget_overwritten(s);
  const char* in[3] = {};
  int64_t in_bytes[3] = {};
  for (int k = 0; k < 3; ++k) {
    uint16_t v = s.operands[k];
    if (v == kNoValue) continue;
    const Program::ValueInfo& value = program_.program().values()[v];
    in[k] = pointers_[v];
    in_bytes[k] = value.source == Program::Source::Load ? row_bytes_[value.index] : 0;
  }
  char* out = pointers_[s.result];
  auto out_bytes = cols_ * static_cast<int64_t>(ctype_size(plan_.types[s.result]));
  auto cols = static_cast<size_t>(cols_);
  if (s.fn_rows)
    return s.fn_rows({in[0], in_bytes[0]}, {in[1], in_bytes[1], one_element_rows_}, out, static_cast<size_t>(rows_),
                     cols);
  for (int64_t r = 0; r < rows_; ++r) {
    s.fn(in[0], in[1], in[2], out, cols);
    for (int k = 0; k < 3; ++k)
      if (in[k]) in[k] += in_bytes[k];
    out += out_bytes;
  }
}

void TileEval::bind_reduced(size_t k, const void* data) {
  const auto& values = program_.program().values();
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].source == Program::Source::Reduced && values[v].index == k)
      pointers_[v] = const_cast<char*>(static_cast<const char*>(data));
}

void TileEval::run_epilogue(int64_t count) { run(plan_.epilogue, count); }

void TileEval::store(uint16_t id, ScalarType dtype, void* data, int64_t rows, int64_t cols, int64_t row_stride,
                     int64_t col_stride, bool stream) {
  CType type = plan_.types[id];
  const char* source = pointers_[id];
  bool contiguous = (col_stride == 1 || cols == 1) && (rows == 1 || row_stride == cols);
  bool natural = compute_type(dtype) == type;
  auto count = static_cast<size_t>(rows * cols);
  if (natural && !contiguous) return store_block(source, dtype, rows, cols, row_stride, col_stride, data);
  ConvertFn convert = natural ? store_fn(dtype) : cast_store_fn(type, dtype);
  size_t width = elementSize(dtype);
  if (!convert) {
    if (stream) detail::stream_bytes(data, source, static_cast<int64_t>(count * width));
    else if (source != data) std::memcpy(data, source, count * width);
    return;
  }
  if (contiguous && stream) return convert_streamed(convert, source, ctype_size(type), data, width, count);
  if (contiguous) return convert(source, data, count);
  // Converted row by row through a small buffer, then scattered.
  char room[512 * 16];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += 512) {
      int64_t n = std::min<int64_t>(512, cols - c);
      convert(source + static_cast<size_t>(r * cols + c) * ctype_size(type), room, static_cast<size_t>(n));
      char* target = static_cast<char*>(data) + (r * row_stride + c * col_stride) * static_cast<int64_t>(width);
      for (int64_t k = 0; k < n; ++k)
        std::memcpy(target + k * col_stride * static_cast<int64_t>(width), room + static_cast<size_t>(k) * width,
                    width);
    }
}

}  // namespace facula
