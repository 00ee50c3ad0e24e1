// The first link of every op call: whoever watches calls in this thread (a tracer, a profiler, a test) is told the op and
// its attributes. With nobody watching, a call pays for one test of a thread-local flag.
#pragma once

#include "core/generated/op_ids.h"

#include <string>

namespace facula::detail {

// The non-tensor arguments of one call; generated structs derive from it.
struct OpAttrs {
  virtual ~OpAttrs() = default;
  virtual size_t hash() const = 0;
  virtual bool equals(const OpAttrs& other) const = 0;
  virtual std::string to_string() const = 0;
};

class CallWatcher {
 public:
  // Watches the calls of this thread while it lives. Watchers nest; the newest is told first.
  CallWatcher();
  virtual ~CallWatcher();
  CallWatcher(const CallWatcher&) = delete;
  CallWatcher& operator=(const CallWatcher&) = delete;
  virtual void on_call(OpId op, const OpAttrs* attrs) = 0;
  CallWatcher* next() const { return next_; }

 private:
  CallWatcher* next_;
};

inline constinit thread_local CallWatcher* current_watcher __attribute__((tls_model("initial-exec"))) = nullptr;

inline bool call_hooks_active() { return current_watcher != nullptr; }
void report_call(OpId op, const OpAttrs& attrs);
void report_call(OpId op);

}  // namespace facula::detail
