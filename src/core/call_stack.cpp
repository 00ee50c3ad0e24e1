// Return addresses by glibc, their names by the loader's tables, and the rest by addr2line.
#include "core/call_stack.h"

#include "core/demangle.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>

namespace facula::detail {

namespace {

constexpr int kMaxFrames = 64;
constexpr size_t kAddressesOfACommand = 400;

void* base_of(void* address) {
  Dl_info info{};
  return address && dladdr(address, &info) ? info.dli_fbase : nullptr;
}

void* library_base() {
  static void* const base = base_of(reinterpret_cast<void*>(&return_addresses));
  return base;
}

bool is_linked_into_the_program() {
  // Where the program begins lies in the program.
  static const bool is = library_base() == base_of(reinterpret_cast<void*>(getauxval(AT_ENTRY)));
  return is;
}

std::string path_of_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 && length < static_cast<ssize_t>(sizeof path) ? std::string(path, static_cast<size_t>(length))
                                                                  : std::string();
}

bool read_line(FILE* from, std::string& line) {
  line.clear();
  char piece[1024];
  while (std::fgets(piece, sizeof piece, from)) {
    line += piece;
    if (line.back() != '\n') continue;
    line.pop_back();
    return true;
  }
  return false;
}

// What is not known is "??", "??:0", "a.cpp:?" or ":?". The compiler counts copies of a line, as in "a.cpp:12 (discriminator 3)".
std::string known_part(const std::string& line) {
  if (line.empty() || line[0] == '?' || line.ends_with(":?") || line.ends_with(":0")) return {};
  return line.substr(0, line.find(" (discriminator"));
}

struct Unnamed {
  uintptr_t offset;
  CodePlace* place;
};

// Fills in what addr2line says of places in one file.
void ask_addr2line(const std::string& path, std::span<const Unnamed> wanted) {
  if (path.empty() || path.find('\'') != std::string::npos) return;
  std::string command = "addr2line -f -C -e '" + path + "'";
  for (const Unnamed& each : wanted) {
    char number[24];
    std::snprintf(number, sizeof number, " 0x%zx", static_cast<size_t>(each.offset));
    command += number;
  }
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return;
  std::string function, line;
  for (const Unnamed& each : wanted) {
    if (!read_line(pipe, function) || !read_line(pipe, line)) break;
    if (each.place->function.empty()) each.place->function = known_part(function);
    each.place->line = known_part(line);
  }
  pclose(pipe);
}

}  // namespace

std::vector<void*> return_addresses() {
  void* frames[kMaxFrames];
  const int count = backtrace(frames, kMaxFrames);
  return std::vector<void*>(frames, frames + count);
}

bool is_outside_library(void* address) {
  Dl_info info{};
  return dladdr(address, &info) && info.dli_fname && info.dli_fbase != library_base();
}

std::vector<void*> callers_of_library(std::span<void* const> addresses) {
  std::vector<void*> found;
  for (void* address : addresses)
    if (is_linked_into_the_program() || is_outside_library(address)) found.push_back(address);
  return found;
}

std::vector<CodePlace> places_of(std::span<void* const> addresses) {
  std::vector<CodePlace> places(addresses.size());
  std::map<std::string, std::vector<Unnamed>> by_file;
  for (size_t i = 0; i < addresses.size(); ++i) {
    // The return address is one past the call, which may be the last thing of its function.
    const uintptr_t call = reinterpret_cast<uintptr_t>(addresses[i]) - 1;
    Dl_info info{};
    link_map* file = nullptr;
    if (!dladdr1(reinterpret_cast<void*>(call), &info, reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) || !file ||
        !info.dli_fname)
      continue;
    // The loader knows the program itself by the name it was called by, which need not be a path.
    const bool is_program = !file->l_name || file->l_name[0] == '\0';
    const std::string path = is_program ? path_of_program() : std::string(info.dli_fname);
    places[i].program = path.empty() ? info.dli_fname : path;
    if (info.dli_sname) places[i].function = demangled(info.dli_sname);
    by_file[path].push_back({call - static_cast<uintptr_t>(file->l_addr), &places[i]});
  }
  for (const auto& [path, all] : by_file) {
    for (std::span<const Unnamed> left = all; !left.empty();) {
      const size_t taken = left.size() < kAddressesOfACommand ? left.size() : kAddressesOfACommand;
      ask_addr2line(path, left.first(taken));
      left = left.subspan(taken);
    }
  }
  return places;
}

}  // namespace facula::detail
