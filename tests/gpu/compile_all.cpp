// compile_all cuda|hip CHIP FOLDER [N]: has the vendor's own compiler, which needs no GPU, compile for CHIP every kernel text that
// a run of the tests left in FOLDER (FACULA_KERNEL_DUMP), or one in N of them, through the library's Compiler.
//
// Most of the time of a compilation goes into the headers, so kernels go together, each in a namespace of its own. What fails
// in company is compiled again alone, so that the log is the kernel's own.
#include "gpu/driver/driver_open.h"
#include "gpu/kernel.h"
#include "gpu/kernel_share.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace facula::gpu;

constexpr size_t kTogether = 40;  // kernels of one compilation
constexpr size_t kShown = 3;      // failures whose log is printed

struct Text {
  std::string file;
  std::string source;
  std::string kernel;                // its `extern "C" __global__` function
  std::vector<std::string> options;  // of this kernel alone
  // The source taken apart: what it includes, the rest, and the macros that the rest defines.
  std::vector<std::string> includes;
  std::string body;
  std::vector<std::string> macros;
  bool can_go_together = true;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void take_apart(Text& text) {
  std::istringstream lines(text.source);
  bool after_includes = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t hash = line.find_first_not_of(" \t");
    const std::string_view directive =
        hash != std::string::npos && line[hash] == '#' ? std::string_view(line).substr(hash) : std::string_view();
    if (directive.starts_with("#include")) {
      // A header that was meant to see a macro or a declaration must stay where it is.
      if (after_includes) text.can_go_together = false;
      text.includes.push_back(line);
      continue;
    }
    if (directive.starts_with("#define ")) {
      const size_t begin = directive.find_first_not_of(" \t", 7);
      const size_t end = directive.find_first_of(" \t(", begin);
      text.macros.emplace_back(directive.substr(begin, end == std::string_view::npos ? end : end - begin));
    }
    if (directive.starts_with("#pragma once")) continue;
    if (line.find_first_not_of(" \t\r") != std::string::npos && !line.starts_with("//")) after_includes = true;
    text.body += line + "\n";
  }
  if (text.kernel.empty()) text.can_go_together = false;
}

