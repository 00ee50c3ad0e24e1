#include "core/call_hooks.h"

namespace facula::detail {

namespace {
constinit thread_local CallWatcher* current_watcher = nullptr;
}

CallWatcher::CallWatcher() : next_(current_watcher) {
  current_watcher = this;
  call_hooks |= kWatchesCalls;
}
CallWatcher::~CallWatcher() {
  current_watcher = next_;
  if (!next_) call_hooks &= static_cast<uint8_t>(~kWatchesCalls);
}

void report_call(OpId op, const OpAttrs& attrs) {
  for (CallWatcher* w = current_watcher; w; w = w->next()) w->on_call(op, &attrs);
}
void report_call(OpId op) {
  for (CallWatcher* w = current_watcher; w; w = w->next()) w->on_call(op, nullptr);
}

}  // namespace facula::detail
