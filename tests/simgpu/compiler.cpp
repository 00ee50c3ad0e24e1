// Compiles kernels with the host's compiler. Speed matters, since tests compile thousands: headers are written and precompiled once
// and kept in a folder of the user's, the fastest linker that is there is used, and nothing is optimized that does not pay.
#include "compiler.h"
#include "device_abi.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>

extern char** environ;

// The texts that belong to the compiler itself; the assembler finds them in this folder.
#define EMBED(symbol, file)                                                                      \
  asm(".section .rodata\n.globl " #symbol "\n.hidden " #symbol "\n" #symbol ":\n.incbin \"" file \
      "\"\n.byte 0\n.previous\n");                                                               \
  extern "C" const char symbol[];
EMBED(simgpu_text_abi, "device_abi.h")
EMBED(simgpu_text_prelude, "prelude.h")
EMBED(simgpu_text_math, "prelude_math.h")
EMBED(simgpu_text_runtime, "device_runtime.cpp")
EMBED(simgpu_text_waits, "device_waits.cpp")

namespace simgpu {
namespace {

uint64_t hash(const std::string& text, uint64_t seed = 1469598103934665603ull) {
  for (unsigned char c : text) seed = (seed ^ c) * 1099511628211ull;
  return seed ^ (seed >> 29);
}
std::string hex(uint64_t n) {
  char text[20];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(n));
  return text;
}

bool write_file(const std::string& path, const std::string& text) {
  FILE* file = fopen(path.c_str(), "w");
  if (!file) return false;
  const bool ok = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && ok;
}
std::string read_file(const std::string& path) {
  std::string text;
  FILE* file = fopen(path.c_str(), "r");
  if (!file) return text;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  fclose(file);
  return text;
}
bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }
void make_folders(const std::string& path) {
  for (size_t at = 1; (at = path.find('/', at)) != std::string::npos; ++at) mkdir(path.substr(0, at).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}
void remove_folder(const std::string& path) {
  const std::string command = "rm -rf '" + path + "'";
  if (system(command.c_str()) != 0) return;
}

std::string on_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return exists(program) ? program : "";
  const char* path = getenv("PATH");
  std::string folders = path ? path : "/usr/bin:/bin";
  for (size_t at = 0; at <= folders.size();) {
    size_t end = folders.find(':', at);
    if (end == std::string::npos) end = folders.size();
    const std::string full = folders.substr(at, end - at) + "/" + program;
    if (access(full.c_str(), X_OK) == 0) return full;
    at = end + 1;
  }
  return "";
}

