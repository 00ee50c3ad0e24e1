// The child process that tries a driver, and the memory of good results.
#include "gpu/driver/probe.h"

#include <facula/core/error.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/env.h"
#include "gpu/cache.h"
#include "gpu/driver/library.h"

namespace facula::gpu {

namespace {

// What the child sends: a fixed head, then the texts in this order.
struct Message {
  uint32_t ok = 0;
  uint32_t why_bytes = 0, path_bytes = 0, searches_bytes = 0;
};
constexpr uint32_t kLongestText = 1 << 20;

void send(int pipe, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(pipe, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
}

// A crash of the driver must end the child at once: no handler of the parent's, no core file, nothing printed.
void become_expendable() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGINT, SIGTERM, SIGPIPE, SIGALRM})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core = {0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const int null = ::open("/dev/null", O_RDWR);
  if (null >= 0) {
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO) ::close(null);
  }
}

[[noreturn]] void run_child(DriverOpening (*open)(), int pipe) {
  become_expendable();
  try {
    const DriverOpening opening = open();
    const std::string path = opening.driver ? opening.driver->path() : std::string();
    const std::string searches = describe_library_searches();
    const auto size = [](const std::string& text) {
      return static_cast<uint32_t>(text.size() < kLongestText ? text.size() : kLongestText);
    };
    const Message message = {opening.driver ? 1u : 0u, size(opening.why_not), size(path), size(searches)};
    send(pipe, &message, sizeof message);
    send(pipe, opening.why_not.data(), message.why_bytes);
    send(pipe, path.data(), message.path_bytes);
    send(pipe, searches.data(), message.searches_bytes);
  } catch (...) {
    ::_exit(3);
  }
  ::_exit(0);
}

// The message when all of it has come.
bool parse(const std::vector<char>& bytes, ProbeResult& result) {
  Message message;
  if (bytes.size() < sizeof message) return false;
  ::memcpy(&message, bytes.data(), sizeof message);
  if (message.why_bytes > kLongestText || message.path_bytes > kLongestText || message.searches_bytes > kLongestText)
    return false;
  const size_t total = sizeof message + message.why_bytes + message.path_bytes + message.searches_bytes;
  if (bytes.size() < total) return false;
  const char* at = bytes.data() + sizeof message;
  const auto take = [&](uint32_t size) {
    std::string text(at, size);
    at += size;
    return text;
  };
  result.ok = message.ok != 0;
  result.why_not = take(message.why_bytes);
  result.driver_path = take(message.path_bytes);
  result.searches = take(message.searches_bytes);
  return true;
}

// Ends a child that is not needed any more. One that hangs inside the kernel cannot be waited for and is left behind.
void end_child(pid_t child) {
  ::kill(child, SIGKILL);
  for (int i = 0; i < 100; ++i) {
    const pid_t ended = ::waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return;
    ::usleep(1000);
  }
}

std::string how_it_ended(const char* what, int status, const std::string& cure) {
  if (WIFSIGNALED(status))
    return str(what, " crashes when it is started (", ::strsignal(WTERMSIG(status)), " in a trial process); ", cure);
  return str(what, " ends the process when it is started (exit code ", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             " in a trial process); ", cure);
}

}  // namespace

