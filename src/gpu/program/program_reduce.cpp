// Programs with a reduction on a GPU: which kernel a layout needs, its text, its arguments, its launches. The kernels are in
// kernels/reduce.h, what they remember in kernels/reduce_states.h.
//
// An output is reduced by a team of threads, or by a column of a block; where outputs are few and long, by several blocks that leave
// states in memory, which a second kernel merges. How the work is cut follows from sizes and strides alone, never from the chip: the
// tree of a result is the same on every machine and in every run.
#include "core/ceil_div.h"
#include "gpu/memory/allocator.h"
#include "gpu/program/layout.h"
#include "gpu/program/program_state.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>

namespace facula::gpu {

namespace {

// As in kernels/layout.h.
enum class Access : uint8_t { Next, Constant, Apart };

enum class Kind : uint8_t { Rows, Columns, Merge };

constexpr int kThreads = 256;
constexpr int kMostThreads = 512;
constexpr int64_t kEnoughBlocks = 512;  // for any chip's memory
constexpr int64_t kManyBlocks = 4096;   // where outputs are cut, into about so many pieces
constexpr int64_t kShortLoop = 4;       // rounds of a block that are not worth a second launch
constexpr int64_t kLongLoop = 64;       // rounds of a block after which rounding errors would grow
constexpr int64_t kMostDims = 8;        // kept dims; further ones are walked by the host

struct ReduceKey {
  uint64_t access = 0;       // two bits for each load
  uint32_t next_stores = 0;  // one bit for each store: packs may be written
  Kind kind = Kind::Rows;
  uint8_t kept = 1, reduced = 1;
  uint8_t vector = 0, unroll = 0;  // log2
  bool edges = false, partial = false, wide = false;
  bool operator==(const ReduceKey&) const = default;
};

struct ReduceKernel {
  ReduceKey key;
  Kernel kernel;
  ReduceKernel* next;
};

}  // namespace

// A list that only grows; readers need no lock.
struct ReduceKernels {
  std::atomic<ReduceKernel*> first = nullptr;
  ~ReduceKernels() {
    for (ReduceKernel* k = first.load(); k;) {
      ReduceKernel* next = k->next;
      delete k;
      k = next;
    }
  }
};

namespace {

// The kept or the reduced dims, from the innermost, sizes of 1 dropped and neighbours merged, with the strides of all arrays that are
// indexed by them: loads and stores, or loads and positions.
struct Dims {
  size_t count = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxArrays + 1][kMaxDims];

  int64_t numel() const {
    int64_t n = 1;
    for (size_t d = 0; d < count; ++d) n *= sizes[d];
    return n;
  }
  int64_t reach(size_t a) const {
    int64_t sum = 0;
    for (size_t d = 0; d < count; ++d) sum += (sizes[d] - 1) * std::abs(strides[a][d]);
    return sum;
  }
  void make_single(int64_t size, size_t arrays) {
    count = 1;
    sizes[0] = size;
    for (size_t a = 0; a < arrays; ++a) strides[a][0] = 0;
  }
};

// How far neighbours along a dim are from each other: in the first load that moves along it.
int64_t distance_along(const int64_t* const* strides, size_t loads, size_t d) {
  for (size_t a = 0; a < loads; ++a)
    if (strides[a][d] != 0) return std::abs(strides[a][d]);
  return INT64_MAX;
}

void build_dims(Dims& dims, IntArrayRef sizes, uint64_t mask, const int64_t* const* strides, size_t loads,
                size_t arrays) {
  size_t order[kMaxDims], n = 0;
  int64_t distances[kMaxDims];
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1 || (mask >> d & 1) == 0) continue;
    const int64_t distance = distance_along(strides, loads, d);
    size_t place = n++;
    for (; place > 0 && distances[place - 1] > distance; --place) {
      order[place] = order[place - 1];
      distances[place] = distances[place - 1];
    }
    order[place] = d;
    distances[place] = distance;
  }
  dims.count = 0;
  for (size_t k = 0; k < n; ++k) {
    const size_t d = order[k];
    bool merge = dims.count > 0;
    for (size_t a = 0; merge && a < arrays; ++a)
      merge = strides[a][d] == dims.strides[a][dims.count - 1] * dims.sizes[dims.count - 1];
    if (merge) {
      dims.sizes[dims.count - 1] *= sizes[d];
      continue;
    }
    dims.sizes[dims.count] = sizes[d];
    for (size_t a = 0; a < arrays; ++a) dims.strides[a][dims.count] = strides[a][d];
    ++dims.count;
  }
  if (dims.count == 0) dims.make_single(1, arrays);
}