struct Run {
  int status = -1;
  std::string output;
};
// Runs a program with its output taken down. Nothing of the program under test reaches it (LD_PRELOAD and such).
Run run(const std::vector<std::string>& words, const std::string& output_path) {
  Run result;
  std::vector<char*> arguments, environment;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (char** e = environ; *e; ++e)
    if (std::strncmp(*e, "LD_PRELOAD=", 11) != 0 && std::strncmp(*e, "LD_LIBRARY_PATH=", 16) != 0)
      environment.push_back(*e);
  std::string language = "LC_ALL=C";
  environment.push_back(language.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error) {
    result.output = words[0] + ": " + strerror(error);
    return result;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  result.output = read_file(output_path);
  return result;
}

// The compiler of the host and how to call it.
struct Toolchain {
  std::string compiler, archiver, linker_option, identity;
  bool clang = false;
};
const Toolchain& toolchain() {
  static const auto* tools = [] {
    auto* t = new Toolchain;
    const char* chosen = getenv("SIMGPU_CXX");
    for (const char* name : {chosen ? chosen : "g++", "g++", "c++", "clang++"})
      if (t->compiler.empty()) t->compiler = on_path(name);
    if (t->compiler.empty()) return t;
    for (const char* name : {"mold", "ld.lld"})
      if (t->linker_option.empty() && !on_path(name).empty())
        t->linker_option = std::string("-fuse-ld=") + (std::strcmp(name, "mold") == 0 ? "mold" : "lld");
    t->archiver = on_path("ar");
    char output[] = "/tmp/simgpu-XXXXXX";
    const int file = mkstemp(output);
    if (file >= 0) close(file);
    t->identity = run({t->compiler, "--version"}, output).output + t->linker_option;
    unlink(output);
    t->clang = t->identity.find("clang") != std::string::npos;
    return t;
  }();
  return *tools;
}

std::vector<std::string> common_flags(const Toolchain& t) {
  std::vector<std::string> flags = {"-O1",
                                    "-fPIC",
                                    "-w",
                                    "-nostdinc",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-threadsafe-statics",
                                    "-fwrapv",
                                    "-fno-strict-aliasing",
                                    "-fno-delete-null-pointer-checks",
                                    "-fsanitize=kernel-address"};
#if defined(__x86_64__)
  if (!t.clang) flags.insert(flags.end(), {"-mtls-dialect=gnu2"});
#endif
  if (t.clang) {
    for (const char* setting : {"-asan-instrumentation-with-call-threshold=0", "-asan-stack=0", "-asan-globals=0"})
      flags.insert(flags.end(), {"-mllvm", setting});
  } else {
    flags.insert(flags.end(), {"-fno-gnu-unique", "--param", "asan-instrumentation-with-call-threshold=0", "--param",
                               "asan-stack=0", "--param", "asan-globals=0"});
  }
  return flags;
}

// ---- the folder where headers and what was made of them are kept

std::string cache_root() {
  static const auto* root = [] {
    const char* chosen = getenv("SIMGPU_CACHE");
    auto* path = new std::string(chosen && *chosen ? chosen : "/tmp/simgpu-" + std::to_string(getuid()));
    make_folders(*path);
    struct stat info;
    // Somebody else's folder is not used: one of this process instead.
    if (lstat(path->c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() || (info.st_mode & 022)) {
      char own[] = "/tmp/simgpu-XXXXXX";
      if (mkdtemp(own)) *path = own;
    }
    return path;
  }();
  return *root;
}

// Headers that nobody has used for two days are of older sources.
void drop_old_folders() {
  DIR* root = opendir(cache_root().c_str());
  if (!root) return;
  while (const dirent* entry = readdir(root)) {
    if (std::strncmp(entry->d_name, "headers_", 8) != 0) continue;
    const std::string path = cache_root() + "/" + entry->d_name;
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && info.st_mtime < time(nullptr) - 2 * 24 * 3600) remove_folder(path);
  }
  closedir(root);
}

// Makes a folder once, whoever comes first: filled under another name, then renamed.
bool make_once(const std::string& folder, const std::function<bool(const std::string&)>& fill) {
  if (exists(folder)) return true;
  static std::atomic<int> number{0};
  const std::string temporary = folder + ".tmp" + std::to_string(getpid()) + "_" + std::to_string(++number);
  make_folders(temporary);
  const bool ok = fill(temporary);
  if (!ok || rename(temporary.c_str(), folder.c_str()) != 0) remove_folder(temporary);
  return exists(folder);
}

// The parts that are linked into every kernel.
bool make_runtime(const Toolchain& t, std::string& folder, std::string& log) {
  const std::string texts = std::string(simgpu_text_abi) + simgpu_text_runtime + simgpu_text_waits;
  folder = cache_root() + "/runtime_" + hex(hash(texts + t.identity));
  return make_once(folder, [&](const std::string& to) {
    write_file(to + "/device_abi.h", simgpu_text_abi);
    write_file(to + "/device_runtime.cpp", simgpu_text_runtime);
    write_file(to + "/device_waits.cpp", simgpu_text_waits);
    for (const char* name : {"device_runtime", "device_waits"}) {
      std::vector<std::string> words = {t.compiler,
                                        "-std=c++17",
                                        "-O2",
                                        "-fPIC",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-c",
                                        to + "/" + name + ".cpp",
                                        "-o",
                                        to + "/" + name + ".o"};
      Run r = run(words, to + "/log");
      if (r.status != 0) {
        log += r.output;
        return false;
      }
    }
    Run r = run({t.archiver, "rcs", to + "/waits.a", to + "/device_waits.o"}, to + "/log");
    log += r.status ? r.output : "";
    return r.status == 0;
  });
}

// The headers of a program, adapted, and the prelude.
bool make_headers(const CompileJob& job, const std::vector<std::string>& inline_words, std::string& folder) {
  std::string all = std::string(simgpu_text_abi) + simgpu_text_prelude + simgpu_text_math;
  for (const auto& [name, text] : job.headers) all += name + "\n" + text;
  folder = cache_root() + "/headers_" + hex(hash(all)) + hex(hash(all, 77));
  return make_once(folder, [&](const std::string& to) {
    drop_old_folders();
    write_file(to + "/device_abi.h", simgpu_text_abi);
    write_file(to + "/prelude.h", simgpu_text_prelude);
    write_file(to + "/prelude_math.h", simgpu_text_math);
    for (const auto& [name, text] : job.headers) {
      const std::string path = to + "/" + name;
      make_folders(path.substr(0, path.rfind('/')));
      if (!write_file(path, adapt_text(text, inline_words))) return false;
    }
    return true;
  });
}

// A header with the lines that a source begins with, precompiled when they are seen the second time.
std::string prefix_header(const Toolchain& t, const std::vector<std::string>& flags, const std::string& folder,
                          const std::string& lines) {
  std::string key = lines + t.identity;
  for (const std::string& flag : flags) key += flag + "\n";
  const std::string path = folder + "/prefix_" + hex(hash(key)) + ".h";
  const std::string compiled = path + (t.clang ? ".pch" : ".gch");
  if (exists(compiled)) return path;
  static std::atomic<int> number{0};
  const std::string unique = ".tmp" + std::to_string(getpid()) + "_" + std::to_string(++number);
  if (!exists(path)) {
    write_file(path + unique, "#include \"prelude.h\"\n" + lines);
    rename((path + unique).c_str(), path.c_str());
    return path;
  }
  if (exists(path + ".bad")) return path;
  std::vector<std::string> words = {t.compiler};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"-I", folder, "-x", "c++-header", path, "-o", compiled + unique});
  const Run r = run(words, path + unique + ".log");
  unlink((path + unique + ".log").c_str());
  if (r.status == 0) rename((compiled + unique).c_str(), compiled.c_str());
  else write_file(path + ".bad", r.output);  // the kernel's own compilation tells what is wrong
  return path;
}

