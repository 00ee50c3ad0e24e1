// Programs over many sets of arrays on a GPU: as many sets as the arguments of a kernel hold go into one launch, which
// on NVIDIA's chips are hundreds. Addresses travel in the arguments, so that nothing is copied and a graph that
// captures the launch holds all it needs.
#include "gpu/program/layout.h"
#include "gpu/program/program_state.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

namespace facula::gpu {
struct ListKernels {
  // Which arrays have an address of their own: a store that is one of the loads, in every item, shares that one's.
  struct Pointers {
    uint8_t of[kMaxArrays] = {};
    size_t count = 0;
    bool operator<(const Pointers& other) const {
      return std::lexicographical_compare(of, of + kMaxArrays, other.of, other.of + kMaxArrays);
    }
  };

  struct Made {
    Kernel kernel;
    int unroll;
  };
  // Items, log2 of the pack, constant loads, addresses, and 0 or 1 + ListReduce.
  using Key = std::tuple<size_t, int, uint64_t, Pointers, int>;
  std::map<Key, std::unique_ptr<Made>> made;
};

namespace {

constexpr int kThreads = 256;
constexpr size_t kFewItems = 16;

// KernelArguments for as many as the newest chips take.
class ListArguments {
 public:
  static constexpr size_t kCapacity = 32764;
  template <class T>
  void put(const T& value) {
    put(&value, sizeof(T), alignof(T));
  }
  void put_params(const Program& program, const ParamValue* params) {
    KernelArguments alone;
    alone.put_params(program, params);
    put(alone.pointers()[0], alone.size(), 8);
  }
  void** pointers() {
    pointer_ = bytes_;
    return &pointer_;
  }

 private:
  void put(const void* value, size_t bytes, size_t alignment) {
    size_ = (size_ + alignment - 1) / alignment * alignment;
    FACULA_INTERNAL_CHECK(size_ + bytes <= sizeof bytes_);
    std::memcpy(bytes_ + size_, value, bytes);
    size_ += bytes;
  }