bool is_ordered(ReduceOp op) {
  return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin || op == ReduceOp::MaxWithIndex ||
         op == ReduceOp::MinWithIndex;
}

// sizeof the state in kernels/reduce_states.h.
int64_t state_bytes(ReduceOp op, CType type, bool wide) {
  const auto value = static_cast<int64_t>(size_of(type));
  if (op == ReduceOp::Moments) return 24;
  if (op == ReduceOp::LogSumExp) return 2 * value;
  if (!is_ordered(op)) return value;
  const int64_t index = wide ? 8 : 4;
  return 2 * std::max(value, index);
}

Access access_of(int64_t stride) { return stride == 1 ? Access::Next : stride == 0 ? Access::Constant : Access::Apart; }
Access access_at(uint64_t packed, size_t a) { return static_cast<Access>(packed >> (2 * a) & 3); }

int trailing_zeros(const void* pointer) { return std::countr_zero(reinterpret_cast<uintptr_t>(pointer)); }

int64_t floor_power(int64_t n) { return n < 1 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n))); }
int64_t ceil_power(int64_t n) { return n < 1 ? 1 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }
int log2_of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

// The arrays and dims of one run, and what was decided about it.
class Reduction {
 public:
  Reduction(const ProgramState& s, const ParamValue* params, const Work& work) : s_(s), params_(params), work_(work) {}
  bool build(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads, std::span<const ArrayArg> stores);
  void run();

 private:
  void walk_last_kept();
  void choose_rows();
  void choose_columns();
  void cut(int64_t round);
  void find_access(const Dims& along);
  int most_elements() const;
  int unroll_for(int vector) const;
  int widest() const;
  bool fits(const Dims& along, const Dims& across, size_t a, int vector) const;
  bool loads_fit(const Dims& along, const Dims& across, int vector) const;
  bool residues_agree(int vector) const;
  size_t first_neighbours() const;
  void choose_width();
  int64_t largest_number() const;
  size_t argument_bytes() const;
  void put_arguments(KernelArguments& args, const ReduceKey& key, void* states, int64_t steps, int64_t chunk,
                     int width_shift) const;
  void launch_kernel(const ReduceKey& key, void* states, int64_t steps, int64_t chunk, int64_t blocks, int64_t splits,
                     int threads, int width_shift) const;

  size_t loads() const { return s_.program.loads().size(); }
  size_t stores() const { return s_.program.stores().size(); }

  const ProgramState& s_;
  const ParamValue* params_;
  const Work& work_;
  void* data_[kMaxArrays];
  Dims kept_, reduced_;
  int64_t outputs_ = 0, elements_ = 0;  // elements of an output

  ReduceKey key_;
  int64_t steps_ = 0;  // packs or elements of an output
  int64_t chunk_ = 0, splits_ = 1;
  int64_t blocks_ = 1;  // over outputs
  int threads_ = kThreads;
  int width_shift_ = 0;
};

