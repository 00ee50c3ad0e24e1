// Entries on disk: <folder>/kernels/<key>.bin, and marks: <folder>/starting/<name>. All work goes through a descriptor of the folder that was checked, so that nobody can
// put another folder in its place.
#include "gpu/cache.h"

#include <facula/core/error.h>
#include <facula/core/warning.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/env.h"

namespace facula::gpu {

namespace {

constexpr char kEntriesFolder[] = "kernels";
constexpr char kMarksFolder[] = "starting";
constexpr char kSuffix[] = ".bin";
constexpr char kTemporaryPrefix[] = ".new-";
constexpr uint64_t kLargestEntry = uint64_t{256} << 20;
constexpr time_t kStaleSeconds = 3600;  // a temporary file that is older was left behind
constexpr time_t kStaleMarkSeconds = 7 * 24 * 3600;

struct EntryHeader {
  char magic[8] = {'f', 'a', 'c', 'u', 'l', 'a', '0', '1'};
  uint64_t bytes = 0;
  Digest key = {}, contents = {};
};
static_assert(sizeof(EntryHeader) == 80);

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }
  int release() {
    const int value = value_;
    value_ = -1;
    return value;
  }

 private:
  int value_;
};

bool read_all(int file, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(file, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int file, std::span<const char> from) {
  while (!from.empty()) {
    const ssize_t put = ::write(file, from.data(), from.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from = from.subspan(static_cast<size_t>(put));
  }
  return true;
}

// Nobody but the user may write there.
std::string complaint(const struct stat& info, const std::string& path) {
  if (info.st_uid != ::geteuid())
    return str(path, " belongs to another user (number ", static_cast<long>(info.st_uid), "; this process runs as ",
               static_cast<long>(::geteuid()), ")");
  if ((info.st_mode & 022) != 0) return str(path, " may be written by others; make it yours alone (chmod 700)");
  return {};
}

// Opens a folder that is no link, in `parent` or by its absolute path, and checks it. Returns -1 with a complaint.
int open_folder(int parent, const char* name, const std::string& path, std::string& why) {
  Descriptor folder(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) {
    why = errno == ELOOP || errno == ENOTDIR ? str(path, " is a link or no folder")
                                             : str(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat info;
  if (::fstat(folder.get(), &info) != 0) {
    why = str(path, ": ", std::strerror(errno));
    return -1;
  }
  why = complaint(info, path);
  return why.empty() ? folder.release() : -1;
}

// Makes a folder and all above it.
bool make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info;
      if (::stat(part.c_str(), &info) != 0) {
        errno = error;
        return false;
      }
    }
    if (end == std::string::npos) return true;
  }
}

std::string entry_name(const Digest& key) { return to_hex(key) + kSuffix; }

}  // namespace

DiskCache::DiskCache(std::string folder, uint64_t limit_bytes, std::string why_none)
    : folder_(std::move(folder)), why_none_(std::move(why_none)), limit_bytes_(limit_bytes) {}

DiskCache::~DiskCache() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (base_descriptor_ >= 0) ::close(base_descriptor_);
}

void DiskCache::warn_once(const std::string& cause) {
  if (warned_.exchange(true)) return;
  warn(Warning({__func__, __FILE__, __LINE__},
               str("compiled GPU kernels are not kept on disk: ", cause,
                   ". Every process compiles them again; name a folder of yours in FACULA_CACHE_DIR, or set "
                   "FACULA_CACHE_MB=0 to keep none without this warning")));
}

std::string DiskCache::prepare() {
  if (folder_.empty()) return why_none_;
  if (folder_.front() != '/') return str("\"", folder_, "\" is no absolute path");
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  if (!make_folders(folder_)) return str(folder_, " cannot be made: ", std::strerror(errno));
  std::string why;
  Descriptor base(open_folder(AT_FDCWD, folder_.c_str(), folder_, why));
  if (!base) return why;
  const std::string path = folder_ + "/" + kEntriesFolder;
  if (::mkdirat(base.get(), kEntriesFolder, 0700) != 0 && errno != EEXIST)
    return str(path, " cannot be made: ", std::strerror(errno));
  descriptor_ = open_folder(base.get(), kEntriesFolder, path, why);
  if (descriptor_ >= 0) base_descriptor_ = base.release();
  return why;
}

