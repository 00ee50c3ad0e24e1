// Pointwise programs on a GPU: which kernel a layout needs, its text, its arguments, its launch.
#include "gpu/program/layout.h"
#include "gpu/program/program_state.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>

namespace facula::gpu {
namespace {

// As in kernels/layout.h.
enum class Access : uint8_t { Next, Constant, Apart, Turned };

constexpr int kThreads = 128;
constexpr int kTileThreads = 512;
constexpr int kFewThreads = 64;
constexpr int64_t kManyBlocks = 256;         // enough for every multiprocessor to have some
constexpr size_t kMostDims = 12;             // further ones are walked by the host
constexpr uint32_t kSharedLimit = 48 << 10;  // what a block gets without asking

// The elements that one thread computes in code that is written out: few for long formulas, whose text would take long to compile
// and whose time goes into arithmetic anyway.
int unrolled_elements(int64_t cost) { return cost <= 9 ? 16 : cost <= 40 ? 8 : cost <= 150 ? 4 : 1; }

// log2 of the elements of a pack at best.
int widest_vector(const ProgramState& s) {
  return std::min<int>(s.full_vector, std::bit_width(static_cast<unsigned>(unrolled_elements(s.cost))) - 1);
}

// Packs that a thread has in flight: enough bytes for the memory's latency, few enough for the registers. 16 bytes a thread are
// enough; more threads with one pack each move more than fewer with several.
int unroll_of(const ProgramState& s, int vector) {
  int64_t bytes = 0;
  for (size_t a = 0; a < s.program.loads().size(); ++a) bytes += int64_t{1} << (s.widths[a] + vector);
  if (bytes >= 16) return 1;
  return std::max(1, std::min(8, unrolled_elements(s.cost) >> vector));
}

Access access_at(uint64_t packed, size_t a) { return static_cast<Access>(packed >> (2 * a) & 3); }
uint64_t packed_access(Access access, size_t a) { return static_cast<uint64_t>(access) << (2 * a); }

std::string access_list(uint64_t packed, size_t arrays) {
  constexpr const char* kNames[] = {"Next", "Constant", "Apart", "Turned"};
  std::string out;
  for (size_t a = 0; a < arrays; ++a)
    out += str(a > 0 ? ", " : "", "Access::", kNames[static_cast<size_t>(access_at(packed, a))]);
  return out;
}

// A tile of kernels/transpose.h: lines of at least 128 bytes both ways.
struct Tile {
  int rows, columns;
  bool swizzled;
  uint32_t shared_bytes;
};
Tile tile_of(const ProgramState& s, const PointwiseKey& key) {
  const int pack = 1 << s.full_vector, widest = 16 / pack;
  Tile t;
  t.rows = 8 * pack * (widest < 4 ? 1 : 2);
  t.columns = 64;
  for (size_t a = 0; a < s.program.loads().size(); ++a)
    if (access_at(key.access, a) == Access::Turned) t.columns = std::max(t.columns, 128 >> s.widths[a]);
  t.swizzled = key.vector == s.full_vector;
  t.shared_bytes = 0;
  for (size_t a = 0; a < s.program.loads().size(); ++a) {
    if (access_at(key.access, a) != Access::Turned) continue;
    const int bytes = 1 << s.widths[a], row = t.columns * bytes + (t.swizzled ? 0 : std::max(4, bytes));
    t.shared_bytes += static_cast<uint32_t>((t.rows * row + 15) / 16 * 16);
  }
  return t;
}

PointwiseKernel* make_kernel(const ProgramState& s, const PointwiseKey& key) {
  const size_t arrays = s.program.loads().size() + s.program.stores().size();
  const std::string name = kernel_name(key.turned ? "transpose" : "pointwise", s.program);
  const int unroll = unroll_of(s, key.vector), threads = key.turned ? kTileThreads : kThreads;
  Tile tile{};
  std::string layout;
  if (key.turned) {
    tile = tile_of(s, key);
    layout = str("  static constexpr int kDims = ", int{key.dims}, ", kVector = ", 1 << key.vector,
                 ", kTurnedVector = ", 1 << key.turned_vector, ", kRows = ", tile.rows, ", kColumns = ", tile.columns,
                 ", kThreads = ", threads, ";\n  static constexpr bool kSwizzled = ", tile.swizzled ? "true" : "false",
                 ";\n");
  } else {
    layout = str("  static constexpr int kDims = ", int{key.dims}, ", kVector = ", 1 << key.vector,
                 ", kUnroll = ", unroll, ";\n");
  }
  const char* args = key.turned ? "TransposeArgs" : "PointwiseArgs";
  const char* function = key.turned ? "transpose" : "pointwise";
  std::string source =
      str(render_defines(s.program), "#include \"gpu/kernels/", function, ".h\"\nnamespace facula {\n", s.text,
          "struct L {\n", layout, "  using Index = ", key.wide ? "int64_t" : "int32_t",
          ";\n  static constexpr Access kAccess[] = {", access_list(key.access, arrays),
          "};\n};\n}  // namespace facula\nextern \"C\" __global__ void __launch_bounds__(", threads, ") ", name,
          "(const facula::", args, "<facula::P, facula::L> args) {\n  facula::", function, "(args);\n}\n");
  return new PointwiseKernel{
      key, Kernel(name, std::move(source)), nullptr, unroll, tile.rows, tile.columns, tile.shared_bytes};
}

[[gnu::cold]] const PointwiseKernel& make_flat(const ProgramState& s, int vector, bool wide) {
  std::lock_guard lock(s.mutex);
  auto& slot = s.flat[vector][wide];
  if (!slot.load(std::memory_order_relaxed)) {
    PointwiseKey key;
    key.vector = static_cast<uint8_t>(vector);
    key.wide = wide;
    slot.store(make_kernel(s, key), std::memory_order_release);
  }
  return *slot.load(std::memory_order_relaxed);
}

const PointwiseKernel& kernel_of(const ProgramState& s, const PointwiseKey& key) {
  for (const PointwiseKernel* k = s.others.load(std::memory_order_acquire); k; k = k->next)
    if (k->key == key) return *k;
  std::lock_guard lock(s.mutex);
  for (const PointwiseKernel* k = s.others.load(std::memory_order_relaxed); k; k = k->next)
    if (k->key == key) return *k;
  PointwiseKernel* made = make_kernel(s, key);
  made->next = s.others.load(std::memory_order_relaxed);
  s.others.store(made, std::memory_order_release);
  return *made;
}

void put_faults(KernelArguments& args, const ProgramState& s, const Work& work) {
  args.put(s.faults ? fault_buffer(work.device) : nullptr);
  args.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(work.op)));
}

