// Evaluates a program's instructions on one tile: a block of rows x columns of the iteration space. Who walks the tiles
// decides the blocks (executor.cpp for pointwise programs, executor_reduce.cpp for reductions).
#pragma once

#include "cpu/convert.h"
#include "cpu/executor.h"
#include "cpu/simd/tile_ops.h"

#include <cstdint>
#include <vector>

namespace facula {

inline constexpr uint16_t kNoValue = UINT16_MAX;

// Buffers of one tile together stay within the first-level cache, with room for operands that are used in place.
inline constexpr size_t kTileBudget = 24 << 10;

struct TileStep {
  cpu::TileFn fn = nullptr;
  ConvertFn cast = nullptr;           // set instead of fn for a cast
  cpu::TileRowsFn fn_rows = nullptr;  // for operands whose rows lie apart or repeat, where there is such a function
  uint16_t operands[3] = {kNoValue, kNoValue, kNoValue};
  uint16_t result = kNoValue;
};

// What is known of a program before any data is: functions, buffers and tile size.
struct TilePlan {
  explicit TilePlan(const Program& program);

  // Of a program of one operation: whether it takes the rows of an operand where they lie, and whether it takes load `value` as one element
  // a row. Strides are in elements.
  bool takes_rows(int64_t row_stride, int64_t col_stride) const {
    // Without a function for rows, one that repeats is better laid out once for many tiles.
    return col_stride == 1 && (row_stride != 0 || prologue[0].fn_rows);
  }
  bool takes_one_element(uint16_t value, int64_t col_stride) const {
    const TileStep& step = prologue[0];
    return col_stride == 0 && step.fn_rows && step.operands[1] == value && step.operands[0] != value;
  }

  std::vector<TileStep> prologue, epilogue;
  std::vector<uint16_t> load_values, param_values;  // value ids
  std::vector<CType> types;                         // by value id
  std::vector<uint16_t> slots;                      // buffer of each value; loads use theirs only when not in place
  size_t slot_count = 0;
  size_t slot_bytes = 0;  // one buffer: tile_elements of the widest type
  int64_t tile_elements = 0;
  int64_t grain = 0;               // elements worth handing to a thread
  bool waits_for_memory = false;   // for longer than the formula takes, where arrays are large
  bool single = false;             // one operation, every array in its compute type: no buffers needed
  cpu::TileFn whole = nullptr;     // one operation that takes contiguous arrays as memory has them
  cpu::TileFn streamed = nullptr;  // the same with a result that goes past the cache, where there is such a function
};

// The evaluator of one thread. Its buffers come from memory that the thread keeps.
class TileEval {
 public:
  // `elements` bounds the tiles of this run: constants are laid out only that far.
  TileEval(const CpuProgram& program, const ParamValue* params, int64_t elements);
  ~TileEval();
  TileEval(const TileEval&) = delete;
  TileEval& operator=(const TileEval&) = delete;

  // Starts a tile of rows x cols elements, at most tile_elements unless all operands and the result are taken where they lie.
  void begin(int64_t rows, int64_t cols);
  // Gives load i for this tile; strides in elements. Used in place when contiguous and in the compute type, else copied.
  void bind_load(size_t i, const void* data, int64_t row_stride, int64_t col_stride);
  // Makes the step that computes `value` write to `memory` (in the value's type) instead of a buffer.
  void redirect(uint16_t value, void* memory) { pointers_[value] = static_cast<char*>(memory); }
  void* buffer_of(uint16_t value) const { return slot(value); }
  // Forgets redirections of instruction results.
  void reset_results();
  void run_prologue();

  // For reductions: gives the k-th reduced value (k is 0 or 1) as an array, then runs the epilogue over `count` outputs.
  void bind_reduced(size_t k, const void* data);
  void run_epilogue(int64_t count);

  const void* value(uint16_t id) const { return pointers_[id]; }
  // Writes value `id` of this tile to memory of `dtype`, rounding once. `stream`: past the cache where the memory is contiguous; the caller ends
  // the stream.
  void store(uint16_t id, ScalarType dtype, void* data, int64_t rows, int64_t cols, int64_t row_stride,
             int64_t col_stride, bool stream = false);

 private:
  void run(const std::vector<TileStep>& steps, int64_t count);
  // A result that takes over the buffer of a load ends what that buffer held.
  void forget_overwritten(const TileStep& step);
  char* slot(uint16_t id) const { return buffer_ + plan_.slots[id] * plan_.slot_bytes; }

  // What a load's buffer holds, so that a block which is the same for many tiles (a broadcast row) is loaded once.
  struct Loaded {
    const void* data = nullptr;
    int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;
  };
  static constexpr size_t kRemembered = 4;

  const CpuProgram& program_;
  const TilePlan& plan_;
  Loaded loaded_[kRemembered];
  // One-op programs take operands whose rows lie apart or repeat where they are, and run row by row.
  bool by_rows_ = false, one_element_rows_ = false;
  int64_t row_bytes_[kRemembered] = {};  // from one row of load i to the next
  int64_t rows_ = 0, cols_ = 0, count_ = 0;
  char* buffer_ = nullptr;
  char* pointer_room_[24];
  char** pointers_ = pointer_room_;
  std::vector<char*> many_pointers_;
  bool owns_scratch_ = false;
};

}  // namespace facula
