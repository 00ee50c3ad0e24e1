// Warnings and the handler that prints them.
#include <facula/core/warning.h>

#include <cstdio>

namespace facula {
namespace {

thread_local WarningHandler* handler_of_thread = nullptr;

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
  return handler_of_thread ? handler_of_thread : printing;
}

}  // namespace facula