bool DiskCache::open() {
  std::string why;
  {
    std::lock_guard lock(mutex_);
    if (opened_) return descriptor_ >= 0;
    opened_ = true;
    if (limit_bytes_ > 0) why = prepare();
    if (descriptor_ < 0) folder_.clear();
  }
  if (!why.empty()) warn_once(why);  // a handler of the user's runs without our lock
  return descriptor_ >= 0;
}

const std::string& DiskCache::folder() {
  open();
  return folder_;
}

std::optional<std::vector<char>> DiskCache::read(const Digest& key) {
  if (!open()) return std::nullopt;
  const std::string name = entry_name(key);
  const Descriptor file(::openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat info = {};
  EntryHeader header;
  std::vector<char> contents;
  const auto whole = [&] {
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    if (!complaint(info, name).empty()) return false;
    const EntryHeader expected;
    if (!read_all(file.get(), &header, sizeof header)) return false;
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.key != key) return false;
    if (header.bytes > kLargestEntry || static_cast<uint64_t>(info.st_size) != sizeof header + header.bytes)
      return false;
    contents.resize(header.bytes);
    if (!read_all(file.get(), contents.data(), contents.size())) return false;
    return sha256(contents.data(), contents.size()) == header.contents;
  };
  if (!whole()) {
    rejected_.fetch_add(1, std::memory_order_relaxed);
    ::unlinkat(descriptor_, name.c_str(), 0);
    return std::nullopt;
  }
  // The time of the last change tells when an entry was last used: many file systems do not keep track of reads.
  if (::time(nullptr) - info.st_mtime > 60) ::futimens(file.get(), nullptr);
  return contents;
}