  void* pointer_ = nullptr;
  size_t size_ = 0;
  alignas(16) char bytes_[kCapacity + 64];
};

using Pointers = ListKernels::Pointers;
using ListKernel = ListKernels::Made;

Pointers find_pointers(std::span<const ListItem> items, size_t loads, size_t arrays) {
  Pointers p;
  size_t first_array[kMaxArrays];  // that has pointer k
  for (size_t a = 0; a < arrays; ++a) {
    size_t same = arrays;
    for (size_t k = 0; a >= loads && k < p.count && same == arrays; ++k) {
      const bool equal = std::all_of(items.begin(), items.end(), [&](const ListItem& item) {
        return item.arrays[a] == item.arrays[first_array[k]];
      });
      if (equal) same = k;
    }
    if (same == arrays) first_array[same = p.count++] = a;
    p.of[a] = static_cast<uint8_t>(same);
  }
  return p;
}

ListKernel* make_kernel(const ProgramState& s, const ListKernels::Key& key) {
  const auto& [items, vector, constant, pointers, reduce] = key;
  const size_t loads = s.program.loads().size(), arrays = loads + s.program.stores().size() - (reduce != 0);
  // Enough bytes in flight for the memory's latency; a long formula has few elements in registers at once.
  int unroll = s.cost <= 12 ? 4 : s.cost <= 40 ? 2 : 1;
  int64_t bytes = 0;
  for (size_t a = 0; a < loads; ++a)
    if ((constant >> a & 1) == 0) bytes += int64_t{1} << (s.widths[a] + vector);
  while (unroll > 1 && bytes * unroll > 256) unroll /= 2;
  std::string access, places;
  for (size_t a = 0; a < arrays; ++a) {
    access += str(a > 0 ? ", " : "", "Access::", (constant >> a & 1) != 0 && a < loads ? "Constant" : "Next");
    places += str(a > 0 ? ", " : "", int{pointers.of[a]});
  }
  // A reduction has no place for its last array; the entry is never looked at.
  if (reduce != 0) access += arrays > 0 ? ", Access::Next" : "Access::Next", places += arrays > 0 ? ", 0" : "0";
  const std::string name = kernel_name(reduce != 0 ? "list_reduce" : "list", s.program);
  std::string source =
      str(render_defines(s.program), "#include \"gpu/kernels/pointwise_list.h\"\nnamespace facula {\n", s.text,
          "struct L {\n  static constexpr int kItems = ", items, ", kVector = ", 1 << vector, ", kUnroll = ", unroll,
          ", kPointers = ", pointers.count, ";\n  static constexpr Access kAccess[] = {", access,
          "};\n  static constexpr int kPointer[] = {", places,
          "};\n  static constexpr bool kReduces = ", reduce != 0 ? "true" : "false",
          ", kMax = ", reduce == 1 + static_cast<int>(ListReduce::Max) ? "true" : "false",
          ";\n};\n}  // namespace facula\nextern \"C\" __global__ void __launch_bounds__(", kThreads, ") ", name,
          "(const facula::ListArgs<facula::P, facula::L> args) {\n  facula::", reduce != 0 ? "reduce" : "pointwise",
          "_list(args);\n}\n");
  return new ListKernel{Kernel(name, std::move(source)), unroll};
}

const ListKernel& kernel_of(const ProgramState& s, const ListKernels::Key& key) {
  const std::lock_guard lock(s.mutex);
  if (!s.lists) s.lists = std::make_shared<ListKernels>();
  auto& slot = s.lists->made[key];
  if (!slot) slot.reset(make_kernel(s, key));
  return *slot;
}

// One launch. `partials` is null, or where the results of its blocks go; gives the number of blocks.
int64_t launch_items(const ProgramState& s, std::span<const ListItem> items, size_t room, uint64_t constant,
                     const Pointers& pointers, const ParamValue* params, int reduce, void* partials, const Work& work) {
  const size_t loads = s.program.loads().size(), arrays = loads + s.program.stores().size() - (reduce != 0);
  // Packs of 16 bytes of the widest array; single elements do not count.
  const auto walked = [&](size_t a) { return a >= loads || (constant >> a & 1) == 0; };
  int vector = 4;
  for (size_t a = 0; a < arrays; ++a)
    if (walked(a)) vector = std::min(vector, 4 - s.widths[a]);
  for (const ListItem& item : items)
    for (size_t a = 0; a < arrays; ++a)
      if (walked(a))
        vector = std::min(vector, std::countr_zero(reinterpret_cast<uintptr_t>(item.arrays[a])) - s.widths[a]);
  vector = std::max(vector, 0);
  const ListKernel& k = kernel_of(s, {room, vector, constant, pointers, reduce});

  ListArguments args;
  args.put(s.faults ? fault_buffer(work.device) : nullptr);
  args.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(work.op)));
  args.put(partials);
  args.put(kListStretch);
  const auto put_items = [&](auto value_of, auto nothing) {
    for (size_t i = 0; i < room; ++i) args.put(i < items.size() ? value_of(items[i]) : nothing);
  };
  put_items([](const ListItem& item) { return item.count; }, int64_t{0});
  for (size_t p = 0; p < pointers.count; ++p) {
    size_t a = 0;
    while (pointers.of[a] != p) ++a;
    put_items([a](const ListItem& item) { return item.arrays[a]; }, static_cast<void*>(nullptr));
  }
  int64_t blocks = 0;
  const int64_t each = (int64_t{kThreads} * k.unroll) << vector;
  put_items(
      [&](const ListItem& item) {
        const auto first = static_cast<int32_t>(blocks);
        blocks += reduce != 0 ? list_stretches(item.count) : std::max<int64_t>(1, (item.count + each - 1) / each);
        return first;
      },
      int32_t{0});
  args.put(static_cast<int32_t>(items.size()));
  args.put_params(s.program, params);
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work.op, ": ", blocks, " blocks are more than one launch takes");
  const uint32_t shared = reduce != 0 ? kThreads * sizeof(double) : 0;
  launch(k.kernel, {static_cast<uint32_t>(blocks)}, {kThreads}, shared, args.pointers(), work);
  return blocks;
}

void launch_all(const ProgramState& s, std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                int reduce, char* partials, const Work& work) {
  const size_t loads = s.program.loads().size(), arrays = loads + s.program.stores().size() - (reduce != 0);
  if (items.empty()) return;
  const Pointers pointers = find_pointers(items, loads, arrays);
  const size_t for_one = 8 + 8 * pointers.count + 4, fixed = 16 + 16 + 8 + params_bytes(s.program) + 8;
  const size_t always = (KernelArguments::kCapacity - fixed) / for_one / 2 * 2;
  FACULA_CHECK(always >= kFewItems, NotSupportedError, work.op, ": the program has too many arrays (", arrays, ")");
  const size_t most = (std::min(argument_bytes(work.device), ListArguments::kCapacity) - fixed) / for_one / 2 * 2;
  // A kernel for each of a few lengths: all of its arguments travel with every launch.
  const auto room_for = [&](size_t count) {
    size_t room = count <= kFewItems ? kFewItems : always;
    while (room < count) room = std::min(2 * room, most);
    return room;
  };
  const size_t width = reduce != 0 ? elementSize(s.program.stores().back().dtype) : 0;
  for (size_t at = 0; at < items.size(); at += most) {
    const auto part = items.subspan(at, std::min(most, items.size() - at));
    const int64_t blocks =
        launch_items(s, part, room_for(part.size()), constant, pointers, params, reduce, partials, work);
    partials += static_cast<size_t>(blocks) * width;
  }
}

}  // namespace

void GpuProgram::run_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                          const Work& work) const {
  launch_all(*state_, items, constant, params, 0, nullptr, work);
}

void GpuProgram::reduce_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                             ListReduce reduce, void* partials, const Work& work) const {
  launch_all(*state_, items, constant, params, 1 + static_cast<int>(reduce), static_cast<char*>(partials), work);
}

}  // namespace facula::gpu