// ---- options

struct Parsed {
  std::string chip, standard = "-std=c++17";
  std::vector<std::string> passed;  // -D, -U and -I
  bool ptx = false;
};
bool parse_options(const CompileJob& job, Parsed& parsed, std::string& log) {
  parsed.chip = job.default_chip;
  for (size_t i = 0; i < job.options.size(); ++i) {
    std::string option = job.options[i];
    if (option.empty()) continue;
    for (const char* name : {"--gpu-architecture=", "-arch=", "--offload-arch="})
      if (option.rfind(name, 0) == 0) parsed.chip = option.substr(std::strlen(name));
    if (option.rfind("-std=", 0) == 0 || option.rfind("--std=", 0) == 0)
      parsed.standard = option.substr(option[1] == '-');
    for (const char* letter : {"-D", "-U", "-I"})
      if (option.rfind(letter, 0) == 0) {
        if (option.size() == 2 && i + 1 < job.options.size()) option += job.options[++i];
        parsed.passed.push_back(option);
      }
    if (option.rfind("--define-macro=", 0) == 0) parsed.passed.push_back("-D" + option.substr(15));
    if (option[0] != '-') {
      log = "unrecognized option " + option + " found";
      return false;
    }
  }
  if (parsed.chip.rfind("compute_", 0) == 0) {
    parsed.ptx = true;
    parsed.chip = "sm_" + parsed.chip.substr(8);
  }
  const bool fits = job.hip ? parsed.chip.rfind("gfx", 0) == 0 : parsed.chip.rfind("sm_", 0) == 0;
  if (!fits) log = "invalid value for --gpu-architecture (-arch): " + parsed.chip;
  return fits;
}

// ---- kernels of a program

void included_texts(const CompileJob& job, const std::string& text, std::set<std::string>& seen,
                    std::vector<const std::string*>& texts) {
  for (const std::string& name : included_names(text))
    for (const auto& [header, header_text] : job.headers)
      if (header == name && seen.insert(name).second) {
        texts.push_back(&header_text);
        included_texts(job, header_text, seen, texts);
      }
}

unsigned tls_bytes(const std::string& library) {
  Elf64_Ehdr header;
  if (library.size() < sizeof header) return 0;
  std::memcpy(&header, library.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const size_t at = header.e_phoff + i * sizeof segment;
    if (at + sizeof segment > library.size()) return 0;
    std::memcpy(&segment, library.data() + at, sizeof segment);
    if (segment.p_type == PT_TLS) return static_cast<unsigned>(segment.p_memsz);
  }
  return 0;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

struct Work {
  std::string folder;
  Work() {
    char name[] = "/tmp/simgpu-work-XXXXXX";
    if (mkdtemp(name)) folder = name;
  }
  ~Work() {
    for (const char* file : {"/kernel.cu", "/kernel.so", "/log", "/list"}) unlink((folder + file).c_str());
    rmdir(folder.c_str());
  }
};

}  // namespace

std::string lowered_name(size_t n) { return "simgpu_lowered_" + std::to_string(n); }