// False where there is nothing to write.
bool Reduction::build(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> load_args,
                      std::span<const ArrayArg> store_args) {
  const size_t n = load_args.size(), arrays = n + store_args.size();
  const int64_t* strides[kMaxArrays + 1];
  for (size_t a = 0; a < n; ++a) {
    strides[a] = load_args[a].strides;
    data_[a] = load_args[a].data;
  }
  for (size_t k = 0; k < store_args.size(); ++k) {
    strides[n + k] = store_args[k].strides;
    data_[n + k] = store_args[k].data;
  }
  outputs_ = elements_ = 1;
  int64_t positions[kMaxDims];  // count the reduced dims in the caller's order
  for (size_t d = sizes.size(); d-- > 0;) {
    positions[d] = elements_;
    ((reduced >> d & 1) != 0 ? elements_ : outputs_) *= sizes[d];
  }
  if (outputs_ == 0) return false;
  build_dims(kept_, sizes, ~reduced, strides, n, arrays);
  if (elements_ == 0) {
    reduced_.make_single(0, n + 1);
    return true;
  }
  const bool ordered = is_ordered(s_.program.reduction());
  strides[n] = positions;
  build_dims(reduced_, sizes, reduced, strides, n, ordered ? n + 1 : n);
  if (!ordered) std::fill_n(reduced_.strides[n], reduced_.count, int64_t{0});
  return true;
}

// Elements that a thread loads before it uses them: few for long formulas.
int Reduction::most_elements() const { return s_.cost <= 9 ? 32 : s_.cost <= 40 ? 16 : s_.cost <= 150 ? 8 : 2; }

int Reduction::unroll_for(int vector) const {
  int64_t bytes = 0;
  for (size_t a = 0; a < loads(); ++a)
    if (access_at(key_.access, a) != Access::Constant) bytes += int64_t{1} << (s_.widths[a] + vector);
  int unroll = std::clamp(most_elements() >> vector, 1, vector == 0 ? 8 : 4);
  while (unroll > 1 && bytes * unroll > 256) unroll /= 2;
  return unroll;
}

// log2 of the elements of a pack at best: 16 bytes of the narrowest load that has neighbours.
int Reduction::widest() const {
  int vector = 0;
  for (size_t a = 0; a < loads(); ++a)
    if (access_at(key_.access, a) == Access::Next) vector = std::max(vector, 4 - int{s_.widths[a]});
  return std::min(vector, log2_of(most_elements()));
}

void Reduction::find_access(const Dims& along) {
  key_.access = 0;
  for (size_t a = 0; a < loads(); ++a) key_.access |= static_cast<uint64_t>(access_of(along.strides[a][0])) << (2 * a);
}

size_t Reduction::first_neighbours() const {
  size_t a = 0;
  while (a < loads() && access_at(key_.access, a) != Access::Next) ++a;
  return a < loads() ? a : 0;
}

// Whether packs along dim 0 of `along` start at aligned addresses everywhere. Accesses are of 16 bytes at most.
bool Reduction::fits(const Dims& along, const Dims& across, size_t a, int vector) const {
  const int bytes = std::min(4, vector + s_.widths[a]);
  if (trailing_zeros(data_[a]) < bytes) return false;
  const int64_t mask = (int64_t{1} << std::max(0, bytes - s_.widths[a])) - 1;
  for (size_t d = 1; d < along.count; ++d)
    if ((along.strides[a][d] & mask) != 0) return false;
  for (size_t d = 0; a < loads() && d < across.count; ++d)
    if ((across.strides[a][d] & mask) != 0) return false;
  return true;
}

bool Reduction::loads_fit(const Dims& along, const Dims& across, int vector) const {
  if ((along.sizes[0] & ((int64_t{1} << vector) - 1)) != 0) return false;
  for (size_t a = 0; a < loads(); ++a)
    if (access_at(key_.access, a) == Access::Next && !fits(along, across, a, vector)) return false;
  return true;
}

// Whether all loads with neighbours are misaligned alike, in every row.
bool Reduction::residues_agree(int vector) const {
  const int64_t mask = (int64_t{1} << vector) - 1;
  const size_t first = first_neighbours();
  auto residue = [&](size_t a) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data_[a]) >> s_.widths[a]); };
  for (size_t a = first + 1; a < loads(); ++a) {
    if (access_at(key_.access, a) != Access::Next) continue;
    bool agree = ((residue(a) - residue(first)) & mask) == 0;
    for (size_t d = 0; d < kept_.count; ++d) agree &= ((kept_.strides[a][d] - kept_.strides[first][d]) & mask) == 0;
    for (size_t d = 1; d < reduced_.count; ++d)
      agree &= ((reduced_.strides[a][d] - reduced_.strides[first][d]) & mask) == 0;
    if (!agree) return false;
  }
  return true;
}

