// The strict JSON reader.
#include "io/json_reader.h"

#include <charconv>
#include <cmath>
#include <unordered_set>

namespace facula::io {
namespace {

constexpr int kMostNested = 192;

// Length of the UTF-8 sequence that begins at `at`, or 0 when there is none: neither overlong forms, nor surrogates,
// nor values beyond Unicode.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if ((first & 0xF0) == 0xE0) {
    if (!is_tail(1) || !is_tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!is_tail(1) || !is_tail(2) || !is_tail(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// A byte as a person can read it.
std::string shown(char c) {
  if (c > 0x20 && c < 0x7F) return str("'", c, "'");
  constexpr const char* digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return str("byte 0x", digits[byte >> 4], digits[byte & 15]);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

void JsonReader::fail(uint64_t offset, const std::string& what) const {
  throw FormatError(str(source_, ": at byte ", offset, ": ", what));
}

void JsonReader::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

uint64_t JsonReader::offset() {
  skip_space();
  return here();
}

char JsonReader::next_byte(const char* wanted) {
  skip_space();
  if (at_ >= text_.size()) fail(here(), str("the text ends where ", wanted, " is expected"));
  return text_[at_];
}

JsonReader::Kind JsonReader::peek() {
  const char c = next_byte("a value");
  if (c == '{') return Kind::Object;
  if (c == '[') return Kind::Array;
  if (c == '"') return Kind::String;
  if (c == '-' || is_digit(c)) return Kind::Number;
  if (c == 't' || c == 'f') return Kind::Boolean;
  if (c == 'n') return Kind::Null;
  fail(here(), str("expected a value, found ", shown(c)));
}

void JsonReader::object(FunctionRef<void(const std::string&)> member) {
  if (next_byte("'{'") != '{') fail(here(), str("expected '{', found ", shown(text_[at_])));
  if (++depth_ > kMostNested) fail(here(), str("more than ", kMostNested, " brackets inside of each other"));
  ++at_;
  std::unordered_set<std::string> seen;
  if (next_byte("a key or '}'") == '}') {
    ++at_;
    --depth_;
    return;
  }
  for (;;) {
    const uint64_t begin = offset();
    std::string key = string();
    if (!seen.insert(key).second) fail(begin, str("the name \"", key, "\" comes twice"));
    if (next_byte("':'") != ':') fail(here(), str("expected ':' after a key, found ", shown(text_[at_])));
    ++at_;
    member(key);
    const char c = next_byte("',' or '}'");
    if (c != ',' && c != '}') fail(here(), str("expected ',' or '}', found ", shown(c)));
    ++at_;
    if (c == '}') break;
  }
  --depth_;
}

void JsonReader::array(FunctionRef<void(size_t)> element) {
  if (next_byte("'['") != '[') fail(here(), str("expected '[', found ", shown(text_[at_])));
  if (++depth_ > kMostNested) fail(here(), str("more than ", kMostNested, " brackets inside of each other"));
  ++at_;
  if (next_byte("a value or ']'") == ']') {
    ++at_;
    --depth_;
    return;
  }
  for (size_t index = 0;; ++index) {
    element(index);
    const char c = next_byte("',' or ']'");
    if (c != ',' && c != ']') fail(here(), str("expected ',' or ']', found ", shown(c)));
    ++at_;
    if (c == ']') break;
  }
  --depth_;
}

unsigned JsonReader::hex4() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)              ? c - '0'
                      : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                      : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                               : -1;
    if (digit < 0) fail(here(), "expected four hexadecimal digits after \\u");
    code = code * 16 + static_cast<unsigned>(digit);
  }
  return code;
}

void JsonReader::escape(std::string& out) {
  const uint64_t begin = here();
  ++at_;
  if (at_ >= text_.size()) fail(here(), "the text ends inside of a string");
  const char c = text_[at_++];
  switch (c) {
    case '"':
    case '\\':
    case '/': out += c; return;
    case 'b': out += '\b'; return;
    case 'f': out += '\f'; return;
    case 'n': out += '\n'; return;
    case 'r': out += '\r'; return;
    case 't': out += '\t'; return;
    case 'u': break;
    default: fail(begin, str("unknown escape: backslash and ", shown(c)));
  }
  unsigned code = hex4();
  if (code >= 0xDC00 && code <= 0xDFFF) fail(begin, "second half of a surrogate pair without the first");
  if (code >= 0xD800 && code <= 0xDBFF) {
    if (text_.substr(at_, 2) != "\\u") fail(begin, "first half of a surrogate pair without the second");
    at_ += 2;
    const unsigned low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail(begin, "first half of a surrogate pair without the second");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(out, code);
}

std::string JsonReader::string() {
  if (next_byte("a string") != '"') fail(here(), str("expected a string, found ", shown(text_[at_])));
  ++at_;
  std::string out;
  for (;;) {
    if (at_ >= text_.size()) fail(here(), "the text ends inside of a string");
    const char c = text_[at_];
    if (c == '"') break;
    if (c == '\\') {
      escape(out);
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20) fail(here(), str("control character in a string: ", shown(c)));
    const size_t length = utf8_length(text_, at_);
    if (length == 0) fail(here(), str("a string is not UTF-8: ", shown(c)));
    out.append(text_, at_, length);
    at_ += length;
  }
  ++at_;
  return out;
}

JsonReader::Number JsonReader::number() {
  next_byte("a number");
  const size_t begin = at_;
  const auto here_is = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  const auto digits = [&] {
    if (at_ >= text_.size() || !is_digit(text_[at_])) fail(here(), "expected a digit");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  if (here_is('-')) ++at_;
  if (here_is('0')) ++at_;
  else digits();
  if (at_ < text_.size() && is_digit(text_[at_])) fail(base_ + begin, "a number may not begin with 0");
  Number made;
  made.is_integer = true;
  if (here_is('.')) {
    made.is_integer = false;
    ++at_;
    digits();
  }
  if (here_is('e') || here_is('E')) {
    made.is_integer = false;
    ++at_;
    if (here_is('+') || here_is('-')) ++at_;
    digits();
  }
  const char* first = text_.data() + begin;
  const char* last = text_.data() + at_;
  if (made.is_integer && std::from_chars(first, last, made.integer).ec != std::errc()) made.is_integer = false;
  const auto [stop, failed] = std::from_chars(first, last, made.real);
  if (failed != std::errc() || stop != last || !std::isfinite(made.real))
    fail(base_ + begin, "a number beyond what 64 bits hold");
  return made;
}

int64_t JsonReader::size() {
  const uint64_t begin = offset();
  const char c = next_byte("a whole number");
  if (c != '-' && !is_digit(c)) fail(begin, str("expected a whole number, found ", shown(c)));
  const Number found = number();
  if (!found.is_integer || found.integer < 0)
    fail(begin, str("expected a whole number from 0 to 2^63 - 1, found ",
                    std::string(text_.substr(begin - base_, here() - begin))));
  return found.integer;
}

void JsonReader::word(std::string_view expected) {
  if (text_.substr(at_, expected.size()) != expected) fail(here(), str("expected ", expected));
  at_ += expected.size();
}

bool JsonReader::boolean() {
  const bool truth = next_byte("true or false") == 't';
  word(truth ? "true" : "false");
  return truth;
}

void JsonReader::null() {
  next_byte("null");
  word("null");
}

void JsonReader::end() {
  skip_space();
  if (at_ < text_.size()) fail(here(), str("expected the end of the text, found ", shown(text_[at_])));
}

void write_json_string(std::string& out, std::string_view text, const char* what) {
  FACULA_CHECK(is_utf8(text), ValueError, what, ": the text is not UTF-8, which is what the file format holds");
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      constexpr const char* digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace facula::io
