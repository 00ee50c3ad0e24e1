// A bar that tells how far a loop is: share, rate, time left, and numbers such as the loss.
//
//   Progress bar(steps, "training");
//   for (int64_t i = 0; i < steps; ++i) bar.step({{"loss", train_step()}});
//
//   for (auto& batch : progress(*loader, "epoch 1", batches)) ...
//
// It is drawn on standard error, and only when that is a terminal: logs and pipes stay clean. Where a line is too long
// for the terminal it is cut by the width of what is shown, not by bytes.
#pragma once

#include <facula/core/export.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace facula {

// All that a line shows.
struct ProgressState {
  std::string label;
  int64_t done = 0;
  int64_t total = -1;  // not known when negative
  double seconds = 0;  // since the beginning
  double rate = 0;     // steps in a second
  std::string unit = "it";
  std::vector<std::pair<std::string, double>> values;
};

// The line for a terminal of so many columns, never wider; without UTF-8 it is plain ASCII.
FACULA_API std::string progress_line(const ProgressState& state, int columns, bool utf8 = true);
// Columns that a terminal needs for a text in UTF-8: two for wide letters, none for combining marks.
FACULA_API int display_width(std::string_view text);

struct ProgressOptions {
  std::string unit = "it";
  double interval = 0.1;      // seconds between two drawings
  std::optional<bool> shown;  // whatever standard error is
};

class FACULA_API Progress {
 public:
  using Values = std::initializer_list<std::pair<std::string, double>>;

  explicit Progress(int64_t total = -1, std::string label = {}, ProgressOptions options = {});
  // Leaves the line as it is and goes to the next one.
  ~Progress();
  Progress(Progress&&) noexcept;
  Progress& operator=(Progress&&) noexcept;

  void step(int64_t count = 1);
  void step(Values values, int64_t count = 1);
  // A number that is shown from now on.
  void set(const std::string& name, double value);
  // A line of text above the bar.
  void print(std::string_view line);
  void finish();

  const ProgressState& state() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace detail {

// A range that counts what is taken from it.
template <class Range>
class CountedRange {
 public:
  CountedRange(Range&& range, int64_t total, std::string label)
      : range_(std::forward<Range>(range)), bar_(total, std::move(label)) {}

  class Iterator {
   public:
    Iterator(decltype(std::declval<Range&>().begin()) at, Progress* bar) : at_(std::move(at)), bar_(bar) {}
    decltype(auto) operator*() const { return *at_; }
    Iterator& operator++() {
      bar_->step();
      ++at_;
      return *this;
    }
    template <class End>
    bool operator!=(const End& end) const {
      return !(at_ == end);
    }

   private:
    decltype(std::declval<Range&>().begin()) at_;
    Progress* bar_;
  };
  Iterator begin() { return Iterator(range_.begin(), &bar_); }
  auto end() { return range_.end(); }
  Progress& bar() { return bar_; }

 private:
  Range range_;
  Progress bar_;
};

}  // namespace detail

// The elements of a range, with a bar over them. `total` is for ranges that do not know how many there are.
template <class Range>
detail::CountedRange<Range> progress(Range&& range, std::string label = {}, int64_t total = -1) {
  if constexpr (requires { range.size(); })
    if (total < 0) total = static_cast<int64_t>(range.size());
  return {std::forward<Range>(range), total, std::move(label)};
}

}  // namespace facula