// How many blocks share an output; a round is what a block takes at a time.
void Reduction::cut(int64_t round) {
  const int64_t rounds = ceil_div(steps_, round);
  int64_t splits = 1;
  if (rounds > kShortLoop) {
    splits = ceil_div(rounds, kLongLoop);
    const bool large = key_.kind == Kind::Columns && s_.program.reduction() == ReduceOp::Moments;
    const int64_t pieces = large ? kManyBlocks / 2 : kManyBlocks;  // of large states fewer wait in memory
    if (blocks_ < kEnoughBlocks) splits = std::max(splits, ceil_div(pieces, blocks_));
    splits = std::clamp<int64_t>(splits, 1, std::min<int64_t>(rounds / 2, 65535));
  }
  chunk_ = std::max<int64_t>(1, ceil_div(rounds, splits)) * round;
  splits_ = std::max<int64_t>(1, ceil_div(steps_, chunk_));
}

void Reduction::choose_rows() {
  key_.kind = Kind::Rows;
  find_access(reduced_);
  int vector = widest();
  const int64_t size = reduced_.sizes[0];
  if (!loads_fit(reduced_, kept_, vector)) {
    // Rows that begin anywhere: packs stay at aligned addresses, and those at the ends go element by element.
    if (size >= int64_t{8} << vector && residues_agree(vector)) key_.edges = true;
    else
      while (vector > 0 && !loads_fit(reduced_, kept_, vector)) --vector;
  }
  const int64_t pack = int64_t{1} << vector;
  const int64_t packs = key_.edges ? (size + 2 * pack - 2) / pack : size >> vector;
  steps_ = size == 0 ? 0 : elements_ / size * packs;
  int64_t unroll = unroll_for(vector);

  // Threads of a team: several rounds each where there are many outputs, fewer the fewer threads there would be in all. Lines of
  // memory should be read whole: at least 8 threads side by side.
  const int64_t most = outputs_ >= 512 ? kThreads : kMostThreads;
  int64_t team = floor_power(steps_ / (4 * unroll));
  if (outputs_ * team < int64_t{1} << 16) team = std::max(team, floor_power(steps_ / unroll));
  if (outputs_ * team < int64_t{1} << 14) team = std::max(team, ceil_power(steps_));
  const bool short_rows = vector == 0 && steps_ <= 16 && outputs_ >= 256;
  team = std::clamp<int64_t>(team, short_rows ? 1 : std::min<int64_t>(8, floor_power(steps_)), most);
  // What is cut anyway is cut finely.
  if (team > kThreads && ceil_div(steps_, team * unroll) > kShortLoop) team = kThreads;
  unroll = std::min(unroll, ceil_power(ceil_div(steps_, team)));

  threads_ = static_cast<int>(std::max<int64_t>(team, outputs_ * team >= kThreads ? kThreads : 64));
  width_shift_ = log2_of(team);
  blocks_ = ceil_div(outputs_, threads_ / team);
  key_.vector = static_cast<uint8_t>(vector);
  key_.unroll = static_cast<uint8_t>(log2_of(unroll));
  cut(team * unroll);
}

