// Softmax and log_softmax on a GPU, and their gradients: which kernel of kernels/softmax.h a shape needs.
#include "core/kernel_table.h"
#include "gpu/primitives/rows.h"

namespace facula::gpu {
namespace {

// Blocks are as large as the widest team, whatever this one is: the kernels' registers are limited for that.
constexpr const char* kRowBounds = "1024";
constexpr int64_t kLongThreads = 1024;
constexpr const char* kTeamBounds = "256";
static_assert(kTeamThreads == 256);
// Where rows are few and long, blocks share them in pieces of this many elements, up to so many.
constexpr int64_t kPiece = 32768;
constexpr int64_t kMostPieces = 64;
constexpr int64_t kEnoughRows = 256;

// A contiguous tensor as [outer, n, inner].
struct Parts {
  int64_t outer = 1, n = 1, inner = 1;
  Parts(const TensorImpl* t, int64_t dim) {
    for (int64_t d = 0; d < t->dim(); ++d) (d < dim ? outer : d == dim ? n : inner) *= t->sizes[static_cast<size_t>(d)];
  }
};

// The order of members is that of kernels/softmax.h.
struct Arguments {
  const void* in = nullptr;
  const void* result = nullptr;
  void* out = nullptr;
  void* states = nullptr;
  int64_t rows = 0, n = 0, inner = 1, chunk = 0;
  int32_t width_shift = 0, chunks = 1;
};

void launch_with(const Kernel& kernel, Dim3 grid, int64_t threads, uint32_t shared, const Arguments& a,
                 const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel, grid, {static_cast<uint32_t>(threads)}, shared, args.pointers(), work);
}

// Forms of the kernels: K packs in registers with packs of 16 bytes or of one element, long rows likewise, columns.
enum Form : size_t { kRows = 0, kLong = 8, kStates = 10, kFinish = 12, kKept = 14, kColumns = 16, kForms = 17 };
size_t row_form(const RowTeam& team) {
  return kRows + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(team.packs))) * 2 + (team.pack == 1);
}

// The first word of the kernel's name is what profilers show.
const Kernel* make(const char* function, const std::string& parameters, ScalarType to, const std::string& bounds) {
  return template_kernel("softmax.h", function, "SoftmaxArgs", str(function, "<", parameters, ">"), bounds,
                         short_exponential(to));
}

KernelTable<kForms * 4 * 4 * 2>& forward_table() {
  static auto* table = new KernelTable<kForms * 4 * 4 * 2>;
  return *table;
}
KernelTable<kForms * 4 * 2>& backward_table() {
  static auto* table = new KernelTable<kForms * 4 * 2>;
  return *table;
}

struct Types {
  ScalarType from, to;
  bool log;
};
// What follows the dtypes among the template arguments: numbers of 0 are left out.
std::string parameters(int pack, int packs, bool log) {
  return str(pack ? str(pack, ", ") : "", packs ? str(packs, ", ") : "", log ? "true" : "false");
}
const Kernel& forward_kernel(size_t form, const Types& t, const char* function, int pack, int packs,
                             const std::string& bounds) {
  return forward_table().get(((form * 4 + float_number(t.from)) * 4 + float_number(t.to)) * 2 + t.log, [&] {
    std::string all = str(dtype_text(t.from), ", ", dtype_text(t.to), ", ", parameters(pack, packs, t.log));
    if (form >= kLong && form < kStates) all += ", false";
    if (form >= kKept && form < kColumns) all += ", true";
    return make(function, all, t.to, bounds);
  });
}
const Kernel& backward_kernel(size_t form, const Types& t, const char* function, int pack, int packs,
                              const std::string& bounds) {
  return backward_table().get((form * 4 + float_number(t.to)) * 2 + t.log, [&] {
    return make(function, str(dtype_text(t.to), ", ", parameters(pack, packs, t.log)), t.to, bounds);
  });
}

int most_values(ScalarType t) { return t == kDouble ? 16 : 32; }

// Columns side by side and shares of a column in a block of kTeamThreads.
int column_width_shift(int64_t columns, int64_t n) {
  int shift = std::countr_zero(static_cast<unsigned>(kTeamThreads));
  for (int64_t shares = 1; shares < 8 && 2 * shares <= n && columns >> shift < kEnoughRows; shares *= 2) --shift;
  return shift;
}

void forward_columns(Arguments& a, const Parts& parts, const Types& types, const Work& work) {
  a.rows = parts.outer * parts.inner;
  a.inner = parts.inner;
  a.width_shift = column_width_shift(a.rows, a.n);
  const Kernel& kernel = forward_kernel(kColumns, types, "softmax_columns", 0, 0, kTeamBounds);
  launch_with(kernel, {blocks_for(a.rows, int64_t{1} << a.width_shift, work.op)}, kTeamThreads,
              static_cast<uint32_t>(kTeamThreads * 2 * (types.to == kDouble ? 8 : 4)), a, work);
}

