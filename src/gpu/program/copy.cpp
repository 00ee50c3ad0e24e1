#include "gpu/program/copy.h"

#include "gpu/program/layout.h"
#include "gpu/program/program.h"
#include "gpu/program/render.h"
#include "program/compute_type.h"

#include <facula/core/error.h>

#include <atomic>
#include <bit>
#include <cstring>

namespace facula::gpu {
namespace {

constexpr int kThreads = 256;

// Programs and kernels that were made stay: the tables are read without a lock, and the loser of a race throws its copy away.
template <class T, class Make>
const T& kept(std::atomic<const T*>& slot, Make make) {
  const T* found = slot.load(std::memory_order_acquire);
  if (found) [[likely]]
    return *found;
  const T* made = make();
  if (slot.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *found;
}

size_t index_of(ScalarType t) { return static_cast<size_t>(t); }

// An integer dtype (for 16 bytes a pair of doubles) whose loads and stores leave bits alone.
ScalarType raw_dtype(size_t bytes) {
  switch (bytes) {
    case 1: return kChar;
    case 2: return kShort;
    case 4: return kInt;
    case 8: return kLong;
    default: return kComplexDouble;
  }
}

const Program& raw_copy_program(size_t bytes) {
  static auto* programs = [] {
    auto* p = new Program[5];
    for (size_t k = 0; k < 5; ++k) p[k].store(p[k].load(raw_dtype(size_t{1} << k)), raw_dtype(size_t{1} << k));
    return p;
  }();
  return programs[std::countr_zero(bytes)];
}

const GpuProgram& conversion(ScalarType to, ScalarType from) {
  static auto* table = new std::atomic<const GpuProgram*>[kNumScalarTypes][kNumScalarTypes]();
  return kept(table[index_of(to)][index_of(from)], [&] {
    Program p;
    p.store(p.load(from), to);
    return new GpuProgram(p);
  });
}

const GpuProgram& filling(ScalarType dtype) {
  static auto* table = new std::atomic<const GpuProgram*>[kNumScalarTypes]();
  return kept(table[index_of(dtype)], [&] {
    Program p;
    p.store(p.param(compute_type(dtype)), dtype);
    return new GpuProgram(p);
  });
}

// Whether the innermost dim is one piece of 2, 4, 8 or 16 bytes in both arrays: then it moves as one element, and a transposition of
// what is around it is seen as one.
bool inner_is_one_element(const Space& s) {
  const size_t bytes = static_cast<size_t>(s.sizes[0]) * s.widths[0];
  if (s.dims < 2 || s.sizes[0] > 16 || bytes > 16 || !std::has_single_bit(bytes)) return false;
  for (size_t a = 0; a < s.arrays; ++a) {
    if (s.strides[a][0] != 1 || reinterpret_cast<uintptr_t>(s.data[a]) % bytes != 0) return false;
    for (size_t d = 1; d < s.dims; ++d)
      if (s.strides[a][d] % s.sizes[0] != 0) return false;
  }
  return true;
}

void copy_bits(const Space& s, const Work& work) {
  size_t bytes = s.widths[0], first = 0;
  int64_t unit = 1;
  if (inner_is_one_element(s)) {
    unit = s.sizes[0];
    bytes *= static_cast<size_t>(unit);
    first = 1;
  }
  int64_t strides[2][kMaxDims];
  for (size_t a = 0; a < 2; ++a)
    for (size_t d = first; d < s.dims; ++d) strides[a][d] = d == 0 ? s.strides[a][0] : s.strides[a][d] / unit;
  const ArrayArg load{s.data[0], strides[0] + first}, store{s.data[1], strides[1] + first};
  const ScalarType raw = raw_dtype(bytes);
  conversion(raw, raw).run({s.sizes + first, s.dims - first}, {&load, 1}, {}, {&store, 1}, work);
}

// ---- sequences ---------------------------------------------------------------------------------------------------------------------

// The kernel for packs of 2^vector elements.
const Kernel& sequence_kernel(const char* kind, std::atomic<const Kernel*>& slot, ScalarType dtype, int vector) {
  return kept(slot, [&] {
    const bool affine = std::strcmp(kind, "affine") == 0;
    const std::string name = str(kind, "_", dtype_name(dtype));
    return new Kernel(
        name, str("#include \"gpu/kernels/sequence.h\"\nextern \"C\" __global__ void __launch_bounds__(", kThreads,
                  ") ", name, "(const facula::", affine ? "AffineArgs" : "IntegerArgs", " args) {\n  facula::", kind,
                  "<facula::DType::", toString(dtype), ", ", 1 << vector, ">(args);\n}\n"));
  });
}

using SequenceTable = std::atomic<const Kernel*>[kNumScalarTypes][5];

void run_sequence(const char* kind, SequenceTable& table, void* data, ScalarType dtype, int64_t count,
                  KernelArguments& args, const Work& work) {
  const int width = std::countr_zero(elementSize(dtype));
  const int vector = std::max(0, std::min<int>(4 - width, std::countr_zero(reinterpret_cast<uintptr_t>(data)) - width));
  const Kernel& kernel = sequence_kernel(kind, table[index_of(dtype)][vector], dtype, vector);
  const int64_t each = int64_t{kThreads} << vector, blocks = (count + each - 1) / each;
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work.op, ": ", count,
               " elements are more than one launch takes; make the tensor in parts");
  launch(kernel, {static_cast<uint32_t>(blocks)}, {kThreads}, 0, args.pointers(), work);
}

}  // namespace

void copy_strided(void* to, const int64_t* to_strides, ScalarType to_dtype, const void* from,
                  const int64_t* from_strides, ScalarType from_dtype, IntArrayRef sizes, const Work& work) {
  const ArrayArg load{const_cast<void*>(from), from_strides}, store{to, to_strides};
  if (to_dtype != from_dtype) return conversion(to_dtype, from_dtype).run(sizes, {&load, 1}, {}, {&store, 1}, work);
  Space space;
  build_space(space, raw_copy_program(elementSize(to_dtype)), sizes, {&load, 1}, {&store, 1});
  if (space.count == 0) return;
  const bool one_piece =
      space.dims == 1 && (space.sizes[0] == 1 || (space.strides[0][0] == 1 && space.strides[1][0] == 1));
  if (!one_piece) return copy_bits(space, work);
  if (to != from) copy_on_device(to, from, static_cast<size_t>(space.count) * space.widths[0], work);
}

void fill_strided(void* to, const int64_t* strides, ScalarType dtype, IntArrayRef sizes, const void* element,
                  const Work& work) {
  const size_t bytes = elementSize(dtype);
  const ScalarType raw = raw_dtype(bytes);
  // What memory holds is what the compute type of such a dtype holds, but for the two that are shorter.
  ParamValue value{};
  if (bytes == 1) {
    int8_t small;
    std::memcpy(&small, element, 1);
    value.i32 = small;
  } else if (bytes == 2) {
    int16_t small;
    std::memcpy(&small, element, 2);
    value.i32 = small;
  } else {
    std::memcpy(&value, element, bytes);
  }
  const ArrayArg store{to, strides};
  const char* pattern = static_cast<const char*>(element);
  bool repeats = true;
  for (size_t k = 1; k < bytes; ++k) repeats &= pattern[k] == pattern[0];
  if (repeats) {
    // One byte, again and again: the driver fills memory that lies in one piece.
    Program shape;
    shape.store(shape.param(compute_type(raw)), raw);
    Space space;
    build_space(space, shape, sizes, {}, {&store, 1});
    if (space.count == 0) return;
    if (space.dims == 1 && (space.strides[0][0] == 1 || space.sizes[0] == 1))
      return fill_bytes(to, static_cast<uint8_t>(pattern[0]), static_cast<size_t>(space.count) * bytes, work);
  }
  filling(raw).run(sizes, {}, {&value, 1}, {&store, 1}, work);
}

void fill_affine(void* data, ScalarType dtype, int64_t count, double base, double step, int64_t anchor,
                 const Work& work) {
  if (count == 0) return;
  static auto* table = new SequenceTable[1]();
  KernelArguments args;
  args.put(data);
  args.put(count);
  args.put(anchor);
  args.put(base);
  args.put(step);
  run_sequence("affine", table[0], data, dtype, count, args, work);
}

void fill_integers(void* data, ScalarType dtype, int64_t count, int64_t start, int64_t step, const Work& work) {
  if (count == 0) return;
  static auto* table = new SequenceTable[1]();
  KernelArguments args;
  args.put(data);
  args.put(count);
  args.put(start);
  args.put(step);
  run_sequence("integers", table[0], data, dtype, count, args, work);
}

}  // namespace facula::gpu
