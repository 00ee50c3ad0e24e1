// Reading the text of kernels, as far as the software GPU must: which kernels there are, and the few things that g++ does not
// accept where device compilers do.
#include "compiler.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace simgpu {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }

// Finds a whole word.
size_t find_word(const std::string& text, const std::string& word, size_t from) {
  for (size_t at = text.find(word, from); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const bool ends = at + word.size() >= text.size() || !is_word(text[at + word.size()]);
    if (begins && ends) return at;
  }
  return std::string::npos;
}

// Comments become spaces, so that places stay where they are.
std::string without_comments(std::string text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        if (text[i] == '\\') ++i;
    } else if (text[i] == '/' && text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n') text[i++] = ' ';
    } else if (text[i] == '/' && text[i + 1] == '*') {
      size_t end = text.find("*/", i + 2);
      end = end == std::string::npos ? text.size() : end + 2;
      for (; i < end; ++i)
        if (text[i] != '\n') text[i] = ' ';
      --i;
    }
  }
  return text;
}

size_t skip_space(const std::string& text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

// The place behind the bracket that closes the one at `at`.
size_t behind_bracket(const std::string& text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at + 1;
  }
  return at;
}

// Up to the first comma that is not in brackets.
std::string first_argument(const std::string& list) {
  int depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '(' || list[i] == '<') ++depth;
    if (list[i] == ')' || list[i] == '>') --depth;
    if (list[i] == ',' && depth == 0) return list.substr(0, i);
  }
  return list;
}

bool is_directive(const std::string& line, const char* name) {
  size_t at = skip_space(line, 0);
  if (at >= line.size() || line[at] != '#') return false;
  at = skip_space(line, at + 1);
  return line.compare(at, std::strlen(name), name) == 0;
}

template <class F>
void for_each_line(const std::string& text, F f) {
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    if (!f(text.substr(at, end - at), at)) return;
    at = end + 1;
  }
}

// extern __shared__ T name[];  ->  T* name = (T*)simgpu_dynamic_shared();
void adapt_dynamic_shared(std::string& line) {
  const size_t word = find_word(line, "extern", 0);
  if (word == std::string::npos) return;
  size_t at = skip_space(line, word + 6);
  if (line.compare(at, 10, "__shared__") != 0) return;
  at = skip_space(line, at + 10);
  for (const char* align : {"__align__", "alignas"})
    if (line.compare(at, std::strlen(align), align) == 0) at = skip_space(line, behind_bracket(line, at));
  const size_t bracket = line.find('[', at), end = line.find(';', at);
  if (bracket == std::string::npos || end == std::string::npos || bracket > end) return;
  std::string declaration = line.substr(at, bracket - at);
  while (!declaration.empty() && is_space(declaration.back())) declaration.pop_back();
  size_t name = declaration.size();
  while (name > 0 && is_word(declaration[name - 1])) --name;
  const std::string type = declaration.substr(0, name);
  line = line.substr(0, word) + type + "* " + declaration.substr(name) + " = (" + type + "*)simgpu_dynamic_shared()" +
         line.substr(end);
}

}  // namespace

std::vector<std::string> force_inline_words(const std::vector<const std::string*>& all) {
  std::vector<std::string> words = {"__forceinline__", "__inline__"};
  // A macro may stand for another one that is defined later: look until nothing new is found.
  for (bool found = true; found;) {
    found = false;
    for (const std::string* text : all)
      for_each_line(*text, [&](const std::string& line, size_t) {
        if (!is_directive(line, "define")) return true;
        size_t at = line.find("define") + 6;
        at = skip_space(line, at);
        size_t end = at;
        while (end < line.size() && is_word(line[end])) ++end;
        const std::string name = line.substr(at, end - at);
        if (end < line.size() && line[end] == '(') return true;
        if (std::find(words.begin(), words.end(), name) != words.end()) return true;
        for (const std::string& word : words)
          if (find_word(line, word, end) != std::string::npos) {
            words.push_back(name);
            found = true;
            return true;
          }
        return true;
      });
  }
  return words;
}

