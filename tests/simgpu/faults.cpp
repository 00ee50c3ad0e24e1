// Faults on request. SIMGPU_FAULTS and simgpu_control() take the same words, separated by semicolons:
//   KIND:N=ACTION      the N-th call of that kind (counted from 1, and from now on when given to simgpu_control)
//   KIND:N+=ACTION     that one and every later one;  KIND:*=ACTION  every one
//   init=crash | hang | fail;  count=N;  version=N;  slow_copies_ms=N
// Kinds: alloc free host_alloc map memcpy memset launch graph stream event sync query module compile init.
// Actions: oom, invalid, notsupported, unknown, refuse (too many resources), a number (that code); and with the device lost after
// it: fail (launch failed), illegal (illegal address), lost (the device is gone).
#include "engine.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace simgpu {
namespace {

struct Rule {
  std::string kind, action;
  long first = 1;
  bool and_later = false;
};

struct Faults {
  std::mutex mutex;
  std::vector<Rule> rules;
  std::map<std::string, long> calls;
  std::string init;
  double slow_copies = 0;
  int count = -1, version = 0;
  bool lost = false;  // every call of every device fails
};

bool read_setting(Faults& f, const std::string& name, const std::string& value) {
  if (name == "init") f.init = value;
  else if (name == "count") f.count = atoi(value.c_str());
  else if (name == "version") f.version = atoi(value.c_str());
  else if (name == "slow_copies_ms") f.slow_copies = atof(value.c_str());
  else return false;
  return true;
}

bool read_word(Faults& f, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return false;
  std::string name = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  if (read_setting(f, name, value)) return true;
  Rule rule;
  rule.action = value;
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return false;
  rule.kind = name.substr(0, colon);
  std::string number = name.substr(colon + 1);
  if (!number.empty() && number.back() == '+') {
    rule.and_later = true;
    number.pop_back();
  }
  if (number == "*") {
    rule.and_later = true;
    number = "1";
  }
  rule.first = atol(number.c_str());
  if (rule.first < 1) return false;
  rule.first += f.calls[rule.kind];
  f.rules.push_back(rule);
  return true;
}

bool read_words(Faults& f, const std::string& words) {
  bool ok = true;
  for (size_t at = 0; at < words.size();) {
    size_t end = words.find(';', at);
    if (end == std::string::npos) end = words.size();
    const std::string word = words.substr(at, end - at);
    if (!word.empty() && !read_word(f, word)) {
      report("cannot read the fault \"" + word + "\"");
      ok = false;
    }
    at = end + 1;
  }
  return ok;
}

Faults& faults() {
  static auto* f = [] {
    auto* made = new Faults;
    if (const char* words = getenv("SIMGPU_FAULTS")) read_words(*made, words);
    return made;
  }();
  return *f;
}

// What the launch that this thread is making will end with.
thread_local Code launch_fault = kSuccess;

bool loses_device(const std::string& action) { return action == "fail" || action == "illegal" || action == "lost"; }

Code code_of(const std::string& action) {
  if (action == "oom") return kOutOfMemory;
  if (action == "fail") return kLaunchFailed;
  if (action == "illegal") return kIllegalAddress;
  if (action == "lost") return kUnknown;
  if (action == "invalid" || action == "error") return kInvalidValue;
  if (action == "notsupported") return kNotSupported;
  if (action == "unknown") return kUnknown;
  if (action == "refuse") return kLaunchOutOfResources;
  const int number = atoi(action.c_str());
  return number ? static_cast<Code>(number) : kUnknown;
}

const Rule* matching(Faults& f, const std::string& kind, long number) {
  for (const Rule& rule : f.rules)
    if (rule.kind == kind && (rule.and_later ? number >= rule.first : number == rule.first)) return &rule;
  return nullptr;
}

void start_badly(const std::string& how) {
  if (how == "crash") abort();
  if (how == "segv") raise(SIGSEGV);
  if (how == "hang")
    while (true) sleep(1);
}

}  // namespace

Code inject(const char* kind, int device) {
  Faults& f = faults();
  std::string action;
  {
    std::lock_guard<std::mutex> hold(f.mutex);
    const long number = ++f.calls[kind];
    if (std::strcmp(kind, "init") == 0 && !f.init.empty()) action = f.init;
    if (const Rule* rule = matching(f, kind, number)) action = rule->action;
  }
  if (action.empty()) return kSuccess;
  if (std::strcmp(kind, "init") == 0) {
    start_badly(action);
    return action == "fail" ? kUnknown : code_of(action);
  }
  // A launch that fails fails while it runs, and is noticed by who waits.
  if (std::strcmp(kind, "launch") == 0 && loses_device(action)) {
    launch_fault = code_of(action);
    return kSuccess;
  }
  const Code code = code_of(action);
  if (loses_device(action)) {
    Engine& e = engine();
    Lock lock(e.mutex);
    // A device that is gone takes every stream with it.
    for (Device* d : e.devices)
      if (d->index == device || device < 0) d->lost = code;
    e.changed.notify_all();
  }
  return code;
}

Code take_launch_fault() { return std::exchange(launch_fault, kSuccess); }

double slow_copies_ms() { return faults().slow_copies; }
int forced_count() { return faults().count; }
int forced_version() { return faults().version; }

const char* control(const char* command) {
  static thread_local std::string answer;
  const std::string words = command ? command : "";
  Faults& f = faults();
  if (words.rfind("count ", 0) == 0) {
    std::lock_guard<std::mutex> hold(f.mutex);
    answer = std::to_string(f.calls[words.substr(6)]);
  } else if (words == "clear") {
    std::lock_guard<std::mutex> hold(f.mutex);
    f.rules.clear();
    f.init.clear();
    f.slow_copies = 0;
    answer = "ok";
  } else if (words == "leaks") {
    answer = leaks();
  } else if (words == "revive") {
    // As if the process had begun anew: what was lost works again.
    Engine& e = engine();
    Lock lock(e.mutex);
    for (Device* device : e.devices) device->lost = kSuccess;
    answer = "ok";
  } else if (words.rfind("seed ", 0) == 0) {
    Engine& e = engine();
    Lock lock(e.mutex);
    for (Device* device : e.devices) device->random.seed(static_cast<uint64_t>(atoll(words.c_str() + 5)));
    answer = "ok";
  } else {
    std::lock_guard<std::mutex> hold(f.mutex);
    answer = read_words(f, words) ? "ok" : "error";
  }
  return answer.c_str();
}

}  // namespace simgpu