ProbeResult probe(DriverOpening (*open)(), const char* what, double seconds, const std::string& cure) {
  using Clock = std::chrono::steady_clock;
  ProbeResult result;
  // What the child uses as well must be made before it: another thread that is just making it would not be there to finish.
  static_cast<void>(describe_library_searches());
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    result.could_not_try = true;
    result.why_not = str("no pipe: ", ::strerror(errno));
    return result;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    run_child(open, pipe[1]);
  }
  const int fork_error = errno;
  ::close(pipe[1]);
  if (child < 0) {
    ::close(pipe[0]);
    result.could_not_try = true;
    result.why_not = str("no child process: ", ::strerror(fork_error));
    return result;
  }

  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<char> bytes;
  char buffer[4096];
  bool complete = false, ended = false;
  int status = 0;
  while (!complete) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    pollfd waits = {pipe[0], POLLIN, 0};
    // Looks up now and then: another process that was forked meanwhile may hold the pipe open after the child has died.
    const int ready = ::poll(&waits, 1, static_cast<int>(left < 100 ? left : 100));
    if (ready < 0 && errno != EINTR) break;
    if (ready > 0) {
      const ssize_t got = ::read(pipe[0], buffer, sizeof buffer);
      if (got > 0) {
        bytes.insert(bytes.end(), buffer, buffer + got);
        complete = parse(bytes, result);
        continue;
      }
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      ended = true;  // the end of the pipe: the child is gone
      break;
    }
    if (::waitpid(child, &status, WNOHANG) == child) {
      ::close(pipe[0]);
      result.why_not = how_it_ended(what, status, cure);
      return result;
    }
  }
  ::close(pipe[0]);
  if (complete) {
    end_child(child);
    return result;
  }
  result = {};
  if (!ended) {
    end_child(child);
    result.why_not =
        str(what, " hangs: it did not start within ", seconds,
            " s in a trial process; restart the machine, or allow more time with FACULA_GPU_PROBE_SECONDS");
    return result;
  }
  pid_t waited;
  while ((waited = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  // Somebody else may have taken the status of the child.
  result.why_not =
      waited == child ? how_it_ended(what, status, cure) : str(what, " crashes when it is started; ", cure);
  return result;
}

// ---- memory ----

namespace {

// All that decides what a driver would say, apart from its file.
Digest probe_key(const char* what) {
  Sha256 hash;
  hash.add_text("probe 1").add_text(what);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  hash.add_text(boot);
  for (EnvVar variable :
       {EnvVar::GpuLibraryPath, EnvVar::LdLibraryPath, EnvVar::CudaVisibleDevices, EnvVar::HipVisibleDevices,
        EnvVar::RocrVisibleDevices, EnvVar::GpuDeviceOrdinal, EnvVar::NvidiaVisibleDevices, EnvVar::VirtualEnv}) {
    const auto value = env_or_empty(variable);
    hash.add_text(value ? "set" : "unset").add_text(value.value_or(""));
  }
  // Which library the system finds.
  struct stat info = {};
  if (::stat("/etc/ld.so.cache", &info) == 0)
    hash.add(&info.st_mtim, sizeof info.st_mtim).add(&info.st_size, sizeof info.st_size);
  return hash.finish();
}

// The file as it is now: another one in its place differs in one of these.
std::string identity_of(const std::string& path) {
  struct stat info = {};
  if (path.empty() || ::stat(path.c_str(), &info) != 0) return {};
  return str(path, "\n", static_cast<long>(info.st_size), " ", static_cast<long>(info.st_mtim.tv_sec), ".",
             static_cast<long>(info.st_mtim.tv_nsec), " ", static_cast<unsigned long>(info.st_ino));
}

// When a process began, in the system's ticks since its start; another process that has got its number began at another time.
// 0: there is no such process any more, or it has ended and waits to be collected.
unsigned long long begin_of(long process) {
  std::string text;
  std::getline(std::ifstream(str("/proc/", process, "/stat")), text);
  // NUMBER (NAME) STATE and 18 numbers before the time; the name may hold spaces and brackets itself.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return 0;
  const char* at = text.c_str() + name_end + 2;
  if (*at == 'Z' || *at == 'X') return 0;
  for (int field = 0; at && field < 19; ++field) at = ::strchr(at + 1, ' ');
  return at ? ::strtoull(at, nullptr, 10) : 0;
}

// A mark is KEY-PROCESS-BEGIN. Half of the key tells drivers and environments apart well enough.
std::string mark_prefix(const Digest& key) { return to_hex(key).substr(0, 32) + "-"; }

// A process of another container, whose number means nothing here, counts as gone: that costs a trial, never a crash.
bool is_left_behind(const char* process_and_begin) {
  char* end = nullptr;
  const long process = ::strtol(process_and_begin, &end, 10);
  if (process <= 0 || *end != '-') return true;
  const unsigned long long begin = ::strtoull(end + 1, nullptr, 10);
  if (begin == 0 || begin_of(::getpid()) == 0) return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
  return begin_of(process) != begin;
}

// Whether a process ended while it started the driver with this key. What was remembered is then forgotten, before the marks are:
// another process that finds no mark any more must not find the memory either.
bool forget_if_a_start_failed(const Digest& key) {
  const std::string prefix = mark_prefix(key);
  std::vector<std::string> left_behind;
  for (std::string& name : disk_cache().marks(prefix))
    if (is_left_behind(name.c_str() + prefix.size())) left_behind.push_back(std::move(name));
  if (left_behind.empty()) return false;
  disk_cache().remove(key);
  for (const std::string& name : left_behind) disk_cache().remove_mark(name);
  return true;
}

}  // namespace

bool probed_before(const char* what) {
  const Digest key = probe_key(what);
  if (forget_if_a_start_failed(key)) return false;
  const auto kept = disk_cache().read(key);
  if (!kept) return false;
  const std::string text(kept->begin(), kept->end());
  const std::string path = text.substr(0, text.find('\n'));
  return !text.empty() && identity_of(path) == text;
}

void remember_probe(const char* what, const std::string& driver_path) {
  const std::string identity = identity_of(driver_path);
  if (!identity.empty()) disk_cache().write(probe_key(what), {identity.data(), identity.size()});
}

StartMark::StartMark(const char* what) {
  const long process = ::getpid();
  const std::string name = str(mark_prefix(probe_key(what)), process, "-", begin_of(process));
  if (disk_cache().set_mark(name)) name_ = name;
}

StartMark::~StartMark() {
  try {
    if (!name_.empty()) disk_cache().remove_mark(name_);
  } catch (...) {
  }
}

}  // namespace facula::gpu
