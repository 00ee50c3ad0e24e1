// Reads the list of parameters of a kernel out of its text, and compares arguments with it.
#include "gpu/api/kernel_signature.h"

#include <facula/core/error.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace facula::cuda {

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// The text without comments, literals and directives; the names of its macros are put into `macros`.
std::string bare(const std::string& source, std::set<std::string>& macros) {
  std::string text;
  bool line_begins = true;
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    const char next = i + 1 < source.size() ? source[i + 1] : '\0';
    if (c == '/' && next == '/') {
      i = std::min(source.find('\n', i), source.size());
    } else if (c == '/' && next == '*') {
      const size_t end = source.find("*/", i + 2);
      i = end == std::string::npos ? source.size() : end + 2;
      text += ' ';
    } else if (c == '"' || c == '\'') {
      for (++i; i < source.size() && source[i] != c && source[i] != '\n'; ++i)
        if (source[i] == '\\') ++i;
      ++i;
      text += ' ';
    } else if (c == '#' && line_begins) {
      size_t end = std::min(source.find('\n', i), source.size());
      while (end < source.size() && source[end - 1] == '\\') end = std::min(source.find('\n', end + 1), source.size());
      const size_t define = source.find("define", i);
      if (define < end) {
        size_t at = define + 6;
        while (at < end && !is_word(source[at])) ++at;
        size_t after = at;
        while (after < end && is_word(source[after])) ++after;
        macros.insert(source.substr(at, after - at));
      }
      i = end;
    } else {
      if (c == '\n') line_begins = true;
      else if (c != ' ' && c != '\t') line_begins = false;
      text += c;
      ++i;
    }
  }
  return text;
}

std::string trimmed(std::string_view text) {
  std::string made;  // with single spaces
  for (char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) made += c;
    else if (!made.empty() && made.back() != ' ') made += ' ';
  }
  if (!made.empty() && made.back() == ' ') made.pop_back();
  return made;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_word(text[i])) continue;
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    words.push_back(text.substr(i, end - i));
    i = end;
  }
  return words;
}

// The type that these words name, of the language or of <cstdint>, as CUDA and HIP have them.
void name_type(const std::vector<std::string>& words, Parameter& made) {
  using Class = Parameter::Class;
  static const std::map<std::string, std::pair<Class, size_t>> kSingle = {
      {"bool", {Class::Integer, 1}},     {"float", {Class::Floating, 4}},   {"double", {Class::Floating, 8}},
      {"int8_t", {Class::Integer, 1}},   {"uint8_t", {Class::Integer, 1}},  {"int16_t", {Class::Integer, 2}},
      {"uint16_t", {Class::Integer, 2}}, {"int32_t", {Class::Integer, 4}},  {"uint32_t", {Class::Integer, 4}},
      {"int64_t", {Class::Integer, 8}},  {"uint64_t", {Class::Integer, 8}}, {"size_t", {Class::Integer, 8}},
      {"ptrdiff_t", {Class::Integer, 8}}};
  if (words.size() == 1) {
    if (const auto found = kSingle.find(words[0]); found != kSingle.end()) {
      made.known = true;
      made.kind = found->second.first;
      made.bytes = found->second.second;
      return;
    }
  }
  std::map<std::string, int> count;
  for (const std::string& word : words) ++count[word];
  int understood = 0;
  for (const char* word : {"signed", "unsigned", "char", "short", "int", "long"}) understood += count[word];
  if (words.empty() || understood != static_cast<int>(words.size())) return;
  made.known = true;
  made.kind = Class::Integer;
  made.bytes = count["char"] ? 1 : count["short"] ? 2 : count["long"] ? 8 : 4;
}

// Nothing when it may be a macro that stands for several.
std::optional<Parameter> read_parameter(const std::string& text, const std::set<std::string>& macros) {
  Parameter made;
  made.text = trimmed(text);
  std::vector<std::string> words = words_of(made.text);
  for (const std::string& word : words)
    if (macros.contains(word)) return std::nullopt;
  static const std::set<std::string> kNoType = {"const",      "volatile",          "restrict", "__restrict__",
                                                "__restrict", "__grid_constant__", "struct"};
  std::erase_if(words, [](const std::string& word) { return kNoType.contains(word); });
  if (words.empty() || made.text.find_first_of("&<(:=.") != std::string::npos) return made;
  const auto stars = std::count_if(made.text.begin(), made.text.end(), [](char c) { return c == '*' || c == '['; });
  made.is_pointer = stars > 0;
  made.known = made.is_pointer;  // to what, may stay unknown
  if (stars > 1) return made;    // to addresses
  name_type(words, made);
  if (made.kind != Parameter::Class::Unknown) return made;  // it has no name
  if (words.size() == 1 && !made.is_pointer) return std::nullopt;
  words.pop_back();
  name_type(words, made);
  return made;
}

