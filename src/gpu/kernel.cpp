// From a kernel's text to a function of a device: binaries are looked for in memory and on disk before the compiler is asked.
#include "gpu/kernel.h"

#include <facula/core/error.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "core/env.h"
#include "gpu/cache.h"
#include "gpu/sha256.h"

namespace facula::gpu {

namespace {

constexpr size_t kMemoryBytes = size_t{64} << 20;
constexpr size_t kLongestLog = 6000;

struct Counters {
  std::atomic<int64_t> memory_hits{0}, disk_hits{0}, compiled{0};
};
Counters& counters() {
  static auto* all = new Counters;
  return *all;
}
void count(std::atomic<int64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// The headers' texts do not change while the process runs.
const Digest& headers_digest() {
  static const Digest digest = [] {
    Sha256 hash;
    for (const SourceHeader& header : kernel_headers()) hash.add_text(header.name).add_text(header.text);
    return hash.finish();
  }();
  return digest;
}

// Two builds of a compiler may have one version; their files differ.
std::string compiler_identity(const Compiler& by) {
  struct stat info = {};
  if (::stat(by.path().c_str(), &info) != 0) return by.version();
  return str(by.version(), " ", static_cast<long>(info.st_size), " ", static_cast<long>(info.st_mtim.tv_sec));
}

Digest key_of(const std::string& name, const std::string& source, const std::string& chip,
              std::span<const std::string> options, const Compiler& by) {
  static const std::string identity = compiler_identity(by);  // there is one compiler in a process
  Sha256 hash;
  hash.add_text("kernel 1").add_text(chip).add_text(identity).add_text(name).add_text(source);
  for (const std::string& option : options) hash.add_text(option);
  hash.add(headers_digest().data(), headers_digest().size());
  return hash.finish();
}

// A name that is safe in a file's name.
std::string file_name(const std::string& name, const std::string& source, std::span<const std::string> options) {
  Sha256 hash;
  hash.add_text(name).add_text(source);
  for (const std::string& option : options) hash.add_text(option);
  std::string text = name.substr(0, 80);
  for (char& c : text)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return text + "-" + to_hex(hash.finish()).substr(0, 16) + ".cu";
}

// The text as people and other compilers can read it.
std::string annotated(const std::string& name, const std::string& source, std::span<const std::string> options) {
  std::string text = "// facula: kernel " + name + "\n// facula: options";
  for (const std::string& option : options) text += " " + option;
  text += "\n// facula: headers";
  for (const SourceHeader& header : kernel_headers()) text += std::string(" ") + header.name;
  return text + "\n" + source;
}

void dump(const std::string& name, const std::string& source, std::span<const std::string> options, const char* op) {
  const auto folder = env(EnvVar::KernelDump);
  if (!folder) return;
  const std::string path = str(*folder, "/", file_name(name, source, options));
  if (::access(path.c_str(), F_OK) == 0) return;  // the name tells the contents
  static std::atomic<int> writers{0};             // threads that ask for one kernel at the same time write it each
  const std::string temporary = str(path, ".", static_cast<long>(::getpid()), ".", writers.fetch_add(1));
  const std::string text = annotated(name, source, options);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) ::close(file);
  written = written && ::rename(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (!written) ::unlink(temporary.c_str());
  FACULA_CHECK(written, ValueError, op, ": the kernel's text cannot be written to ", path, " (", ::strerror(error),
               "); FACULA_KERNEL_DUMP must name a folder that exists and may be written");
}

[[noreturn]] void fail_compilation(const std::string& name, const std::string& source, const std::string& chip,
                                   std::span<const std::string> options, const char* op, const std::string& log) {
  std::string shown = log.substr(0, kLongestLog);
  if (log.size() > shown.size()) shown += str("\n... and ", log.size() - shown.size(), " more characters");
  const std::string whole = str(annotated(name, source, options), "\n/* for ", chip, ":\n", log, "\n*/\n");
  const std::string path = disk_cache().write_text("failed-" + file_name(name, source, options), whole);
  throw DeviceError(str(op, ": the kernel ", name, " does not compile for ", chip, ":\n", shown, "\n",
                        path.empty() ? std::string("Set FACULA_KERNEL_DUMP to a folder to see the whole text.")
                                     : "The whole text is in " + path,
                        "\nMend the text where it is your own; otherwise install another version of the compiler (",
                        compiler() ? compiler()->version() : std::string("NVRTC or hipRTC"),
                        "), or move the tensors with .to(\"cpu\")"));
}

// Binaries of this process, and the compilations under way.
class Binaries {
 public:
  using Bytes = std::shared_ptr<const std::vector<char>>;
  struct Work {  // one compilation that several threads may wait for
    bool done = false;
    Bytes bytes;      // when it went well
    std::string log;  // when it did not
  };

  // What is known of the key. nullptr and `mine` set: nobody works on it, the caller must, and call finish().
  std::shared_ptr<Work> begin(const Digest& key, bool& mine) {
    std::unique_lock lock(mutex_);
    mine = false;
    if (const auto kept = kept_.find(key); kept != kept_.end()) {
      count(counters().memory_hits);
      auto work = std::make_shared<Work>();
      work->done = true;
      work->bytes = kept->second;
      return work;
    }
    if (const auto running = running_.find(key); running != running_.end()) {
      const std::shared_ptr<Work> work = running->second;
      changed_.wait(lock, [&] { return work->done; });
      if (work->bytes) count(counters().memory_hits);
      return work;
    }
    mine = true;
    return running_[key] = std::make_shared<Work>();
  }

  void finish(const Digest& key, const std::shared_ptr<Work>& work, Bytes bytes, std::string log) {
    {
      std::lock_guard lock(mutex_);
      work->done = true;
      work->bytes = bytes;
      work->log = std::move(log);
      running_.erase(key);
      if (bytes) keep(key, std::move(bytes));
    }
    changed_.notify_all();
  }

 private:
  void keep(const Digest& key, Bytes bytes) {
    total_ += bytes->size();
    if (kept_.emplace(key, std::move(bytes)).second) order_.push_back(key);
    while (total_ > kMemoryBytes && order_.size() > 1) {
      const auto oldest = kept_.find(order_.front());
      total_ -= oldest->second->size();
      kept_.erase(oldest);
      order_.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Digest, Bytes> kept_;
  std::deque<Digest> order_;
  size_t total_ = 0;
  std::map<Digest, std::shared_ptr<Work>> running_;
};
Binaries& binaries() {
  static auto* all = new Binaries;
  return *all;
}

// Set when the driver has refused machine code but taken the portable form: later kernels need not find that out again.
std::atomic<bool> prefer_portable{false};

}  // namespace

std::vector<char> compiled_binary(const std::string& name, const std::string& source, const std::string& chip,
                                  std::span<const std::string> options, const char* op) {
  Compiler* by = compiler();
  FACULA_CHECK(by != nullptr, DeviceError, op, ": no kernel can be compiled: ", why_no_compiler());
  const Digest key = key_of(name, source, chip, options, *by);
  bool mine = false;
  const auto work = binaries().begin(key, mine);
  if (mine) {
    Binaries::Bytes bytes;
    std::string log = "the compiler gave up";
    try {
      if (auto kept = disk_cache().read(key)) {
        count(counters().disk_hits);
        bytes = std::make_shared<const std::vector<char>>(std::move(*kept));
      } else {
        CompileResult result = by->compile(name, source, kernel_headers(), chip, options);
        if (result.ok) {
          count(counters().compiled);
          bytes = std::make_shared<const std::vector<char>>(std::move(result.binary));
        } else {
          log = std::move(result.log);
        }
        if (bytes) disk_cache().write(key, *bytes);
      }
    } catch (...) {  // a warning that became an error, or no memory: those who wait must hear of it
      binaries().finish(key, work, bytes, log);
      throw;
    }
    binaries().finish(key, work, bytes, log);
  }
  if (!work->bytes) fail_compilation(name, source, chip, options, op, work->log);
  dump(name, source, options, op);
  return *work->bytes;
}

const std::string& cache_folder() { return disk_cache().folder(); }

size_t argument_bytes(int device) {
  const Compiler* by = compiler();
  return by ? std::min(by->argument_bytes(), driver()->argument_bytes(properties(device))) : 4096;
}

CacheStats cache_stats() {
  CacheStats stats;
  stats.memory_hits = counters().memory_hits.load(std::memory_order_relaxed);
  stats.disk_hits = counters().disk_hits.load(std::memory_order_relaxed);
  stats.compiled = counters().compiled.load(std::memory_order_relaxed);
  stats.rejected = disk_cache().rejected();
  stats.write_failures = disk_cache().write_failures();
  return stats;
}

Kernel::Kernel(std::string name, std::string source, std::vector<std::string> options)
    : name_(std::move(name)), source_(std::move(source)), options_(std::move(options)) {}

void Kernel::mark_shared(uint32_t bytes, int device, const char* op) const {
  std::atomic<uint32_t>& allowed = allowed_shared_[static_cast<size_t>(device)];
  const DeviceProperties& chip = properties(device);
  static std::mutex mutex;  // a smaller mark would take a larger one's place
  std::lock_guard lock(mutex);
  if (bytes <= allowed.load(std::memory_order_relaxed)) return;
  // What the kernel's text itself takes counts, too. What is more than the chip has is the launch's to refuse, in better words.
  constexpr uint32_t kMostOfText = 16 << 10;
  if (bytes + kMostOfText > static_cast<uint32_t>(chip.shared_memory_per_block) &&
      bytes <= static_cast<uint32_t>(chip.shared_memory_per_block_optin))
    check(need_driver(op).allow_shared_memory(on(device, op), static_cast<int>(bytes)), op);
  allowed.store(bytes, std::memory_order_relaxed);
}

FunctionHandle Kernel::load(int device, const char* op) const {
  FACULA_INTERNAL_CHECK(device >= 0 && device < kMaxDevices);
  Driver& with = need_driver(op);
  const std::string& chip = gpu::properties(device).chip;
  // Loads what was compiled with these options; a chip that does not take it is an answer, everything else an error.
  ModuleHandle module = nullptr;
  const auto try_load = [&](const std::vector<std::string>& options) {
    const std::vector<char> binary = compiled_binary(name_, source_, chip, options, op);
    const Status status = with.load_module(module, binary.data());
    if (!status.ok() && status.fault != Fault::NoKernelForChip) fail(status, op, "loading the kernel " + name_);
    return status;
  };
  std::vector<std::string> portable = options_;
  portable.emplace_back(kOptionPortable);

  const bool portable_first = prefer_portable.load(std::memory_order_relaxed);
  Status status = try_load(portable_first ? portable : options_);
  if (!status.ok() && !portable_first) {
    status = try_load(portable);
    if (status.ok()) prefer_portable.store(true, std::memory_order_relaxed);
  }
  FACULA_CHECK(status.ok(), DeviceError, op, ": the driver (", with.version_text(), ", ", with.path(),
               ") does not take what the compiler (", compiler()->version(), ", ", compiler()->path(), ") made for ",
               chip, " [", with.describe(status),
               "]; install a newer driver, or a compiler that is not newer than the driver");

  // Two threads may come here with the same kernel; the second one lets go of its module.
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  auto& slot = functions_[static_cast<size_t>(device)];
  if (FunctionHandle made = slot.load(std::memory_order_relaxed)) {
    static_cast<void>(with.unload_module(module));
    return made;
  }
  FunctionHandle function = nullptr;
  if (const Status found = with.function(function, module, name_.c_str()); !found.ok())
    fail(found, op, str("the text has no extern \"C\" __global__ function named ", name_));
  slot.store(function, std::memory_order_release);
  return function;
}

}  // namespace facula::gpu