void Reduction::choose_columns() {
  key_.kind = Kind::Columns;
  find_access(kept_);
  const ReduceOp op = s_.program.reduction();
  int vector = widest();
  if (op == ReduceOp::Moments) vector = std::min(vector, 1);  // states are large: two of them a thread
  while (vector > 0 && !loads_fit(kept_, reduced_, vector)) --vector;
  steps_ = elements_;
  int64_t unroll = unroll_for(vector);
  if (op == ReduceOp::Moments) unroll = std::min<int64_t>(2 * unroll, 8);  // a longer way to each state
  unroll = std::min(unroll, floor_power(steps_));
  const int64_t packs = outputs_ >> vector;

  // Threads side by side read 512 bytes of a row where it is that long (at most 64 of them: a few rows must be left); the others of
  // a block take other rows.
  const bool small_packs = op == ReduceOp::Moments && vector + *std::min_element(s_.widths, s_.widths + loads()) < 4;
  const int64_t side = small_packs ? 64 : 32;
  int64_t rows = std::clamp<int64_t>(floor_power(steps_ / unroll), 1, kThreads / side);
  int64_t width = kThreads / rows;
  if (packs < width) {
    width = ceil_power(packs);
    rows = std::clamp<int64_t>(floor_power(steps_ / unroll), 1, kThreads / width);
  }
  threads_ = static_cast<int>(std::max<int64_t>(64, width * rows));
  rows = threads_ / width;
  width_shift_ = log2_of(width);
  blocks_ = ceil_div(packs, width);
  key_.vector = static_cast<uint8_t>(vector);
  key_.unroll = static_cast<uint8_t>(log2_of(unroll));
  for (size_t k = 0; k < stores(); ++k)
    if (kept_.strides[loads() + k][0] == 1 && fits(kept_, reduced_, loads() + k, vector)) key_.next_stores |= 1u << k;
  cut(rows * unroll);
}

// The largest number that index arithmetic meets, with room for what a last block counts beyond the end.
int64_t Reduction::largest_number() const {
  int64_t most = std::max({outputs_, elements_, steps_ << key_.vector});
  for (size_t a = 0; a < loads() + stores(); ++a)
    most = std::max(most, kept_.reach(a) + (a < loads() && elements_ > 0 ? reduced_.reach(a) : 0));
  return most + int64_t{kMostThreads} * 8 * 16 * 2;
}

size_t Reduction::argument_bytes() const {
  return (loads() + stores() + 1) * 8 + 16 + 64 + (kept_.count + reduced_.count) * sizeof(Divider64) +
         ((loads() + stores()) * kept_.count + (loads() + 1) * reduced_.count) * 8 + params_bytes(s_.program);
}

const char* function_of(Kind kind) {
  return kind == Kind::Rows ? "reduce_rows" : kind == Kind::Columns ? "reduce_columns" : "reduce_merge";
}

ReduceKernel* make_kernel(const ProgramState& s, const ReduceKey& key) {
  constexpr const char* kAccessNames[] = {"Next", "Constant", "Apart"};
  std::string access, store_access;
  size_t aligning = s.program.loads().size();
  for (size_t a = s.program.loads().size(); a-- > 0;)
    if (access_at(key.access, a) == Access::Next) aligning = a;
  if (aligning == s.program.loads().size()) aligning = 0;
  for (size_t a = 0; a < s.program.loads().size(); ++a)
    access += str(a > 0 ? ", " : "", "Access::", kAccessNames[static_cast<size_t>(access_at(key.access, a))]);
  for (size_t k = 0; k < s.program.stores().size(); ++k)
    store_access += str(k > 0 ? ", " : "", "Access::", (key.next_stores >> k & 1) != 0 ? "Next" : "Apart");
  auto truth = [](bool b) { return b ? "true" : "false"; };
  const char* function = function_of(key.kind);
  const std::string name = kernel_name(function, s.program);
  std::string source =
      str("#include \"gpu/kernels/reduce.h\"\nnamespace facula {\n", s.text,
          "struct L {\n  static constexpr int kKept = ", int{key.kept}, ", kReduced = ", int{key.reduced},
          ", kVector = ", 1 << key.vector, ", kUnroll = ", 1 << key.unroll, ", kAligning = ", aligning,
          ";\n  static constexpr bool kEdges = ", truth(key.edges), ", kPartial = ", truth(key.partial),
          ";\n  using Index = ", key.wide ? "int64_t" : "int32_t", ";\n  static constexpr Access kAccess[] = {", access,
          "};\n  static constexpr Access kStoreAccess[] = {", store_access,
          "};\n};\n}  // namespace facula\nextern \"C\" __global__ void __launch_bounds__(", kMostThreads, ") ", name,
          "(const facula::ReduceArgs<facula::P, facula::L> args) {\n  facula::", function, "(args);\n}\n");
  return new ReduceKernel{key, Kernel(name, std::move(source)), nullptr};
}

