// Warnings of the library as Python's. They come from any thread, and from under locks of the library, where no code of Python may
// run: its main thread shows them as soon as the call that warned is over.
#include "warnings.h"

#include <nanobind/nanobind.h>

#include <deque>
#include <mutex>
#include <string>

#include "core/default_warning.h"
#include "references.h"

namespace facula::python {
namespace {

struct Waiting {
  std::mutex mutex;
  std::deque<std::string> texts;
  bool told = false;  // whether the interpreter knows that there are some
};
// Lives to the end of the process, as the threads that warn may.
Waiting& waiting() {
  static Waiting* list = new Waiting();
  return *list;
}

int show(void*);

// With the mutex held. Where the interpreter takes no more calls, the next warning tries again.
void tell(Waiting& list) {
  if (!list.told && !list.texts.empty()) list.told = Py_AddPendingCall(show, nullptr) == 0;
}

// In the main thread, between two steps of its program. A filter may turn a warning into an exception, which is raised there.
int show(void*) {
  Waiting& list = waiting();
  while (true) {
    std::string text;
    {
      const std::lock_guard lock(list.mutex);
      if (list.texts.empty()) {
        list.told = false;
        return 0;
      }
      text = std::move(list.texts.front());
      list.texts.pop_front();
    }
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) == 0) continue;
    const std::lock_guard lock(list.mutex);
    list.told = false;
    tell(list);
    return -1;
  }
}

class ToPython final : public WarningHandler {
 public:
  void process(const Warning& warning) override {
    if (is_shutting_down()) return WarningHandler::process(warning);
    Waiting& list = waiting();
    const std::lock_guard lock(list.mutex);
    list.texts.push_back(warning.msg());
    tell(list);
  }
};

}  // namespace

void pass_on_warnings() {
  static auto* handler = new ToPython();
  set_default_warning_handler(handler);
}

}  // namespace facula::python