std::string adapt_text(const std::string& text, const std::vector<std::string>& inline_words) {
  std::string result;
  result.reserve(text.size() + 64);
  for_each_line(text, [&](std::string line, size_t) {
    // "__forceinline__ inline" says it twice, which g++ refuses.
    for (const std::string& word : inline_words)
      for (size_t at = find_word(line, word, 0); at != std::string::npos; at = find_word(line, word, at + 1)) {
        const size_t next = skip_space(line, at + word.size());
        if (line.compare(next, 6, "inline") == 0 && (next + 6 >= line.size() || !is_word(line[next + 6])))
          line.replace(next, 6, "      ");
      }
    adapt_dynamic_shared(line);
    result += line;
    result += '\n';
    return true;
  });
  return result;
}

std::vector<FoundKernel> find_kernels(const std::string& given, const std::string& marker,
                                      const std::string& bounds_word) {
  const std::string text = without_comments(given);
  std::vector<FoundKernel> kernels;
  for (size_t at = find_word(text, marker, 0); at != std::string::npos; at = find_word(text, marker, at + 1)) {
    size_t line_start = text.rfind('\n', at);
    line_start = line_start == std::string::npos ? 0 : line_start + 1;
    if (is_directive(text.substr(line_start, at - line_start), "define")) continue;
    // A template has its parameter list in front.
    size_t before = at;
    while (before > 0 && is_space(text[before - 1])) --before;
    if (before > 0 && text[before - 1] == '>') continue;
    FoundKernel kernel;
    for (size_t i = at + marker.size(); i < text.size();) {
      i = skip_space(text, i);
      if (i >= text.size() || text[i] == ';' || text[i] == '{') break;
      if (text[i] == '(') {
        // A declaration without a body is not a kernel yet.
        const size_t end = skip_space(text, behind_bracket(text, i));
        if (!kernel.name.empty() && end < text.size() && text[end] == '{') kernels.push_back(kernel);
        break;
      }
      if (!is_word(text[i])) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      const std::string word = text.substr(i, end - i);
      i = end;
      if (word == bounds_word || word == "__attribute__") {
        const size_t open = skip_space(text, i);
        const size_t close = behind_bracket(text, open);
        if (word == bounds_word) kernel.bounds = first_argument(text.substr(open + 1, close - open - 2));
        i = close;
        continue;
      }
      kernel.name = word;
    }
  }
  // Defined once each: a text may hold both branches of an #if.
  std::vector<FoundKernel> unique;
  for (const FoundKernel& kernel : kernels)
    if (std::none_of(unique.begin(), unique.end(), [&](const FoundKernel& k) { return k.name == kernel.name; }))
      unique.push_back(kernel);
  return unique;
}

std::string leading_lines(const std::string& text, size_t& end) {
  std::string lines, pending;
  end = 0;
  const std::string bare = without_comments(text);
  for_each_line(bare, [&](const std::string& line, size_t at) {
    const size_t first = skip_space(line, 0);
    const bool blank = first >= line.size();
    const bool include = is_directive(line, "include") && line.find('"') != std::string::npos;
    const bool define = is_directive(line, "define") && line.back() != '\\' && !defines_with(line, "__global__");
    if (!blank && !include && !define) return false;
    if (!blank) pending += line + "\n";
    if (include) {
      lines += pending;
      pending.clear();
      end = std::min(text.size(), at + line.size() + 1);
    }
    return true;
  });
  return lines;
}

std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> names;
  for_each_line(text, [&](const std::string& line, size_t) {
    if (!is_directive(line, "include")) return true;
    const size_t open = line.find_first_of("\"<");
    const size_t close = open == std::string::npos ? open : line.find_first_of("\">", open + 1);
    if (close != std::string::npos) names.push_back(line.substr(open + 1, close - open - 1));
    return true;
  });
  return names;
}

bool defines_with(const std::string& text, const std::string& word) {
  bool found = false;
  bool continued = false;
  for_each_line(text, [&](const std::string& line, size_t) {
    const bool inside = continued || is_directive(line, "define");
    continued = inside && !line.empty() && line.back() == '\\';
    if (inside && find_word(line, word, 0) != std::string::npos) found = true;
    return !found;
  });
  return found;
}

}  // namespace simgpu
