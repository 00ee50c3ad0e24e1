// Splitting of ranges over threads. Which threads is OpenMP's business, behind parallel_omp.h.
#include "cpu/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include <facula/core/error.h>

#include "core/env.h"
#include "cpu/parallel_omp.h"

#if defined(__SANITIZE_THREAD__) && !defined(FACULA_TSAN)
#define FACULA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) && !defined(FACULA_TSAN)
#define FACULA_TSAN 1
#endif
#endif

#ifdef FACULA_TSAN
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace facula {

namespace {

// What is written before a region is seen by its threads, and what they write is seen after it. OpenMP's barriers see
// to it; the thread sanitizer has to be told.
void announce_acquire([[maybe_unused]] void* address) {
#ifdef FACULA_TSAN
  __tsan_acquire(address);
#endif
}

void announce_release([[maybe_unused]] void* address) {
#ifdef FACULA_TSAN
  __tsan_release(address);
#endif
}

std::atomic<int> num_threads{0};  // 0: not asked for yet
thread_local bool inside_region = false;
thread_local bool is_alone = false;  // SingleThreadGuard

// A process that was forked has the thread that called fork and no other: OpenMP would wait for a team that is not there.
const bool forks_are_watched = [] {
  pthread_atfork(nullptr, nullptr, [] {
    if (num_threads.load(std::memory_order_relaxed) != 0) num_threads.store(1, std::memory_order_relaxed);
  });
  return true;
}();

struct Region {
  FunctionRef<void(int)> f;
  std::atomic<bool> failed{false};
  std::exception_ptr error{};
  char begun = 0;
  char ended = 0;

  void run(int thread) {
    announce_acquire(&begun);
    const bool before = inside_region;
    inside_region = true;
    try {
      f(thread);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
    inside_region = before;
    announce_release(&ended);
  }
};

}  // namespace

SingleThreadGuard::SingleThreadGuard() : before_(is_alone) { is_alone = true; }
SingleThreadGuard::~SingleThreadGuard() { is_alone = before_; }

int get_num_threads() {
  if (is_alone) return 1;
  int n = num_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    const auto wanted = env_number(EnvVar::NumThreads, 1);
    n = wanted ? static_cast<int>(std::min<long>(*wanted, 1024)) : default_num_threads();
    int expected = 0;
    if (!num_threads.compare_exchange_strong(expected, n)) n = expected;
  }
  return n;
}

void set_num_threads(int n) {
  FACULA_CHECK(n >= 1, ValueError, "set_num_threads: expected at least 1 thread, got ", n);
  num_threads.store(n, std::memory_order_relaxed);
}

bool in_parallel_region() { return inside_region; }

void parallel_threads(int n, FunctionRef<void(int)> f) {
  if (n <= 1 || inside_region) {
    for (int t = 0; t < n; ++t) f(t);
    return;
  }
  Region region{f};
  announce_release(&region.begun);
  run_on_threads(
      n, std::max(n, get_num_threads()), [](void* ctx, int thread) { static_cast<Region*>(ctx)->run(thread); },
      &region);
  announce_acquire(&region.ended);
  if (region.error) std::rethrow_exception(region.error);
}

bool worth_a_team(int64_t work, int64_t grain) {
  if (work <= grain || inside_region) return false;
  const int threads = get_num_threads();
  return threads > 1 && work >= grain * std::max(20, 10 + threads) / 10;
}

void parallel_for(int64_t begin, int64_t end, int64_t grain, FunctionRef<void(int64_t, int64_t)> f) {
  const int64_t count = end - begin;
  if (count <= 0) return;
  if (count <= grain || inside_region) return f(begin, end);
  const int64_t most = count / std::max<int64_t>(grain, 1);
  const int64_t chunks = std::min<int64_t>(get_num_threads(), most);
  if (chunks <= 1) return f(begin, end);
  const int64_t length = count / chunks;
  const int64_t longer = count % chunks;  // the first chunks hold one element more
  parallel_threads(static_cast<int>(chunks), [&](int t) {
    const int64_t from = begin + t * length + std::min<int64_t>(t, longer);
    f(from, from + length + (t < longer ? 1 : 0));
  });
}

void parallel_rows(int64_t rows, int64_t entries, int64_t grain, FunctionRef<void(int64_t, int64_t)> f) {
  if (rows <= 0) return;
  if (!worth_a_team(rows * entries, grain)) return f(0, rows);
  parallel_for(0, rows, std::max<int64_t>(1, grain / entries), f);
}

}  // namespace facula
