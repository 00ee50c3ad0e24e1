// A strict reader of JSON text that comes from outside: it walks the text once and builds nothing by itself, so that
// what is allocated is what the caller asked for. Every error names the byte of the file at which the text goes wrong.
#pragma once

#include <facula/core/error.h>

#include "core/function_ref.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace facula::io {

class JsonReader {
 public:
  enum class Kind { Object, Array, String, Number, Boolean, Null };
  struct Number {
    bool is_integer = false;  // written without point and exponent, and within 64 bits
    int64_t integer = 0;
    double real = 0;
  };

  // `source` names the file in errors, `base` is where in it the text begins.
  JsonReader(std::string_view text, std::string source, uint64_t base = 0)
      : text_(text), source_(std::move(source)), base_(base) {}

  // What the next value is.
  Kind peek();
  // Calls `member` with each key, whose value it must read. A key that comes twice is an error.
  void object(FunctionRef<void(const std::string&)> member);
  // Calls `element` for each element, which it must read.
  void array(FunctionRef<void(size_t)> element);
  std::string string();
  Number number();
  // A whole number in [0, 2^63).
  int64_t size();
  bool boolean();
  void null();
  // Nothing but white space may be left.
  void end();

  // Byte of the file where the next value begins.
  uint64_t offset();
  [[noreturn]] void fail(uint64_t offset, const std::string& what) const;

 private:
  void skip_space();
  char next_byte(const char* wanted);
  void word(std::string_view expected);
  void escape(std::string& out);
  unsigned hex4();
  uint64_t here() const { return base_ + at_; }

  std::string_view text_;
  std::string source_;
  uint64_t base_;
  size_t at_ = 0;
  int depth_ = 0;
};

// `text` between quotes, as JSON writes it. The text must be UTF-8; `what` names it in the error.
void write_json_string(std::string& out, std::string_view text, const char* what);
bool is_utf8(std::string_view text);

}  // namespace facula::io
