// Memory maps and atomic writing, by the calls of POSIX.
#include "io/files.h"

#include <facula/core/error.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace facula::io {
namespace {

std::string reason(int error) { return std::strerror(error); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // 0, or the error: some file systems tell about failed writes only here.
  int close() {
    const int status = ::close(std::exchange(fd_, -1));
    return status == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

// Where a path leads: a link is followed, so that the file it names is replaced and not the link.
std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? std::string(buffer) : path;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new file next to `path` under a name that is nobody's.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& path, const std::string& shown, const char* op)
      : op_(op), path_(path), shown_(shown), file_(create(path)) {
    const int error = errno;
    FACULA_CHECK(file_.valid(), Error, op, ": cannot create a file in the folder '", folder_of(path),
                 "': ", reason(error));
    struct stat before;
    // The permissions of the file that is replaced stay.
    if (::stat(path.c_str(), &before) == 0) [[maybe_unused]]
      const int ignored = ::fchmod(file_.get(), before.st_mode & 07777);
    buffer_.reserve(kBufferBytes);
  }
  ~TemporaryFile() {
    if (!done_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* data, size_t size) {
    if (buffer_.size() + size > kBufferBytes) flush();
    if (size >= kBufferBytes) return write_through(static_cast<const char*>(data), size);
    const char* bytes = static_cast<const char*>(data);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
  }

  void finish() {
    flush();
    if (::fsync(file_.get()) != 0) fail(errno);
    if (const int error = file_.close()) fail(error);
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail(errno);
    done_ = true;
    // The folder's entry must be on the disk, too. Some file systems do not sync folders; the rename stands anyway.
    const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.valid()) ::fsync(folder.get());
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;

  int create(const std::string& path) {
    static std::atomic<unsigned> count{0};
    for (int attempt = 0; attempt < 100; ++attempt) {
      name_ = str(path, ".", ::getpid(), "-", count.fetch_add(1), ".tmp");
      const int fd = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
  }
  void flush() {
    write_through(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  void write_through(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t done = ::write(file_.get(), data, std::min<size_t>(size, size_t{1} << 30));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail(done == 0 ? ENOSPC : errno);
      data += done;
      size -= static_cast<size_t>(done);
    }
  }
  [[noreturn]] void fail(int error) const {
    throw Error(str(op_, ": cannot write '", shown_, "': ", reason(error), ". What was there before is unchanged"));
  }

  const char* op_;
  std::string path_, shown_, name_;
  Descriptor file_;
  std::vector<char> buffer_;
  bool done_ = false;
};

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path, const char* op) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int open_error = errno;
  FACULA_CHECK(file.valid(), Error, op, ": cannot open '", path, "': ", reason(open_error));
  struct stat status;
  const int stat_result = ::fstat(file.get(), &status);
  FACULA_CHECK(stat_result == 0, Error, op, ": cannot ask for the size of '", path, "': ", reason(errno));
  FACULA_CHECK(S_ISREG(status.st_mode), Error, op, ": '", path, "' is not a file",
               S_ISDIR(status.st_mode) ? " but a folder" : "");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  FACULA_CHECK(data != MAP_FAILED, Error, op, ": cannot map the ", size, " bytes of '", path, "': ", reason(errno));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

void write_file_atomically(const std::string& path, const char* op, FunctionRef<void(Sink)> write) {
  FACULA_CHECK(!path.empty() && path.back() != '/', ValueError, op, ": '", path, "' names no file");
  FACULA_CHECK(path.find('\0') == std::string::npos, ValueError, op, ": a path may not hold a zero byte");
  const std::string target = resolved(path);
  struct stat status;
  FACULA_CHECK(::stat(target.c_str(), &status) != 0 || S_ISREG(status.st_mode), Error, op, ": '", path,
               "' exists and is not a plain file, so it cannot be replaced");
  TemporaryFile file(target, path, op);
  write([&](const void* data, size_t size) { file.write(data, size); });
  file.finish();
}

}  // namespace facula::io