const ReduceKernel* find_kernel(const ReduceKernels& kernels, const ReduceKey& key) {
  for (const ReduceKernel* k = kernels.first.load(std::memory_order_acquire); k; k = k->next)
    if (k->key == key) return k;
  return nullptr;
}

const Kernel& kernel_of(const ProgramState& s, const ReduceKey& key) {
  ReduceKernels* kernels = s.reduce.load(std::memory_order_acquire);
  if (kernels) [[likely]]
    if (const ReduceKernel* found = find_kernel(*kernels, key)) [[likely]]
      return found->kernel;
  std::lock_guard lock(s.mutex);
  kernels = s.reduce.load(std::memory_order_relaxed);
  if (!kernels) {
    s.reduce_owner = std::make_shared<ReduceKernels>();
    kernels = s.reduce_owner.get();
    s.reduce.store(kernels, std::memory_order_release);
  }
  if (const ReduceKernel* found = find_kernel(*kernels, key)) return found->kernel;
  ReduceKernel* made = make_kernel(s, key);
  made->next = kernels->first.load(std::memory_order_relaxed);
  kernels->first.store(made, std::memory_order_release);
  return made->kernel;
}

// In the order of ReduceArgs.
void Reduction::put_arguments(KernelArguments& args, const ReduceKey& key, void* states, int64_t steps, int64_t chunk,
                              int width_shift) const {
  auto number = [&](int64_t value) {
    if (key.wide) args.put(value);
    else args.put(static_cast<int32_t>(value));
  };
  auto divider = [&](int64_t divisor) {
    divisor = std::max<int64_t>(divisor, 1);
    if (key.wide) args.put(divider64(static_cast<uint64_t>(divisor)));
    else args.put(divider32(static_cast<uint32_t>(divisor)));
  };
  // The last dim needs no division; one place is there in any case.
  auto dividers = [&](const Dims& dims, int64_t first) {
    for (size_t d = 0; d < std::max<size_t>(dims.count - 1, 1); ++d) divider(d == 0 ? first : dims.sizes[d]);
  };
  auto strides = [&](const Dims& dims, size_t arrays) {
    for (size_t a = 0; a < arrays; ++a)
      for (size_t d = 0; d < dims.count; ++d) number(dims.strides[a][d]);
  };
  for (size_t a = 0; a < loads() + stores(); ++a) args.put(data_[a]);
  args.put(states);
  args.put(s_.faults ? fault_buffer(work_.device) : nullptr);
  args.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(work_.op)));
  number(outputs_);
  args.put(static_cast<int32_t>(width_shift));
  args.align(8);
  const int64_t pack = int64_t{1} << key.vector;
  dividers(kept_, key.kind == Kind::Columns ? kept_.sizes[0] >> key.vector : kept_.sizes[0]);
  const int64_t size = reduced_.sizes[0];
  dividers(reduced_, key.kind != Kind::Rows ? size : key.edges ? (size + 2 * pack - 2) / pack : size >> key.vector);
  strides(kept_, loads() + stores());
  strides(reduced_, loads() + 1);
  number(size);
  number(steps);
  number(chunk);
  const size_t first = first_neighbours();
  args.put(static_cast<int32_t>((reinterpret_cast<uintptr_t>(data_[first]) >> s_.widths[first]) &
                                static_cast<uintptr_t>(pack - 1)));
  args.put_params(s_.program, params_);
}

void Reduction::launch_kernel(const ReduceKey& key, void* states, int64_t steps, int64_t chunk, int64_t blocks,
                              int64_t splits, int threads, int width_shift) const {
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work_.op, ": ", outputs_,
               " results are more than one launch gives; split the tensor");
  const Program& p = s_.program;
  const int64_t state = state_bytes(p.reduction(), p.values()[p.reduced_value()].type, key.wide);
  // Room for merges: a state for every 32 threads of rows, all states of three quarters of the block elsewhere.
  const bool columns = key.kind != Kind::Rows;
  const int64_t places = !columns ? ((1 << width_shift) > 32 ? threads / 32 : 0)
                         : (1 << width_shift) < threads
                             ? int64_t{threads / 4 * 3} << (key.kind == Kind::Columns ? key.vector : 0)
                             : 0;
  KernelArguments args;
  put_arguments(args, key, states, steps, chunk, width_shift);
  launch(kernel_of(s_, key), {static_cast<uint32_t>(blocks), static_cast<uint32_t>(splits)},
         {static_cast<uint32_t>(threads)}, static_cast<uint32_t>(places * state), args.pointers(), work_);
}