// The list between the brackets that open at `open`; npos when they do not close.
size_t closing(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
  }
  return std::string::npos;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : list) {
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

// Where the list of a __global__ function `name` opens, for each of them.
std::vector<size_t> lists_of(const std::string& text, const std::string& name) {
  std::vector<size_t> found;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    size_t after = at + name.size();
    if ((at > 0 && is_word(text[at - 1])) || (after < text.size() && is_word(text[after]))) continue;
    while (after < text.size() && (text[after] == ' ' || text[after] == '\n' || text[after] == '\t')) ++after;
    if (after >= text.size() || text[after] != '(') continue;
    const std::string before = text.substr(0, at);
    const size_t end_of_last = before.find_last_of(";{}");
    const size_t marked = before.rfind("__global__");
    if (marked != std::string::npos && (end_of_last == std::string::npos || marked > end_of_last))
      found.push_back(after);
  }
  return found;
}

const char* kind_name(KernelArgument::Kind kind) {
  using Kind = KernelArgument::Kind;
  switch (kind) {
    case Kind::Tensor: return "a tensor";
    case Kind::Int32: return "an int of 32 bits";
    case Kind::UInt32: return "an unsigned int of 32 bits";
    case Kind::Int64: return "an int of 64 bits";
    case Kind::UInt64: return "an unsigned int of 64 bits";
    case Kind::Float: return "a float of 32 bits";
    case Kind::Double: return "a float of 64 bits";
    case Kind::Bool: return "a bool";
    case Kind::Int8: return "an int of 8 bits";
    case Kind::UInt8: return "an unsigned int of 8 bits";
    case Kind::Int16: return "an int of 16 bits";
    case Kind::UInt16: return "an unsigned int of 16 bits";
  }
  return "?";
}

size_t bytes_of(KernelArgument::Kind kind) {
  using Kind = KernelArgument::Kind;
  switch (kind) {
    case Kind::Bool:
    case Kind::Int8:
    case Kind::UInt8: return 1;
    case Kind::Int16:
    case Kind::UInt16: return 2;
    case Kind::Int32:
    case Kind::UInt32:
    case Kind::Float: return 4;
    case Kind::Tensor:
    case Kind::Int64:
    case Kind::UInt64:
    case Kind::Double: return 8;
  }
  return 0;
}

// Addresses may be given as numbers, and taken as such.
bool fits(const Parameter& parameter, KernelArgument::Kind kind) {
  using Kind = KernelArgument::Kind;
  const bool floating = kind == Kind::Float || kind == Kind::Double;
  const size_t bytes = parameter.is_pointer ? 8 : parameter.bytes;
  return bytes == bytes_of(kind) && floating == (!parameter.is_pointer && parameter.kind == Parameter::Class::Floating);
}

// Bytes can be read through a pointer to them, whatever they mean; so can the parts of complex numbers.
bool points_to(const Parameter& parameter, ScalarType dtype) {
  if (parameter.kind == Parameter::Class::Unknown || parameter.bytes == 1 || isComplexType(dtype)) return true;
  return parameter.bytes == elementSize(dtype) &&
         isFloatingType(dtype) == (parameter.kind == Parameter::Class::Floating);
}

std::string declared(const std::vector<Parameter>& parameters) {
  std::string text = "(";
  for (const Parameter& each : parameters) text += (text.size() > 1 ? ", " : "") + each.text;
  return text + ")";
}

}  // namespace

std::optional<std::vector<Parameter>> read_parameters(const std::string& source, const std::string& name) {
  std::set<std::string> macros;
  const std::string text = bare(source, macros);
  const std::vector<size_t> lists = lists_of(text, name);
  if (lists.size() != 1 || macros.contains(name)) return std::nullopt;
  const size_t end = closing(text, lists[0]);
  if (end == std::string::npos) return std::nullopt;
  const std::string list = text.substr(lists[0] + 1, end - lists[0] - 1);
  std::vector<Parameter> parameters;
  if (const std::string all = trimmed(list); all.empty() || all == "void") return parameters;
  for (const std::string& part : split(list)) {
    std::optional<Parameter> read = read_parameter(part, macros);
    if (!read) return std::nullopt;
    parameters.push_back(std::move(*read));
  }
  return parameters;
}

void check_arguments(const char* op, const std::vector<Parameter>& parameters, const KernelArgument* args,
                     size_t count) {
  FACULA_CHECK(count == parameters.size(), ValueError, op, ": ", count,
               count == 1 ? " argument was" : " arguments were", " given, and the kernel takes ", parameters.size(),
               ": ", declared(parameters));
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters[i];
    if (!parameter.known) continue;
    FACULA_CHECK(fits(parameter, args[i].kind()), ValueError, op, ": argument ", i, " is ", kind_name(args[i].kind()),
                 ", and the kernel declares ", parameter.text,
                 parameter.is_pointer ? "; give a tensor"
                                      : "; give a number of that type (in Python cuda.int64(n) and its like)");
    if (!parameter.is_pointer || args[i].kind() != KernelArgument::Kind::Tensor || !args[i].tensor().defined())
      continue;
    const ScalarType dtype = args[i].tensor().scalar_type();
    FACULA_CHECK(points_to(parameter, dtype), DTypeError, op, ": argument ", i, " is a tensor of ", dtype_name(dtype),
                 ", and the kernel declares ", parameter.text,
                 "; convert it with .to(), or declare a void*, which takes every dtype");
  }
}

}  // namespace facula::cuda
