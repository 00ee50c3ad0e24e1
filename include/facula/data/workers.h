// The threads behind a data loader. They know nothing of datasets: a job is a function of a request, both of some type
// that the loader knows.
#pragma once

#include <facula/core/error.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace facula::data {

// What the caller gets when a worker's dataset throws: the text, and what was thrown.
struct FACULA_API WorkerException : public Error {
  explicit WorkerException(std::exception_ptr original);
  const char* type_name() const noexcept override { return "WorkerException"; }
  std::exception_ptr original_exception;
};

namespace detail {

// A seed for the random numbers of an epoch, drawn from the default generator.
FACULA_API uint64_t draw_epoch_seed();
// The seed of the numbers of one job.
FACULA_API uint64_t job_seed(uint64_t epoch_seed, uint64_t number);
// Calls `work` with random numbers that depend on the seed and the number of the job alone, whatever thread runs it.
FACULA_API void run_job(uint64_t seed, uint64_t number, const std::function<void()>& work);

class FACULA_API WorkerPool {
 public:
  using Work = std::function<std::shared_ptr<void>(void* request)>;

  // One thread for each of `works`. Results come in the order of their requests when `ordered`, else as they are ready.
  WorkerPool(std::vector<Work> works, bool ordered, std::optional<std::chrono::milliseconds> timeout);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Forgets what is queued and ready, waits for what runs, and counts jobs from 0 again.
  void begin_epoch(uint64_t seed);
  void push(std::shared_ptr<void> request);
  // The next result; null when nothing is on its way. Throws WorkerException for a job that failed.
  std::shared_ptr<void> pop();
  // Ends the threads. Nothing can be pushed afterwards.
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail
}  // namespace facula::data