// The words after `key` in a comment at the head of the text, which the library writes there.
std::vector<std::string> head_words(const std::string& source, const std::string& key) {
  const std::string begin = "// facula: " + key;
  const size_t at = source.find(begin);
  std::vector<std::string> found;
  if (at == std::string::npos) return found;
  std::istringstream words(source.substr(at + begin.size(), source.find('\n', at) - at - begin.size()));
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

Text read_text(const std::filesystem::path& path) {
  Text text;
  text.file = path.filename().string();
  text.source = read_file(path);
  text.options = head_words(text.source, "options");
  const auto names = head_words(text.source, "kernel");
  if (!names.empty()) text.kernel = names[0];
  take_apart(text);
  return text;
}

std::string own_name(size_t number) { return "kernel_" + std::to_string(number); }

std::string together(const std::vector<const Text*>& texts) {
  std::ostringstream out;
  std::set<std::string> included;
  for (const Text* text : texts)
    for (const std::string& line : text->includes)
      if (included.insert(line).second) out << line << "\n";
  out << "namespace facula {}\n";
  size_t number = 0;
  for (const Text* text : texts) {
    const std::string own = own_name(number++);
    // The names of the headers stay visible inside, and functions with C names get different ones.
    out << "namespace " << own << " { namespace facula { using namespace ::facula; }\n#define " << text->kernel << " "
        << text->kernel << "_" << own << "\n"
        << text->body << "#undef " << text->kernel << "\n";
    for (const std::string& macro : text->macros) out << "#undef " << macro << "\n";
    out << "}\n";
  }
  return out.str();
}

struct Failure {
  std::string file, log;
};

// What chooses the share: the commit, so that a failure comes back when it is looked into and every text has its turn before
// long; the seed, too, which can be set for another choice. Where there is no repository the seed alone.
std::string draw() {
  const char* seed = std::getenv("FACULA_SEED");
  std::string word = seed ? seed : "0";
  const char* folder = std::getenv("FACULA_SOURCE_DIR");
  if (!folder) return word;
  const std::string command = "git -C '" + std::string(folder) + "' rev-parse HEAD 2>/dev/null";
  if (FILE* git = ::popen(command.c_str(), "r")) {
    char commit[64] = {};
    if (std::fgets(commit, sizeof(commit), git)) word += " " + std::string(commit, std::string_view(commit).find('\n'));
    ::pclose(git);
  }
  return word;
}

class CompileAll {
 public:
  CompileAll(Compiler& compiler, std::string chip) : compiler_(compiler), chip_(std::move(chip)) {}

  void add(const std::vector<const Text*>& texts, const std::vector<std::string>& options) {
    if (texts.size() > 1) {
      ++compilations_;
      const CompileResult result = compiler_.compile("together", together(texts), kernel_headers(), chip_, options);
      if (result.ok && contains_all(result, texts)) {
        compiled_ += texts.size();
        return;
      }
    }
    for (const Text* text : texts) {
      ++compilations_;
      const CompileResult result = compiler_.compile(text->kernel, text->source, kernel_headers(), chip_, options);
      if (result.ok && result.binary.size() > 0) ++compiled_;
      else failures_.push_back({text->file, result.log});
    }
  }

  size_t compiled() const { return compiled_; }
  size_t compilations() const { return compilations_; }
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  // Every kernel is in the binary by its name: none was left out on the way.
  static bool contains_all(const CompileResult& result, const std::vector<const Text*>& texts) {
    const std::string_view binary(result.binary.data(), result.binary.size());
    for (size_t i = 0; i < texts.size(); ++i)
      if (binary.find(texts[i]->kernel + "_" + own_name(i) + '\0') == std::string_view::npos) return false;
    return true;
  }

  Compiler& compiler_;
  std::string chip_;
  size_t compiled_ = 0, compilations_ = 0;
  std::vector<Failure> failures_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5 || (std::string_view(argv[1]) != "cuda" && std::string_view(argv[1]) != "hip")) {
    std::cerr << "usage: " << argv[0] << " cuda|hip CHIP FOLDER [N: one in N]\n";
    return 2;
  }
  const std::string vendor = argv[1], chip = argv[2];
  CompilerOpening opening = vendor == "cuda" ? open_nvrtc() : open_hiprtc();
  if (!opening.compiler) {
    std::cerr << opening.why_not << "\n";
    return 1;
  }
  const std::filesystem::path folder = argv[3];
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.is_regular_file()) files.push_back(entry.path().filename().string());
  if (files.empty()) {
    std::cerr << "there is no kernel in " << argv[3] << ": the tests of GPUs write them there\n";
    return 1;
  }
  std::sort(files.begin(), files.end());
  // All of them take minutes for each chip: one in N, unless FACULA_TEST_KERNELS=all.
  const char* wanted = std::getenv("FACULA_TEST_KERNELS");
  const size_t share = argc > 4 && !(wanted && std::string_view(wanted) == "all") ? std::stoul(argv[4]) : 1;
  if (share > 1) {
    const std::string drawn_by = chip + " " + draw();
    files = facula::gpu_tests::share_of(files, share, drawn_by);
    std::printf("kernels: one in %zu, drawn by \"%s\"; FACULA_TEST_KERNELS=all takes all\n", share, drawn_by.c_str());
  }

  std::vector<Text> texts;
  for (const std::string& file : files) {
    Text text = read_text(folder / file);
    // Some tests look at what is said of a text that is wrong.
    if (text.source.find("// must not compile") == std::string::npos) texts.push_back(std::move(text));
  }
  // Kernels with the same headers and options go together.
  std::map<std::pair<std::vector<std::string>, std::vector<std::string>>, std::vector<const Text*>> groups;
  std::vector<const Text*> alone;
  for (const Text& text : texts) {
    if (text.can_go_together) groups[{text.includes, text.options}].push_back(&text);
    else alone.push_back(&text);
  }
  const auto begin = std::chrono::steady_clock::now();
  CompileAll all(*opening.compiler, chip);
  for (const auto& [key, members] : groups)
    for (size_t at = 0; at < members.size(); at += kTogether)
      all.add({members.begin() + static_cast<std::ptrdiff_t>(at),
               members.begin() + static_cast<std::ptrdiff_t>(std::min(at + kTogether, members.size()))},
              key.second);
  for (const Text* text : alone) all.add({text}, text->options);

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("kernels: %zu of %zu compiled for %s by %s in %zu compilations, %.0f s\n", all.compiled(), texts.size(),
              chip.c_str(), opening.compiler->version().c_str(), all.compilations(), seconds);
  size_t shown = 0;
  for (const Failure& failure : all.failures())
    if (shown++ < kShown) std::cout << "ERROR " << failure.file << "\n" << failure.log.substr(0, 4000) << "\n";
  return all.failures().empty() ? 0 : 1;
}
