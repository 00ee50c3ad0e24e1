// Warnings and the handler that prints them.
#include "core/default_warning.h"

#include <atomic>
#include <cstdio>

namespace facula {
namespace {

thread_local WarningHandler* handler_of_thread = nullptr;
std::atomic<WarningHandler*> default_handler{nullptr};

}  // namespace

void WarningHandler::process(const Warning& warning) {
  const SourceLocation& where = warning.source_location();
  std::fprintf(stderr, "[W %s:%u] Warning: %s (function %s)\n", where.file, where.line, warning.msg().c_str(),
               where.function);
}

void warn(const Warning& warning) { WarningUtils::get_warning_handler()->process(warning); }

void WarningUtils::set_warning_handler(WarningHandler* handler) noexcept { handler_of_thread = handler; }

WarningHandler* WarningUtils::get_warning_handler() noexcept {
  // Never destroyed: destructors of static objects may still warn.
  static WarningHandler* printing = new WarningHandler;
  if (handler_of_thread) return handler_of_thread;
  WarningHandler* chosen = default_handler.load(std::memory_order_acquire);
  return chosen ? chosen : printing;
}

void set_default_warning_handler(WarningHandler* handler) noexcept {
  default_handler.store(handler, std::memory_order_release);
}

}  // namespace facula