void forward_long(Arguments& a, const Types& types, int pack, const Work& work) {
  const size_t narrow = pack == 1;
  const int64_t pieces = a.rows < kEnoughRows ? std::min(kMostPieces, ceil_div(a.n, kPiece)) : 1;
  a.chunk = ceil_div(a.n, pieces);
  a.chunks = static_cast<int32_t>(ceil_div(a.n, a.chunk));
  const Dim3 grid{blocks_for(a.rows, 1, work.op), static_cast<uint32_t>(a.chunks)};
  if (a.chunks == 1) {
    const uint32_t bytes = kept_bytes(a.n, pack, elementSize(types.from), kWalkThreads, work.device);
    const Kernel& kernel =
        forward_kernel((bytes > 0 ? kKept : kLong) + narrow, types, "softmax_long", pack, 0, kWalkBounds);
    return launch_with(kernel, grid, kWalkThreads, bytes, a, work);
  }
  DeviceScratch states(work.device, static_cast<size_t>(a.rows * a.chunks) * 16, work.op);
  a.states = states.data();
  launch_with(forward_kernel(kStates + narrow, types, "softmax_states", pack, 0, kWalkBounds), grid, kWalkThreads, 0, a,
              work);
  launch_with(forward_kernel(kFinish + narrow, types, "softmax_finish", pack, 0, kWalkBounds), grid, kWalkThreads, 0, a,
              work);
}

void forward(const char* op, const Tensor& self, int64_t dim, const Tensor& result, bool log) {
  const TensorImpl *in = self.impl(), *out = result.impl();
  if (out->numel == 0) return;
  const TensorWork work(op, {&self, &result});
  const Parts parts(in, dim);
  const Types types{in->dtype, out->dtype, log};
  Arguments a;
  a.in = in->data();
  a.out = out->data();
  a.n = parts.n;
  a.rows = parts.outer;
  if (parts.inner > 1) return forward_columns(a, parts, types, work);
  const int pack = pack_of({{a.in, types.from}, {a.out, types.to}});
  const RowTeam team = row_team(a.n, pack, rows_aligned(a.out, types.to, a.n, pack), most_values(types.to));
  if (team.packs == 0) return forward_long(a, types, pack, work);
  a.width_shift = team.width_shift;
  const Kernel& kernel = forward_kernel(row_form(team), types, "softmax_rows", pack, team.packs, kRowBounds);
  launch_with(kernel, {team.blocks(a.rows, op)}, team.threads(), 0, a, work);
}

void backward(const char* op, const Tensor& grad, const Tensor& result, int64_t dim, const Tensor& out, bool log) {
  const TensorImpl *g = grad.impl(), *y = result.impl(), *to = out.impl();
  if (to->numel == 0) return;
  const TensorWork work(op, {&grad, &result, &out});
  const Parts parts(g, dim);
  const Types types{to->dtype, to->dtype, log};
  Arguments a;
  a.in = g->data();
  a.result = y->data();
  a.out = to->data();
  a.n = parts.n;
  a.rows = parts.outer;
  if (parts.inner > 1) {
    a.rows = parts.outer * parts.inner;
    a.inner = parts.inner;
    a.width_shift = column_width_shift(a.rows, a.n);
    const Kernel& kernel = backward_kernel(kColumns, types, "softmax_backward_columns", 0, 0, kTeamBounds);
    return launch_with(kernel, {blocks_for(a.rows, int64_t{1} << a.width_shift, op)}, kTeamThreads,
                       static_cast<uint32_t>(kTeamThreads * (types.to == kDouble ? 8 : 4)), a, work);
  }
  const int pack = pack_of({{a.in, types.to}, {a.result, types.to}, {a.out, types.to}});
  const RowTeam team = row_team(a.n, pack, rows_aligned(a.out, types.to, a.n, pack), most_values(types.to) / 2);
  if (team.packs == 0)
    return launch_with(backward_kernel(kLong + (pack == 1), types, "softmax_backward_long", pack, 0, kRowBounds),
                       {blocks_for(a.rows, 1, op)}, kLongThreads, 0, a, work);
  a.width_shift = team.width_shift;
  launch_with(backward_kernel(row_form(team), types, "softmax_backward_rows", pack, team.packs, kRowBounds),
              {team.blocks(a.rows, op)}, team.threads(), 0, a, work);
}

void softmax_gpu(const Tensor& self, int64_t dim, const Tensor& result) {
  forward("softmax", self, dim, result, false);
}
void log_softmax_gpu(const Tensor& self, int64_t dim, const Tensor& result) {
  forward("log_softmax", self, dim, result, true);
}

void softmax_backward_gpu(const Tensor& grad, const Tensor& result, int64_t dim, const Tensor& out) {
  backward("_softmax_backward_data", grad, result, dim, out, false);
}
void log_softmax_backward_gpu(const Tensor& grad, const Tensor& result, int64_t dim, const Tensor& out) {
  backward("_log_softmax_backward_data", grad, result, dim, out, true);
}

const KernelRegistration softmax_registration(OpId::softmax, DeviceType::CUDA, &softmax_gpu);
const KernelRegistration log_softmax_registration(OpId::log_softmax, DeviceType::CUDA, &log_softmax_gpu);
const KernelRegistration softmax_backward_registration(OpId::_softmax_backward_data, DeviceType::CUDA,
                                                       &softmax_backward_gpu);
const KernelRegistration log_softmax_backward_registration(OpId::_log_softmax_backward_data, DeviceType::CUDA,
                                                           &log_softmax_backward_gpu);

}  // namespace
}  // namespace facula::gpu