// Small work gets small blocks, so that it reaches many multiprocessors.
int threads_for(int64_t chunks, int unroll) {
  int threads = kThreads;
  while (threads > kFewThreads && chunks < kManyBlocks * threads * unroll) threads /= 2;
  return threads;
}

void launch_chunks(const PointwiseKernel& k, int64_t chunks, KernelArguments& args, const Work& work) {
  const int threads = threads_for(chunks, k.unroll);
  const int64_t each = int64_t{threads} * k.unroll, blocks = std::max<int64_t>(1, (chunks + each - 1) / each);
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work.op, ": ", chunks,
               " chunks are more than one launch takes; split the tensor");
  launch(k.kernel, {static_cast<uint32_t>(blocks)}, {static_cast<uint32_t>(threads)}, 0, args.pointers(), work);
}

// Chunk numbers, and what a last block counts beyond them, must fit.
bool needs_wide(int64_t elements) { return elements > INT32_MAX - (int64_t{kThreads} * 8 * 16 + 1); }

template <class T>
int trailing_zeros(const T* pointer) {
  return std::countr_zero(reinterpret_cast<uintptr_t>(pointer));
}

template <class Index>
void put_index(KernelArguments& args, int64_t value) {
  args.put(static_cast<Index>(value));
}
void put_divider(KernelArguments& args, int64_t divisor, bool wide) {
  if (wide) args.put(divider64(static_cast<uint64_t>(divisor)));
  else args.put(divider32(static_cast<uint32_t>(divisor)));
}
void put_number(KernelArguments& args, int64_t value, bool wide) {
  if (wide) put_index<int64_t>(args, value);
  else put_index<int32_t>(args, value);
}
void put_strides(KernelArguments& args, const Space& space, bool wide) {
  for (size_t a = 0; a < space.arrays; ++a)
    for (size_t d = 0; d < space.dims; ++d) put_number(args, space.strides[a][d], wide);
}

// ---- layouts that are not flat ---------------------------------------------------------------------------------------------------

// Whether packs of 2^vector neighbours along dim `along` start at aligned addresses everywhere.
bool packs_fit(const Space& space, size_t a, size_t along, int vector) {
  const int64_t mask = (int64_t{1} << vector) - 1;
  if (trailing_zeros(space.data[a]) < vector + std::countr_zero(space.widths[a])) return false;
  for (size_t d = 0; d < space.dims; ++d)
    if (d != along && (space.strides[a][d] & mask) != 0) return false;
  return true;
}

struct Choice {
  PointwiseKey key;
  size_t turned_dim = 0;  // which dim turned loads run along
};

Access access_of(int64_t stride) { return stride == 1 ? Access::Next : stride == 0 ? Access::Constant : Access::Apart; }

