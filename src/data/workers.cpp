// Worker threads of data loaders.
#include <facula/data/workers.h>

#include <facula/core/generator.h>

#include "core/generator_impl.h"
#include "cpu/parallel.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace facula::data {
namespace {

std::string text_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

WorkerException::WorkerException(std::exception_ptr original)
    : Error(str("Caught exception in DataLoader worker thread. Original message: ", text_of(original))),
      original_exception(std::move(original)) {}

namespace detail {

uint64_t draw_epoch_seed() {
  const Generator generator = default_generator();
  const GeneratorImpl::Reservation place = generator.impl()->reserve(1);
  const auto words = philox4x32_10(place.seed, place.offset);
  return static_cast<uint64_t>(words[0]) << 32 | words[1];
}

uint64_t job_seed(uint64_t epoch_seed, uint64_t number) {
  const auto words = philox4x32_10(epoch_seed, number, 1);
  return static_cast<uint64_t>(words[0]) << 32 | words[1];
}

void run_job(uint64_t seed, uint64_t number, const std::function<void()>& work) {
  const DefaultGeneratorGuard own(make_generator(job_seed(seed, number)));
  work();
}

struct WorkerPool::State {
  struct Job {
    uint64_t number;
    std::shared_ptr<void> request;
  };
  struct Result {
    std::shared_ptr<void> value;
    std::exception_ptr error;
  };

  State(bool is_ordered, std::optional<std::chrono::milliseconds> limit) : ordered(is_ordered), timeout(limit) {}

  void run(const Work& work) {
    const SingleThreadGuard alone;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopped || !jobs.empty(); });
      if (stopped) return;
      Job job = std::move(jobs.front());
      jobs.pop_front();
      ++running;
      const uint64_t job_seed = seed;
      lock.unlock();
      Result result;
      try {
        run_job(job_seed, job.number, [&] { result.value = work(job.request.get()); });
      } catch (...) {
        result.error = std::current_exception();
      }
      job.request.reset();
      lock.lock();
      --running;
      results.emplace(job.number, std::move(result));
      ready.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;  // for the workers
  std::condition_variable ready;    // for the caller
  std::deque<Job> jobs;
  std::map<uint64_t, Result> results;  // by the number of the job
  const bool ordered;
  const std::optional<std::chrono::milliseconds> timeout;
  uint64_t seed = 0;
  uint64_t pushed = 0, popped = 0;
  size_t running = 0;
  bool stopped = false;
  std::vector<std::thread> threads;
};

WorkerPool::WorkerPool(std::vector<Work> works, bool ordered, std::optional<std::chrono::milliseconds> timeout)
    : state_(std::make_unique<State>(ordered, timeout)) {
  try {
    for (Work& work : works)
      state_->threads.emplace_back([state = state_.get(), mine = std::move(work)] { state->run(mine); });
  } catch (...) {
    join();
    throw;
  }
}

WorkerPool::~WorkerPool() { join(); }

void WorkerPool::begin_epoch(uint64_t seed) {
  std::unique_lock lock(state_->mutex);
  state_->jobs.clear();
  state_->ready.wait(lock, [&] { return state_->running == 0; });
  state_->results.clear();
  state_->pushed = state_->popped = 0;
  state_->seed = seed;
}

void WorkerPool::push(std::shared_ptr<void> request) {
  const std::lock_guard lock(state_->mutex);
  FACULA_CHECK(!state_->stopped, Error, "DataLoader: its workers have ended; make a new one after join()");
  state_->jobs.push_back({state_->pushed++, std::move(request)});
  state_->changed.notify_one();
}

std::shared_ptr<void> WorkerPool::pop() {
  State::Result result;
  {
    std::unique_lock lock(state_->mutex);
    if (state_->pushed == state_->popped) return nullptr;
    const auto is_ready = [&] {
      return !state_->results.empty() && (!state_->ordered || state_->results.begin()->first == state_->popped);
    };
    if (state_->timeout) {
      FACULA_CHECK(state_->ready.wait_for(lock, *state_->timeout, is_ready), Error,
                   "DataLoader: no batch came within the timeout of ", static_cast<int64_t>(state_->timeout->count()),
                   " ms; raise it, or see why the dataset is slow");
    } else {
      state_->ready.wait(lock, is_ready);
    }
    result = std::move(state_->results.begin()->second);
    state_->results.erase(state_->results.begin());
    ++state_->popped;
  }
  if (result.error) throw WorkerException(result.error);
  return std::move(result.value);
}

void WorkerPool::join() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    state_->jobs.clear();
    state_->changed.notify_all();
  }
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

}  // namespace detail
}  // namespace facula::data
