#include "core/call_hooks.h"

namespace facula::detail {

CallWatcher::CallWatcher() : next_(current_watcher) { current_watcher = this; }
CallWatcher::~CallWatcher() { current_watcher = next_; }

void report_call(OpId op, const OpAttrs& attrs) {
  for (CallWatcher* w = current_watcher; w; w = w->next()) w->on_call(op, &attrs);
}
void report_call(OpId op) {
  for (CallWatcher* w = current_watcher; w; w = w->next()) w->on_call(op, nullptr);
}

}  // namespace facula::detail