bool DiskCache::write_file(const std::string& name, std::span<const std::span<const char>> parts) {
  static std::atomic<uint32_t> counter{0};
  const std::string temporary =
      str(kTemporaryPrefix, static_cast<long>(::getpid()), "-", counter.fetch_add(1), "-", name);
  const auto fails = [&](int error) {
    ::unlinkat(descriptor_, temporary.c_str(), 0);
    write_failures_.fetch_add(1, std::memory_order_relaxed);
    writable_.store(false, std::memory_order_relaxed);  // a full disk is not tried again and again
    warn_once(str("cannot write in ", folder_, ": ", std::strerror(error)));
    return false;
  };
  {
    const Descriptor file(
        ::openat(descriptor_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return fails(errno);
    for (const std::span<const char> part : parts)
      if (!write_all(file.get(), part)) return fails(errno);
  }
  if (::renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) != 0) return fails(errno);
  return true;
}

void DiskCache::write(const Digest& key, std::span<const char> contents) {
  if (!open() || !writable_.load(std::memory_order_relaxed)) return;
  const uint64_t total = sizeof(EntryHeader) + contents.size();
  if (contents.size() > kLargestEntry || total > limit_bytes_) return;
  EntryHeader header;
  header.bytes = contents.size();
  header.key = key;
  header.contents = sha256(contents.data(), contents.size());
  const std::span<const char> parts[] = {{reinterpret_cast<const char*>(&header), sizeof header}, contents};
  if (!write_file(entry_name(key), parts)) return;
  bool too_large = false;
  {
    std::lock_guard lock(mutex_);
    size_bytes_ += total;
    too_large = !size_known_ || size_bytes_ > limit_bytes_;
  }
  if (too_large) shrink_to(limit_bytes_);
}

void DiskCache::remove(const Digest& key) {
  if (open()) ::unlinkat(descriptor_, entry_name(key).c_str(), 0);
}

int DiskCache::open_marks(bool make) {
  if (!open()) return -1;
  if (make && ::mkdirat(base_descriptor_, kMarksFolder, 0700) != 0 && errno != EEXIST) return -1;
  std::string ignored;
  return open_folder(base_descriptor_, kMarksFolder, kMarksFolder, ignored);
}

bool DiskCache::set_mark(const std::string& name) {
  const Descriptor folder(open_marks(true));
  if (!folder) return false;
  const Descriptor file(
      ::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return static_cast<bool>(file);
}

void DiskCache::remove_mark(const std::string& name) {
  const Descriptor folder(open_marks(false));
  if (folder) ::unlinkat(folder.get(), name.c_str(), 0);
}

std::vector<std::string> DiskCache::marks(const std::string& prefix) {
  std::vector<std::string> found;
  const int listing = open_marks(false);
  DIR* directory = listing >= 0 ? ::fdopendir(listing) : nullptr;
  if (!directory) {
    if (listing >= 0) ::close(listing);
    return found;
  }
  while (const dirent* entry = ::readdir(directory)) {
    struct stat info;
    if (::fstatat(listing, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0) found.emplace_back(entry->d_name);
    else if (::time(nullptr) - info.st_mtime > kStaleMarkSeconds) ::unlinkat(listing, entry->d_name, 0);
  }
  ::closedir(directory);
  return found;
}

std::string DiskCache::write_text(const std::string& name, std::string_view text) {
  if (!open() || !writable_.load(std::memory_order_relaxed)) return {};
  const std::span<const char> parts[] = {{text.data(), text.size()}};
  return write_file(name, parts) ? str(folder_, "/", kEntriesFolder, "/", name) : std::string();
}

void DiskCache::shrink_to(uint64_t bytes) {
  if (!open()) return;
  struct File {
    std::string name;
    uint64_t size;
    struct timespec used;
  };
  std::vector<File> files;
  uint64_t total = 0;
  // A descriptor of its own: a listing moves its position.
  const int listing = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = listing >= 0 ? ::fdopendir(listing) : nullptr;
  if (!directory) {
    if (listing >= 0) ::close(listing);
    return;
  }
  const time_t now = ::time(nullptr);
  while (const dirent* entry = ::readdir(directory)) {
    struct stat info;
    if (::fstatat(descriptor_, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode)) continue;
    if (std::strncmp(entry->d_name, kTemporaryPrefix, sizeof kTemporaryPrefix - 1) == 0) {
      if (now - info.st_mtime > kStaleSeconds) ::unlinkat(descriptor_, entry->d_name, 0);
      continue;
    }
    files.push_back({entry->d_name, static_cast<uint64_t>(info.st_size), info.st_mtim});
    total += files.back().size;
  }
  ::closedir(directory);
  if (total > bytes) {
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
      return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
    });
    // Some room is made at once, so that not every entry that comes looks at the whole folder.
    const uint64_t goal = bytes - bytes / 10;
    for (const File& file : files) {
      if (total <= goal) break;
      if (::unlinkat(descriptor_, file.name.c_str(), 0) == 0) total -= file.size;
    }
  }
  std::lock_guard lock(mutex_);
  size_known_ = true;
  size_bytes_ = total;
}

DiskCache& disk_cache() {
  static auto* cache = [] {
    const uint64_t limit = static_cast<uint64_t>(env_number(EnvVar::CacheMb, 0).value_or(1024)) << 20;
    if (const auto folder = env(EnvVar::CacheDir)) return new DiskCache(std::string(*folder), limit);
    // The standard of such folders says to ignore a relative one.
    if (const auto folder = env(EnvVar::XdgCacheHome); folder && folder->front() == '/')
      return new DiskCache(std::string(*folder) + "/facula", limit);
    if (const auto folder = env(EnvVar::Home); folder && folder->front() == '/')
      return new DiskCache(std::string(*folder) + "/.cache/facula", limit);
    return new DiskCache("", limit, "HOME is not set to a folder");
  }();
  return *cache;
}

}  // namespace facula::gpu
