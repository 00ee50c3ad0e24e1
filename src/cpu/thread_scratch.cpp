#include "cpu/thread_scratch.h"

#include <facula/core/error.h>

#include <cstdlib>
#include <memory>

namespace facula {
namespace {

// Memory that grows.
class Growing {
 public:
  void* reserve(size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      memory_.reset(std::aligned_alloc(kAlignment, whole));
      FACULA_CHECK(memory_, OutOfMemoryError, "cannot allocate ", whole, " bytes of work space on cpu");
      bytes_ = whole;
    }
    return memory_.get();
  }

 private:
  static constexpr size_t kAlignment = 4096;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
};

}  // namespace

void* thread_scratch(size_t bytes) {
  thread_local Growing memory;
  return memory.reserve(bytes);
}

}  // namespace facula