// The dim along which loads that jump along dim 0 have their neighbours; 0 where tiles would not help.
size_t find_turned_dim(const ProgramState& s, const Space& space) {
  const size_t loads = s.program.loads().size();
  if (space.dims < 2 || s.cost > 40 || space.count < 4096) return 0;
  for (size_t a = loads; a < space.arrays; ++a)
    if (space.strides[a][0] != 1) return 0;
  for (size_t a = 0; a < loads; ++a) {
    if (access_of(space.strides[a][0]) != Access::Apart) continue;
    for (size_t d = 1; d < space.dims; ++d)
      if (space.strides[a][d] == 1) return d;
  }
  return 0;
}

// How much of the tiles' room is used, of 1.
double filled(int64_t size, int64_t tile) {
  const int64_t room = (size + tile - 1) / tile * tile;
  return static_cast<double>(size) / static_cast<double>(room);
}

// Moves the turned dim to place 1 and fills in `key`; false where tiles would be mostly empty.
bool choose_transpose(const ProgramState& s, Space& space, PointwiseKey& key) {
  const size_t dim = find_turned_dim(s, space), loads = s.program.loads().size();
  if (dim == 0) return false;
  key = {};
  key.turned = 1;
  key.vector = static_cast<uint8_t>(s.full_vector);
  for (size_t a = 0; a < space.arrays; ++a) {
    Access access = access_of(space.strides[a][0]);
    if (a < loads && access == Access::Apart && space.strides[a][dim] == 1) {
      key.access |= packed_access(Access::Turned, a);
      if (tile_of(s, key).shared_bytes <= kSharedLimit) continue;
      key.access &= ~packed_access(Access::Turned, a);
    }
    key.access |= packed_access(access, a);
  }
  const Tile tile = tile_of(s, key);
  if (filled(space.sizes[0], tile.rows) * filled(space.sizes[dim], tile.columns) < 0.3) return false;
  space.move_dim(dim, 1);

  int vector = s.full_vector, turned = s.full_vector;
  while ((space.sizes[0] & ((int64_t{1} << vector) - 1)) != 0) --vector;
  while ((space.sizes[1] & ((int64_t{1} << turned) - 1)) != 0) --turned;
  for (size_t a = 0; a < space.arrays; ++a) {
    const Access access = access_at(key.access, a);
    if (access == Access::Next)
      while (vector > 0 && !packs_fit(space, a, 0, vector)) --vector;
    if (access == Access::Turned)
      while (turned > 0 && !packs_fit(space, a, 1, turned)) --turned;
  }
  key.vector = static_cast<uint8_t>(vector);
  key.turned_vector = static_cast<uint8_t>(turned);
  key.dims = static_cast<uint8_t>(space.dims);
  key.wide = needs_wide(std::max(space.reach(), space.count));
  return true;
}

PointwiseKey choose_strided(const ProgramState& s, const Space& space) {
  PointwiseKey key;
  key.dims = static_cast<uint8_t>(space.dims);
  bool apart = false;
  for (size_t a = 0; a < space.arrays; ++a) {
    const Access access = access_of(space.strides[a][0]);
    key.access |= packed_access(access, a);
    apart |= access == Access::Apart;
  }
  // Threads side by side take elements side by side where an array jumps: its lines are then used by one warp.
  int vector = apart ? 0 : widest_vector(s);
  if (space.dims > 1)
    while ((space.sizes[0] & ((int64_t{1} << vector) - 1)) != 0) --vector;
  for (size_t a = 0; a < space.arrays; ++a)
    if (access_at(key.access, a) == Access::Next)
      while (vector > 0 && !packs_fit(space, a, 0, vector)) --vector;
  key.vector = static_cast<uint8_t>(vector);
  key.wide = needs_wide(std::max(space.reach(), space.count));
  return key;
}

void run_transpose(const ProgramState& s, const Space& space, const PointwiseKey& key, const ParamValue* params,
                   const Work& work) {
  const PointwiseKernel& k = kernel_of(s, key);
  KernelArguments args;
  for (size_t a = 0; a < space.arrays; ++a) args.put(space.data[a]);
  put_faults(args, s, work);
  put_number(args, space.sizes[0], key.wide);
  put_number(args, space.sizes[1], key.wide);
  args.align(8);
  const int64_t tiles0 = (space.sizes[0] + k.rows - 1) / k.rows, tiles1 = (space.sizes[1] + k.columns - 1) / k.columns;
  put_divider(args, tiles0, key.wide);
  put_divider(args, tiles1, key.wide);
  int64_t blocks = tiles0 * tiles1;
  for (size_t d = 2; d < space.dims; ++d) {
    if (d + 1 < space.dims) put_divider(args, space.sizes[d], key.wide);
    blocks *= space.sizes[d];
  }
  put_strides(args, space, key.wide);
  args.put_params(s.program, params);
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work.op, ": ", blocks,
               " tiles are more than one launch takes; split the tensor");
  launch(k.kernel, {static_cast<uint32_t>(blocks)}, {kTileThreads}, k.shared_bytes, args.pointers(), work);
}

