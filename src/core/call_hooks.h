// The first link of every op call: whoever watches calls in this thread (a tracer, a profiler, a test) is told the op and
// its attributes, and anomaly mode looks at results (autograd/nan_check.h). With neither, a call pays for one test of a
// thread-local byte.
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

enum CallHook : uint8_t {
  kWatchesCalls = 1,  // there is a CallWatcher
  kChecksResults = 2  // results are looked at for NaN
};
inline constinit thread_local uint8_t call_hooks __attribute__((tls_model("initial-exec"))) = 0;

inline bool call_hooks_active() { return call_hooks != 0; }
void report_call(OpId op, const OpAttrs& attrs);
void report_call(OpId op);

}  // namespace facula::detail
