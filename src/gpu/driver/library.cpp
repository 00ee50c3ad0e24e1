// Where shared libraries are looked for. Only folders that are written as absolute paths are used: a library that lies in the
// working directory must never be run by accident.
#include "gpu/driver/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <link.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/env.h"

namespace facula::gpu {

namespace {

#if defined(__aarch64__)
#define FACULA_MULTIARCH "aarch64-linux-gnu"
#define FACULA_CUDA_TARGET "sbsa-linux"
#else
#define FACULA_MULTIARCH "x86_64-linux-gnu"
#define FACULA_CUDA_TARGET "x86_64-linux"
#endif

// Folders of drivers, toolkits and containers. A pattern that matches several gives the newest version first.
constexpr const char* kKnownPlaces[] = {
    "/usr/lib/" FACULA_MULTIARCH,
    "/usr/lib/" FACULA_MULTIARCH "/nvidia/current",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/" FACULA_CUDA_TARGET "/lib",
    "/usr/local/cuda-*/lib64",
    "/usr/local/cuda-*/targets/" FACULA_CUDA_TARGET "/lib",
    "/opt/cuda/lib64",
    "/opt/nvidia/hpc_sdk/Linux_*/*/cuda/lib64",
    "/opt/rocm/lib",
    "/opt/rocm/lib64",
    "/opt/rocm-*/lib",
    "/opt/rocm-*/lib64",
};

// Folders with libraries inside a folder of Python packages.
constexpr const char* kPackageFolders[] = {
    "/nvidia/*/lib",
    "/torch/lib",
    "/_rocm_sdk_core/lib",
    "/_rocm_sdk_libraries*/lib",
};

struct Attempt {
  std::string file, result;
};
struct Search {
  std::string what, found;
  std::vector<Attempt> attempts;
};

struct Searches {
  std::mutex mutex;
  std::vector<Search> all;
};
Searches& searches() {
  static auto* all = new Searches;
  return *all;
}

// A program that runs with more rights than its caller must not let the caller's variables choose what it loads.
bool trusts_environment() { return ::getauxval(AT_SECURE) == 0; }

bool is_absolute(std::string_view path) { return !path.empty() && path.front() == '/'; }

std::string real_path(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? std::string(buffer) : path;
}

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(0, slash);
}

bool exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// What a pattern matches, the highest version first.
std::vector<std::string> matches(const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos)
    return exists(pattern) ? std::vector<std::string>{pattern} : std::vector<std::string>{};
  std::vector<std::string> found;
  glob_t result;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &result) == 0) {
    for (size_t i = 0; i < result.gl_pathc; ++i) found.emplace_back(result.gl_pathv[i]);
    ::globfree(&result);
  }
  std::sort(found.begin(), found.end(),
            [](const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) > 0; });
  return found;
}

// Characters of a folder's name that glob() would take for a pattern.
std::string escape_glob(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class FolderList {
 public:
  void add(const std::string& folder) {
    if (!is_absolute(folder)) return;
    if (std::find(folders_.begin(), folders_.end(), folder) == folders_.end()) folders_.push_back(folder);
  }
  void add_matches(const std::string& pattern) {
    for (const std::string& folder : matches(pattern)) add(folder);
  }
  const std::vector<std::string>& folders() const { return folders_; }

 private:
  std::vector<std::string> folders_;
};

// The file that holds this code: the library itself, or a program that it was linked into.
std::string own_file() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&own_file), &info) == 0 || info.dli_fname == nullptr) return {};
  return real_path(info.dli_fname);
}

// Folders of Python packages, the likeliest first: the active environment, the one that this library is installed in, the ones of
// the interpreter that runs, of the one on PATH, of the user and of the system.
std::vector<std::string> package_roots() {
  FolderList roots;
  const auto add_prefix = [&](std::string_view prefix) {
    if (!is_absolute(prefix)) return;
    roots.add_matches(escape_glob(prefix) + "/lib/python3*/site-packages");
    roots.add_matches(escape_glob(prefix) + "/lib64/python3*/site-packages");
  };
  const auto add_program = [&](const std::string& program) {  // <prefix>/bin/python3
    if (!is_absolute(program)) return;
    add_prefix(parent_of(parent_of(program)));
    const std::string resolved = real_path(program);
    add_prefix(parent_of(parent_of(resolved)));
  };

  if (const auto value = env(EnvVar::VirtualEnv)) add_prefix(*value);
  if (const auto value = env(EnvVar::CondaPrefix)) add_prefix(*value);
  const std::string own = own_file();
  for (std::string_view folder = parent_of(own); !folder.empty(); folder = parent_of(folder))
    if (folder.ends_with("/site-packages") || folder.ends_with("/dist-packages")) roots.add(std::string(folder));
  if (const auto value = env(EnvVar::PythonPath))
    for (std::string_view folder : split(*value, ':'))
      if (is_absolute(folder)) roots.add(std::string(folder));
  if (::program_invocation_name != nullptr) add_program(::program_invocation_name);
  add_program(real_path("/proc/self/exe"));
  if (const auto value = env(EnvVar::Path)) {
    for (std::string_view folder : split(*value, ':')) {
      const std::string program = std::string(folder) + "/python3";
      if (!is_absolute(folder) || !exists(program)) continue;
      add_program(program);
      break;
    }
  }
  if (const auto value = env(EnvVar::Home); value && is_absolute(*value)) add_prefix(std::string(*value) + "/.local");
  roots.add_matches("/usr/local/lib/python3*/dist-packages");
  roots.add_matches("/usr/local/lib/python3*/site-packages");
  roots.add_matches("/usr/lib/python3*/site-packages");
  roots.add_matches("/usr/lib/python3/dist-packages");
  return roots.folders();
}