void run_strided(const ProgramState& s, const Space& space, const PointwiseKey& key, const ParamValue* params,
                 const Work& work) {
  const PointwiseKernel& k = kernel_of(s, key);
  const int64_t chunks = space.count >> key.vector;
  bool has_strides = space.dims > 1;
  for (size_t a = 0; a < space.arrays; ++a) has_strides |= access_at(key.access, a) == Access::Apart;
  KernelArguments args;
  for (size_t a = 0; a < space.arrays; ++a) args.put(space.data[a]);
  put_faults(args, s, work);
  put_number(args, chunks, key.wide);
  args.put(static_cast<int32_t>(space.count - (chunks << key.vector)));
  args.align(8);
  if (has_strides) {
    put_divider(args, space.sizes[0] >> key.vector, key.wide);
    for (size_t d = 1; d + 1 < space.dims; ++d) put_divider(args, space.sizes[d], key.wide);
    put_strides(args, space, key.wide);
  }
  args.put_params(s.program, params);
  launch_chunks(k, chunks, args, work);
}

// Bytes of arguments of the larger kind.
size_t argument_bytes(const ProgramState& s, const Space& space) {
  const size_t index = 8, divider = sizeof(Divider64);
  return space.arrays * 8 + 48 + (space.dims + 1) * divider + space.arrays * space.dims * index +
         params_bytes(s.program);
}

void run_space(const ProgramState& s, Space& space, const ParamValue* params, const Work& work) {
  if (space.dims > kMostDims || argument_bytes(s, space) > KernelArguments::kCapacity) {
    // The slowest dim is walked here.
    FACULA_CHECK(space.dims > 1, NotSupportedError, work.op, ": the program has too many arrays and parameters (",
                 argument_bytes(s, space), " bytes of arguments); split it");
    const size_t last = space.dims - 1;
    for (int64_t at = 0; at < space.sizes[last]; ++at) {
      Space part = space;
      part.fix(last, at);
      run_space(s, part, params, work);
    }
    return;
  }
  PointwiseKey key;
  if (choose_transpose(s, space, key)) return run_transpose(s, space, key, params, work);
  run_strided(s, space, choose_strided(s, space), params, work);
}

bool is_flat(const Space& space) {
  if (space.dims != 1) return false;
  for (size_t a = 0; a < space.arrays; ++a)
    if (space.strides[a][0] != 1 && space.sizes[0] != 1) return false;
  return true;
}

void run_flat(const ProgramState& s, int64_t count, void* const* arrays, size_t array_count, const ParamValue* params,
              const Work& work) {
  int vector = widest_vector(s);
  for (size_t a = 0; a < array_count; ++a) vector = std::min(vector, trailing_zeros(arrays[a]) - s.widths[a]);
  vector = std::max(vector, 0);
  const bool wide = needs_wide(count);
  const PointwiseKernel* k = s.flat[vector][wide].load(std::memory_order_acquire);
  if (!k) [[unlikely]]
    k = &make_flat(s, vector, wide);
  const int64_t chunks = count >> vector;
  KernelArguments args;
  for (size_t a = 0; a < array_count; ++a) args.put(arrays[a]);
  put_faults(args, s, work);
  put_number(args, chunks, wide);
  args.put(static_cast<int32_t>(count - (chunks << vector)));
  args.put_params(s.program, params);
  launch_chunks(*k, chunks, args, work);
}

}  // namespace

void GpuProgram::run_contiguous(int64_t count, const void* const* loads, const ParamValue* params, void* const* stores,
                                const Work& work) const {
  if (count == 0) return;
  const ProgramState& s = *state_;
  void* arrays[kMaxArrays];
  const size_t load_count = s.program.loads().size(), store_count = s.program.stores().size();
  for (size_t k = 0; k < load_count; ++k) arrays[k] = const_cast<void*>(loads[k]);
  for (size_t k = 0; k < store_count; ++k) arrays[load_count + k] = stores[k];
  run_flat(s, count, arrays, load_count + store_count, params, work);
}

void GpuProgram::run(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
                     std::span<const ArrayArg> stores, const Work& work) const {
  const ProgramState& s = *state_;
  Space space;
  build_space(space, s.program, sizes, loads, stores);
  if (space.count == 0) return;
  if (is_flat(space)) return run_flat(s, space.count, space.data, space.arrays, params.data(), work);
  run_space(s, space, params.data(), work);
}

}  // namespace facula::gpu
