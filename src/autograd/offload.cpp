// Saved tensors elsewhere: on the host, or in files without a name, which vanish with the process.
#include <facula/autograd/checkpoint.h>
#include <facula/tensors.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace facula::autograd {

namespace {

struct OnHost {
  Tensor tensor;
  Device device;
};

class OnDisk {
 public:
  OnDisk(const std::string& folder, const Tensor& t)
      : sizes_(t.sizes().vec()), options_(t.options()), bytes_(t.nbytes()) {
    std::string name = folder + "/facula-saved-XXXXXX";
    file_ = mkstemp(name.data());
    FACULA_CHECK(file_ >= 0, Error, "OffloadToDisk: no file can be made in ", folder, ": ",
                 std::string(std::strerror(errno)), "; give a folder that can be written to");
    unlink(name.c_str());
    const Tensor packed = t.cpu().contiguous();
    transfer([&](char* at, size_t size, off_t place) { return pwrite(file_, at, size, place); },
             static_cast<char*>(packed.data_ptr()), "written");
  }
  ~OnDisk() {
    if (file_ >= 0) close(file_);
  }
  OnDisk(const OnDisk&) = delete;
  OnDisk& operator=(const OnDisk&) = delete;

  Tensor read() const {
    Tensor t = empty(sizes_, options_.device(std::optional<Device>(Device(kCPU))));
    transfer([&](char* at, size_t size, off_t place) { return pread(file_, at, size, place); },
             static_cast<char*>(t.data_ptr()), "read");
    return t.to(options_.device());
  }

 private:
  template <class Step>
  void transfer(const Step& step, char* data, const char* what) const {
    for (size_t done = 0; done < bytes_;) {
      const ssize_t moved = step(data + done, bytes_ - done, static_cast<off_t>(done));
      if (moved < 0 && errno == EINTR) continue;
      FACULA_CHECK(moved > 0, Error, "OffloadToDisk: ", bytes_ - done, " of ", bytes_, " bytes could not be ", what,
                   ": ", std::string(moved < 0 ? std::strerror(errno) : "the file ended"));
      done += static_cast<size_t>(moved);
    }
  }

  std::vector<int64_t> sizes_;
  TensorOptions options_;
  size_t bytes_;
  int file_ = -1;
};

struct Kept {
  Tensor tensor;
  std::unique_ptr<OnDisk> file;
};

std::string temporary_folder(const std::string& folder) {
  if (!folder.empty()) return folder;
  const char* given = std::getenv("TMPDIR");
  return given && *given ? given : "/tmp";
}

}  // namespace

SaveOnCpu::SaveOnCpu(bool)
    : SavedTensorHooks(
          [](const Tensor& t) -> Packed {
            return std::make_shared<OnHost>(OnHost{t.cpu(), t.device()});
          },
          [](const Packed& packed) {
            const auto& kept = *static_cast<const OnHost*>(packed.get());
            return kept.tensor.to(kept.device);
          }) {}

OffloadToDisk::OffloadToDisk(const std::string& folder, size_t min_bytes)
    : SavedTensorHooks(
          [folder = temporary_folder(folder), min_bytes](const Tensor& t) -> Packed {
            auto kept = std::make_shared<Kept>();
            if (t.nbytes() >= min_bytes && !t.is_meta()) kept->file = std::make_unique<OnDisk>(folder, t);
            else kept->tensor = t;
            return kept;
          },
          [](const Packed& packed) {
            const auto& kept = *static_cast<const Kept*>(packed.get());
            return kept.file ? kept.file->read() : kept.tensor;
          }) {}

}  // namespace facula::autograd