// The slowest kept dim by the host: where there are more dims, or arrays, than arguments have room for.
void Reduction::walk_last_kept() {
  FACULA_CHECK(kept_.count > 1, NotSupportedError, work_.op, ": the arguments of the reduction take ", argument_bytes(),
               " bytes, a kernel has room for ", KernelArguments::kCapacity,
               "; make the inputs contiguous first, or split the program");
  const size_t last = kept_.count - 1;
  const int64_t size = kept_.sizes[last];
  for (int64_t at = 0; at < size; ++at) {
    Reduction part = *this;
    for (size_t a = 0; a < loads() + stores(); ++a)
      part.data_[a] = static_cast<char*>(data_[a]) + ((at * kept_.strides[a][last]) << s_.widths[a]);
    part.kept_.count = last;
    part.outputs_ = outputs_ / size;
    part.run();
  }
}

struct Workspace {
  Allocation memory;
  Workspace(int device, int64_t bytes, const char* op) : memory(allocate(device, static_cast<size_t>(bytes), op)) {}
  ~Workspace() { free(memory.block); }
  Workspace(const Workspace&) = delete;
};

void Reduction::run() {
  if (kept_.count > kMostDims || argument_bytes() > KernelArguments::kCapacity) return walk_last_kept();
  key_ = {};
  auto fastest = [&](const Dims& dims) {
    for (size_t a = 0; a < loads(); ++a)
      if (dims.strides[a][0] != 0) return std::abs(dims.strides[a][0]);
    return INT64_MAX;
  };
  const bool rows = elements_ == 0 || outputs_ == 1 || (reduced_.sizes[0] > 1 && fastest(reduced_) < fastest(kept_));
  if (rows) choose_rows();
  else choose_columns();
  key_.kept = static_cast<uint8_t>(kept_.count);
  key_.reduced = static_cast<uint8_t>(reduced_.count);
  key_.wide = largest_number() > INT32_MAX;
  if (splits_ == 1) return launch_kernel(key_, nullptr, steps_, chunk_, blocks_, 1, threads_, width_shift_);

  const Program& p = s_.program;
  const int64_t state = state_bytes(p.reduction(), p.values()[p.reduced_value()].type, key_.wide);
  const Workspace workspace(work_.device, splits_ * outputs_ * state, work_.op);
  key_.partial = true;
  // What the first kernel does not store does not make it another one.
  const uint32_t next_stores = std::exchange(key_.next_stores, 0u);
  launch_kernel(key_, workspace.memory.data, steps_, chunk_, blocks_, splits_, threads_, width_shift_);
  key_.next_stores = next_stores;

  ReduceKey merge;
  merge.kind = Kind::Merge;
  merge.kept = key_.kept;
  merge.wide = key_.wide;
  merge.reduced = key_.reduced;
  const int64_t width = std::min<int64_t>(32, ceil_power(outputs_));
  const int64_t threads = std::clamp<int64_t>(width * ceil_power(ceil_div(splits_, 4)), 64, kMostThreads);
  launch_kernel(merge, workspace.memory.data, splits_, splits_, ceil_div(outputs_, width), 1, static_cast<int>(threads),
                log2_of(width));
}

}  // namespace

void GpuProgram::run_reduction(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                               std::span<const ParamValue> params, std::span<const ArrayArg> stores,
                               const Work& work) const {
  FACULA_INTERNAL_CHECK(state_->program.reduction() != ReduceOp::None && !loads.empty());
  Reduction reduction(*state_, params.data(), work);
  if (reduction.build(sizes, reduced, loads, stores)) reduction.run();
}

}  // namespace facula::gpu
