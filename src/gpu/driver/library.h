// Shared libraries that are there or not: looked up in a fixed order of absolute places and by the system, never in the working
// directory, and never closed again. What was tried, and what came of it, is remembered for people.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <type_traits>

namespace facula::gpu {

// A loaded library, or the reason why there is none.
class Library {
 public:
  explicit operator bool() const { return handle_ != nullptr; }
  // The address of an exported name; nullptr when the library has none of that name.
  void* symbol(const char* name) const;
  // Fills a function pointer; false when the library lacks the name.
  template <class F>
  bool load(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(symbol(name));
    return function != nullptr;
  }
  // The name it was asked for by, and the file that it came from, links resolved.
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  // Why there is none, in one sentence; empty when there is one.
  const std::string& why_not() const { return why_not_; }

 private:
  friend Library find_library(const struct LibraryQuery& query);
  void* handle_ = nullptr;
  std::string name_, path_, why_not_;
};

// A name that a library exports, and the function pointer that its address goes into.
struct EntryPoint {
  template <class F>
    requires std::is_function_v<F>
  EntryPoint(F*& function, const char* exported) : place(&function), name(exported) {}
  void* place;
  const char* name;
};

struct LibraryQuery {
  const char* what;                      // for people: "CUDA driver"
  std::span<const char* const> sonames;  // the preferred one first: "libcuda.so.1"
  bool in_python_packages = true;        // whether installed Python packages may bring it
  // The folder of a library that it belongs to, looked at right after FACULA_GPU_LIBRARY_PATH; empty: none.
  std::string beside = {};
  // What it must export: the places are filled. A library that lacks one does not do, and the search goes on.
  std::span<const EntryPoint> entry_points = {};
  // A library that was loaded but does not do: returns why, and the search goes on. Empty text takes it.
  std::function<std::string(const Library&)> refuse = {};
};

// The first one that can be loaded. The order of places: the folders of FACULA_GPU_LIBRARY_PATH, `beside`, the system's own lookup,
// folders where drivers and toolkits install themselves, and the `nvidia`, `torch` and `rocm` folders of installed Python packages. In each place
// the names are tried in the order given.
Library find_library(const LibraryQuery& query);

// Every search of this process and what it found, one line each, then indented what was tried in vain.
std::string describe_library_searches();

}  // namespace facula::gpu
