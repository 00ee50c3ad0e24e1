// Kernels of the user's own: arguments are checked here, the encoder launches.
#include "core/tensor_impl.h"
#include "gpu/api/api.h"
#include "gpu/api/kernel_signature.h"
#include "gpu/encoder.h"

#include <facula/cuda/kernel.h>

#include <mutex>
#include <set>

namespace facula::cuda {

namespace {

// A copy of a name that lives for ever, as names of ops do.
const char* lasting(const std::string& name) {
  static auto* names = new std::set<std::string>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  for (char c : name)
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  return true;
}

void check_size(const char* op, const char* what, Dim3 size) {
  FACULA_CHECK(size.x > 0 && size.y > 0 && size.z > 0, ValueError, op, ": the ", what, " is ", size.x, " x ", size.y,
               " x ", size.z, "; every size must be at least 1");
}

void check_limits(const char* op, Dim3 grid, Dim3 block, uint32_t shared_bytes, int device) {
  const gpu::DeviceProperties& chip = gpu::properties(device);
  check_size(op, "grid", grid);
  check_size(op, "block", block);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  FACULA_CHECK(threads <= static_cast<uint64_t>(chip.max_threads_per_block), ValueError, op, ": a block of ", block.x,
               " x ", block.y, " x ", block.z, " has ", threads, " threads; ", chip.name, " takes at most ",
               chip.max_threads_per_block, ". Use smaller blocks and a larger grid");
  const uint32_t sizes[3] = {grid.x, grid.y, grid.z};
  for (int d = 0; d < 3; ++d)
    FACULA_CHECK(chip.max_grid[d] <= 0 || sizes[d] <= static_cast<uint32_t>(chip.max_grid[d]), ValueError, op,
                 ": the grid is ", grid.x, " x ", grid.y, " x ", grid.z, "; ", chip.name, " takes at most ",
                 chip.max_grid[0], " x ", chip.max_grid[1], " x ", chip.max_grid[2],
                 " blocks. Let each thread do more, in a loop");
  FACULA_CHECK(shared_bytes <= static_cast<uint32_t>(chip.shared_memory_per_block_optin), ValueError, op, ": ",
               shared_bytes, " bytes of shared memory; ", chip.name, " has ", chip.shared_memory_per_block_optin,
               " for a block");
}

}  // namespace

struct Kernel::State {
  State(std::string source, const std::string& name, std::vector<std::string> options)
      : kernel(name, std::move(source), std::move(options)),
        op(lasting(name)),
        parameters(read_parameters(kernel.source(), name)) {}
  gpu::Kernel kernel;
  const char* op;
  std::optional<std::vector<Parameter>> parameters;
};

Kernel::Kernel(std::string source, std::string name, std::vector<std::string> options) {
  FACULA_CHECK(is_identifier(name), ValueError, "Kernel: \"", name,
               "\" is not the name of a function; give the name of an extern \"C\" __global__ function of the text");
  FACULA_CHECK(source.find(name) != std::string::npos, ValueError, "Kernel: the text does not mention ", name,
               "; it must hold `extern \"C\" __global__ void ", name, "(...)`");
  state_ = std::make_unique<State>(std::move(source), name, std::move(options));
}
Kernel::~Kernel() = default;
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(Kernel&&) noexcept = default;

const std::string& Kernel::name() const { return state_->kernel.name(); }
const std::string& Kernel::source() const { return state_->kernel.source(); }

void Kernel::compile() const {
  const int device = device_index(-1, state_->op);
  gpu::enter(device, state_->op);
  state_->kernel.on(device, state_->op);
}

void Kernel::run(Dim3 grid, Dim3 block, uint32_t shared_bytes, const KernelArgument* args, size_t count) const {
  const char* const op = state_->op;
  const int device = device_index(-1, op);
  check_limits(op, grid, block, shared_bytes, device);
  if (state_->parameters) check_arguments(op, *state_->parameters, args, count);
  std::vector<void*> values(count + 1), pointers(count + 1);
  std::vector<StorageImpl*> storages;
  for (size_t i = 0; i < count; ++i) {
    if (args[i].kind() != KernelArgument::Kind::Tensor) {
      pointers[i] = const_cast<void*>(args[i].value());
      continue;
    }
    const Tensor& tensor = args[i].tensor();
    FACULA_CHECK(tensor.defined(), ValueError, op, ": argument ", i, " is an undefined tensor");
    const Device here(kCUDA, static_cast<DeviceIndex>(device));
    FACULA_CHECK(tensor.device() == here, DeviceError, op, ": argument ", i, " is a tensor on ", tensor.device(),
                 "; kernels take tensors of the current device, which is ", here,
                 ". Move it there, or make its device current");
    values[i] = tensor.data_ptr();
    pointers[i] = &values[i];
    storages.push_back(tensor.impl()->storage.get());
  }
  gpu::enter(device, op);
  gpu::launch(state_->kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, pointers.data(),
              {op, device, storages});
}

}  // namespace facula::cuda
