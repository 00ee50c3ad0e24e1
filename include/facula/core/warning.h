// Warnings: what a program is told without being stopped. They go to stderr, or to a handler of the user's.
#pragma once

#include <facula/core/export.h>

#include <cstdint>
#include <string>

namespace facula {

struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

class FACULA_API Warning {
 public:
  Warning(SourceLocation where, std::string message) : where_(where), message_(std::move(message)) {}
  const std::string& msg() const noexcept { return message_; }
  const SourceLocation& source_location() const noexcept { return where_; }

 private:
  SourceLocation where_;
  std::string message_;
};

class FACULA_API WarningHandler {
 public:
  virtual ~WarningHandler() = default;
  // Prints to stderr unless overridden.
  virtual void process(const Warning& warning);
};

// Hands the warning to the handler of this thread.
FACULA_API void warn(const Warning& warning);

namespace WarningUtils {

// The handler of this thread; nullptr sets the one that prints. The caller keeps it alive.
FACULA_API void set_warning_handler(WarningHandler* handler) noexcept;
FACULA_API WarningHandler* get_warning_handler() noexcept;

// Sets a handler for the time of a scope.
class WarningHandlerGuard {
 public:
  explicit WarningHandlerGuard(WarningHandler* handler) : before_(get_warning_handler()) {
    set_warning_handler(handler);
  }
  ~WarningHandlerGuard() { set_warning_handler(before_); }
  WarningHandlerGuard(const WarningHandlerGuard&) = delete;
  WarningHandlerGuard& operator=(const WarningHandlerGuard&) = delete;

 private:
  WarningHandler* before_;
};

}  // namespace WarningUtils
}  // namespace facula