// A folder of LD_LIBRARY_PATH that depends on the working directory and holds a file of that name. The system's lookup would
// load it.
std::optional<std::string> relative_hit(const char* soname) {
  const auto value = env(EnvVar::LdLibraryPath);
  if (!value) return std::nullopt;
  for (std::string_view list : split(*value, ';'))
    for (std::string_view folder : split(list, ':')) {
      if (is_absolute(folder)) continue;
      const std::string file = (folder.empty() ? std::string(".") : std::string(folder)) + "/" + soname;
      if (exists(file)) return file;
    }
  return std::nullopt;
}

// The file that a handle was loaded from.
std::string loaded_from(void* handle, const std::string& asked) {
  struct link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr && *map->l_name != '\0')
    return real_path(map->l_name);
  return asked;
}

// What dlopen says, without the file's name that it begins with.
std::string last_error(const std::string& file) {
  const char* text = ::dlerror();
  std::string error = text ? text : "unknown error of the dynamic linker";
  if (error.starts_with(file + ": ")) error.erase(0, file.size() + 2);
  return error;
}

// Fills the places; says which name is the first that is missing.
std::string load(const Library& library, std::span<const EntryPoint> entry_points) {
  for (const EntryPoint& entry_point : entry_points) {
    void* const address = library.symbol(entry_point.name);
    if (!address) return std::string("it has no ") + entry_point.name;
    std::memcpy(entry_point.place, &address, sizeof(address));
  }
  return {};
}

}  // namespace

void* Library::symbol(const char* name) const { return handle_ ? ::dlsym(handle_, name) : nullptr; }

Library find_library(const LibraryQuery& query) {
  Search search;
  search.what = query.what;
  Library library;
  bool any_file = false;             // whether any of the names exists anywhere
  std::vector<std::string> refused;  // several places lead to the same file

  const auto open = [&](const std::string& file, const char* soname) {
    if (is_absolute(file) && std::find(refused.begin(), refused.end(), real_path(file)) != refused.end()) return false;
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const std::string error = last_error(file);
      if (error.find("cannot open shared object file: No such file") == std::string::npos || is_absolute(file))
        any_file = true;
      search.attempts.push_back({file, error});
      return false;
    }
    any_file = true;
    Library candidate;
    candidate.handle_ = handle;
    candidate.name_ = soname;
    candidate.path_ = loaded_from(handle, file);
    std::string reason = load(candidate, query.entry_points);
    if (reason.empty() && query.refuse) reason = query.refuse(candidate);
    if (!reason.empty()) {
      // It stays loaded: many such libraries do not survive being closed.
      search.attempts.push_back({candidate.path_, std::move(reason)});
      refused.push_back(candidate.path_);
      return false;
    }
    library = std::move(candidate);
    return true;
  };
  const auto open_in = [&](const std::string& folder) {
    for (const char* soname : query.sonames) {
      const std::string file = folder + "/" + soname;
      if (exists(file) && open(file, soname)) return true;
    }
    return false;
  };
  const auto look = [&] {
    if (const auto folders = env(EnvVar::GpuLibraryPath); folders && trusts_environment()) {
      for (std::string_view folder : split(*folders, ':')) {
        if (folder.empty()) continue;
        if (!is_absolute(folder)) {
          search.attempts.push_back(
              {std::string(folder), "not looked at: FACULA_GPU_LIBRARY_PATH takes absolute folders only"});
        } else if (open_in(std::string(folder))) {
          return true;
        }
      }
    }
    if (is_absolute(query.beside) && open_in(query.beside)) return true;
    for (const char* soname : query.sonames) {
      if (const auto file = relative_hit(soname)) {
        search.attempts.push_back(
            {*file, "not loaded: LD_LIBRARY_PATH names a folder relative to the working directory"});
        for (std::string_view folder : split(*env(EnvVar::LdLibraryPath), ':'))
          if (is_absolute(folder) && open_in(std::string(folder))) return true;
      } else if (open(soname, soname)) {
        return true;
      }
    }
    for (const char* pattern : kKnownPlaces)
      for (const std::string& folder : matches(pattern))
        if (open_in(folder)) return true;
    if (query.in_python_packages && trusts_environment())
      for (const std::string& root : package_roots())
        for (const char* pattern : kPackageFolders)
          for (const std::string& folder : matches(escape_glob(root) + pattern))
            if (open_in(folder)) return true;
    return false;
  };

  if (look()) {
    search.found = library.path_;
  } else if (any_file) {
    // The first failure that is not plain absence says most.
    for (const Attempt& attempt : search.attempts) {
      if (attempt.result.find("No such file") != std::string::npos && !is_absolute(attempt.file)) continue;
      library.why_not_ = attempt.file + " cannot be used: " + attempt.result;
      break;
    }
  } else {
    library.why_not_ = std::string(query.sonames.empty() ? "" : query.sonames.front()) + " is not installed";
  }
  std::lock_guard lock(searches().mutex);
  searches().all.push_back(std::move(search));
  return library;
}

std::string describe_library_searches() {
  std::lock_guard lock(searches().mutex);
  std::string text;
  for (const Search& search : searches().all) {
    text += search.what + ": " + (search.found.empty() ? "not found" : search.found) + "\n";
    for (const Attempt& attempt : search.attempts) text += "  " + attempt.file + ": " + attempt.result + "\n";
  }
  return text;
}

}  // namespace facula::gpu
