// The typed errors that a user can meet, and the check macro that raises them. Texts name the op, the offending values
// and what to do instead; a user's mistake is never an assert.
#pragma once

#include <facula/core/export.h>

#include <exception>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace facula {

class FACULA_API Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  const std::string& msg() const noexcept { return message_; }
  // The class's name, as it stands in golden error files and becomes a Python exception.
  virtual const char* type_name() const noexcept { return "Error"; }

 private:
  std::string message_;
};

#define FACULA_ERROR_TYPE(Name)                                       \
  class FACULA_API Name : public Error {                              \
   public:                                                            \
    using Error::Error;                                               \
    const char* type_name() const noexcept override { return #Name; } \
  }

FACULA_ERROR_TYPE(ShapeError);
FACULA_ERROR_TYPE(DTypeError);
FACULA_ERROR_TYPE(DeviceError);
FACULA_ERROR_TYPE(IndexError);
FACULA_ERROR_TYPE(ValueError);
FACULA_ERROR_TYPE(OutOfMemoryError);
FACULA_ERROR_TYPE(NotSupportedError);
FACULA_ERROR_TYPE(FormatError);
FACULA_ERROR_TYPE(InternalError);
#undef FACULA_ERROR_TYPE

namespace detail {

template <class T>
concept HasText = requires(const T& v) {
                    { to_text(v) } -> std::convertible_to<std::string>;
                  };
// Types of users that print to streams.
template <class T>
concept Streamable = (std::is_class_v<T> || (std::is_enum_v<T> && !std::is_convertible_v<T, int>)) && !
std::is_convertible_v<T, std::string_view>&& requires(std::ostream& out, const T& v) { out << v; };

// One printable part of a message. Out of line, so that a check costs a user's translation unit no templates.
class FACULA_API Part {
 public:
  Part(const char* s);
  Part(char* s) : Part(static_cast<const char*>(s)) {}
  Part(std::string_view s) : text_(s) {}
  Part(const std::string& s) : text_(s) {}
  Part(char c) : text_(1, c) {}
  Part(bool v);
  Part(int v);
  Part(long v);
  Part(long long v);
  Part(unsigned v);
  Part(unsigned long v);
  Part(unsigned long long v);
  Part(double v);
  template <class T>
    requires(!std::is_arithmetic_v<T> && HasText<T>)
  Part(const T& v) : text_(to_text(v)) {}
  template <class T>
    requires(!HasText<T> && Streamable<T>)
  Part(const T& v) : Part(&v, [](std::ostream& out, const void* value) { out << *static_cast<const T*>(value); }) {}
  const std::string& text() const { return text_; }

 private:
  Part(const void* value, void (*print)(std::ostream& out, const void* value));

  std::string text_;
};

FACULA_API std::string concat(std::initializer_list<Part> parts);

}  // namespace detail

template <class... Args>
std::string str(const Args&... args) {
  return detail::concat({detail::Part(args)...});
}

}  // namespace facula

#define FACULA_CHECK(condition, ErrorType, ...)              \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      throw ::facula::ErrorType(::facula::str(__VA_ARGS__)); \
  } while (false)

// A broken promise inside the library itself.
#define FACULA_INTERNAL_CHECK(condition)                                                                      \
  do {                                                                                                        \
    if (!(condition)) [[unlikely]]                                                                            \
      throw ::facula::InternalError(::facula::str("internal check failed: ", #condition, " (", __FILE__, ":", \
                                                  __LINE__, "); please report this"));                        \
  } while (false)