void compile(CompileJob& job) {
  const Toolchain& t = toolchain();
  if (t.compiler.empty() || t.archiver.empty()) {
    job.log = "the software GPU needs g++ (or clang++) and ar to compile kernels; set SIMGPU_CXX";
    return;
  }
  Parsed parsed;
  if (!parse_options(job, parsed, job.log)) {
    job.bad_option = true;
    return;
  }
  std::vector<const std::string*> texts = {&job.source};
  for (const auto& [name, text] : job.headers) texts.push_back(&text);
  const std::vector<std::string> inline_words = force_inline_words(texts);
  std::string runtime, headers;
  Work work;
  if (work.folder.empty() || !make_runtime(t, runtime, job.log) || !make_headers(job, inline_words, headers)) {
    job.log += "the software GPU cannot write to " + cache_root();
    return;
  }

  std::vector<std::string> flags = common_flags(t);
  flags.push_back(parsed.standard);
  flags.insert(flags.end(), parsed.passed.begin(), parsed.passed.end());
  flags.push_back("-DSIMGPU_LANES=" + std::to_string(job.lanes));
  if (job.hip) flags.push_back("-DSIMGPU_HIP=1");
  else flags.push_back("-DSIMGPU_ARCH=" + std::to_string(atoi(parsed.chip.c_str() + 3) * 10));

  size_t body = 0;
  const std::string lines = leading_lines(job.source, body);
  const std::string adapted_source = adapt_text(job.source, inline_words);
  const std::string prefix = prefix_header(t, flags, headers, lines);

  // Kernels are found in the text; where macros or headers make them, in what the preprocessor gives.
  std::set<std::string> seen;
  std::vector<const std::string*> included;
  included_texts(job, job.source, seen, included);
  bool hidden = defines_with(job.source, "__global__");
  for (const std::string* text : included) hidden = hidden || text->find("__global__") != std::string::npos;
  std::vector<FoundKernel> kernels;
  if (hidden) {
    write_file(work.folder + "/kernel.cu", adapted_source);
    std::vector<std::string> words = {t.compiler};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"-DSIMGPU_LIST_KERNELS=1", "-I", headers, "-include", headers + "/prelude.h", "-x",
                               "c++", "-E", "-P", work.folder + "/kernel.cu", "-o", work.folder + "/list"});
    if (run(words, work.folder + "/log").status == 0)
      kernels = find_kernels(read_file(work.folder + "/list"), "simgpu_global_function", "simgpu_launch_bounds");
  } else {
    kernels = find_kernels(job.source, "__global__", "__launch_bounds__");
  }

  // The leading lines are in the header: blank here, so that lines keep their numbers.
  std::string source = "#line 1 \"" + job.name + "\"\n";
  size_t adapted_body = 0;
  const auto lead = std::count(job.source.begin(), job.source.begin() + static_cast<long>(body), '\n');
  for (long i = 0; i < lead; ++i) adapted_body = adapted_source.find('\n', adapted_body) + 1;
  source.append(static_cast<size_t>(lead), '\n');
  source += adapted_source.substr(adapted_body);
  source += "\n#line 1 \"kernels of " + job.name + "\"\n";
  for (const FoundKernel& kernel : kernels)
    source += "SIMGPU_KERNEL(" + kernel.name + ", (" + kernel.name + "), (" +
              (kernel.bounds.empty() ? "0" : kernel.bounds) + "))\n";
  for (size_t i = 0; i < job.expressions.size(); ++i)
    source += "SIMGPU_EXPRESSION(" + lowered_name(i) + ", (" + job.expressions[i] + "))\n";
  write_file(work.folder + "/kernel.cu", source);

  std::vector<std::string> words = {t.compiler, "-pipe"};
  words.insert(words.end(), flags.begin(), flags.end());
  if (t.clang && exists(prefix + ".pch")) words.insert(words.end(), {"-include-pch", prefix + ".pch"});
  else words.insert(words.end(), {"-include", prefix});
  words.insert(words.end(),
               {"-I", headers, "-x", "c++", work.folder + "/kernel.cu", "-x", "none", runtime + "/device_runtime.o",
                runtime + "/waits.a", "-shared", "-nostdlib", "-Wl,-Bsymbolic", "-Wl,--build-id=none"});
  if (!t.linker_option.empty()) words.push_back(t.linker_option);
  words.insert(words.end(), {"-o", work.folder + "/kernel.so", "-lm", "-lc", "-lgcc"});
  const Run r = run(words, work.folder + "/log");
  job.log = r.output;
  replace_all(job.log, headers + "/", "");
  replace_all(job.log, work.folder + "/kernel.cu", job.name);
  if (r.status != 0) {
    if (job.log.empty()) job.log = "the host compiler failed without a word";
    return;
  }
  std::string library = read_file(work.folder + "/kernel.so");
  const unsigned shared = tls_bytes(library), most = job.hip ? 64u << 10 : 48u << 10;
  if (shared > most) {
    job.log = "error: a kernel uses too much shared data (" + std::to_string(shared) + " bytes, " +
              std::to_string(most) + " max)";
    return;
  }
  simgpu_image_header header = {};
  std::memcpy(header.magic, SIMGPU_MAGIC, 8);
  header.bytes = library.size();
  header.lanes = static_cast<unsigned>(job.lanes);
  header.version = static_cast<unsigned>(job.version);
  header.ptx = parsed.ptx;
  snprintf(header.chip, sizeof header.chip, "%s", parsed.chip.c_str());
  job.is_ptx = parsed.ptx;
  job.binary.assign(reinterpret_cast<const char*>(&header), sizeof header);
  job.binary += library;
  job.ok = true;
}

}  // namespace simgpu
