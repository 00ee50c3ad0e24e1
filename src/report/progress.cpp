// Progress bars: the line, and the terminal that it is drawn on.
#include <facula/progress.h>

#include <facula/core/error.h>

#include "core/env.h"
#include "report/text_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>

namespace facula {
namespace {

std::string formatted(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

// 7 s, 04:05, 1:02:03.
std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 359999) return "?";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  char buffer[32];
  if (whole >= 3600)
    std::snprintf(buffer, sizeof buffer, "%d:%02d:%02d", int(whole / 3600), int(whole / 60 % 60), int(whole % 60));
  else std::snprintf(buffer, sizeof buffer, "%02d:%02d", int(whole / 60), int(whole % 60));
  return buffer;
}

std::string rate_text(double rate, const std::string& unit) {
  if (!std::isfinite(rate) || rate <= 0) return "? " + unit + "/s";
  if (rate < 1) return formatted(1 / rate < 10 ? "%.2f" : "%.1f", 1 / rate) + " s/" + unit;
  if (rate < 1000) return formatted(rate < 10 ? "%.2f" : rate < 100 ? "%.1f" : "%.0f", rate) + " " + unit + "/s";
  return formatted(rate < 1e6 ? "%.1fk" : "%.1fM", rate < 1e6 ? rate / 1e3 : rate / 1e6) + " " + unit + "/s";
}

std::string value_text(double value) {
  const double size = std::fabs(value);
  if (std::isfinite(value) && value == std::floor(value) && size < 1e6) return formatted("%.0f", value);
  return formatted(size != 0 && (size < 1e-3 || size >= 1e5) ? "%.2e" : "%.4f", value);
}

// A bar of so many columns, in eighths of a block where those can be shown.
std::string bar_text(double share, int columns, bool utf8) {
  share = std::clamp(share, 0.0, 1.0);
  std::string made;
  if (!utf8) {
    const int full = static_cast<int>(share * columns);
    made.assign(static_cast<size_t>(full), '#');
    made.append(static_cast<size_t>(columns - full), '.');
    return made;
  }
  static const char* const kEighths[] = {"", "\u258F", "\u258E", "\u258D", "\u258C", "\u258B", "\u258A", "\u2589"};
  const int eighths = static_cast<int>(share * columns * 8);
  for (int i = 0; i < eighths / 8; ++i) made += "\u2588";
  made += kEighths[eighths % 8];
  made.append(static_cast<size_t>(columns - (eighths + 7) / 8), ' ');
  return made;
}

bool shows_utf8() {
  for (const EnvVar var : {EnvVar::LcAll, EnvVar::LcCtype, EnvVar::Lang})
    if (const auto value = env(var)) {
      std::string lower(*value);
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
    }
  return false;
}

bool is_terminal() { return ::isatty(STDERR_FILENO) == 1 && env(EnvVar::Term).value_or("dumb") != "dumb"; }

int terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

std::string progress_line(const ProgressState& state, int columns, bool utf8) {
  if (columns < 1) return {};
  std::string left;
  if (!state.label.empty()) left = report::printable(state.label) + " ";
  std::string right;
  const bool known = state.total >= 0;
  const double share = !known ? 0 : state.total == 0 ? 1 : static_cast<double>(state.done) / double(state.total);
  if (known) {
    left += formatted("%3.0f", std::floor(100 * std::clamp(share, 0.0, 1.0))) + "% ";
    right += str(" ", state.done, "/", state.total);
  } else {
    right += str(state.done, " ", report::printable(state.unit));
  }
  right += "  " + duration(state.seconds);
  if (known && state.done < state.total) {
    const double left_seconds = state.rate > 0 ? double(state.total - state.done) / state.rate : -1;
    right += (utf8 ? " \u2192 " : " < ") + duration(left_seconds);
  }
  right += "  " + rate_text(state.rate, report::printable(state.unit));
  for (const auto& [name, value] : state.values) right += "  " + report::printable(name) + " " + value_text(value);
  if (!utf8)
    for (std::string* text : {&left, &right})
      for (char& c : *text)
        if (static_cast<unsigned char>(c) >= 0x80) c = '?';

  if (known) {
    const int room = columns - display_width(left) - display_width(right) - 2;
    if (room >= 5) {
      const char* edge = utf8 ? "\u2502" : "|";
      return left + edge + bar_text(share, std::min(room, 40), utf8) + edge + right;
    }
  }
  return report::cut_to_width(left + right, columns);
}

struct Progress::Impl {
  using Clock = std::chrono::steady_clock;

  ProgressState state;
  ProgressOptions options;
  bool shown = false, utf8 = false, finished = false;
  Clock::time_point begin = Clock::now();
  double drawn_at = -1, rate_at = 0;
  int64_t rate_done = 0;
  bool has_rate = false;
  std::mutex mutex;

  double now() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  // The rate of the last seconds: old steps fade, so that a slow start does not spoil the forecast.
  void measure(double time) {
    const double passed = time - rate_at;
    if (passed < 0.05) return;
    const double recent = static_cast<double>(state.done - rate_done) / passed;
    const double weight = has_rate ? 1 - std::exp(-passed / 5) : 1;
    state.rate += weight * (recent - state.rate);
    has_rate = true;
    rate_at = time;
    rate_done = state.done;
  }

  void draw(bool now_please) {
    state.seconds = now();
    const bool due = now_please || drawn_at < 0 || state.seconds - drawn_at >= options.interval;
    if (!due) return;
    measure(state.seconds);
    if (now_please && state.seconds > 0 && state.done == state.total)
      state.rate = static_cast<double>(state.done) / state.seconds;  // in the end, of the whole
    drawn_at = state.seconds;
    // The last column stays free: some terminals go to the next line when it is written.
    if (shown) put("\r" + progress_line(state, terminal_columns() - 1, utf8) + "\x1b[K");
  }

  static void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }

  void set(const std::string& name, double value) {
    for (auto& each : state.values)
      if (each.first == name) {
        each.second = value;
        return;
      }
    state.values.emplace_back(name, value);
  }
};

Progress::Progress(int64_t total, std::string label, ProgressOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->state.total = total;
  impl_->state.label = std::move(label);
  impl_->state.unit = options.unit;
  impl_->shown = options.shown.value_or(is_terminal());
  impl_->utf8 = shows_utf8();
  impl_->options = std::move(options);
  impl_->draw(true);
}

Progress::~Progress() {
  if (impl_) finish();
}
Progress::Progress(Progress&&) noexcept = default;
Progress& Progress::operator=(Progress&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void Progress::step(int64_t count) { step({}, count); }

void Progress::step(Values values, int64_t count) {
  const std::lock_guard lock(impl_->mutex);
  impl_->state.done += count;
  for (const auto& [name, value] : values) impl_->set(name, value);
  impl_->draw(false);
}

void Progress::set(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->set(name, value);
  impl_->draw(false);
}

void Progress::print(std::string_view line) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->shown || impl_->finished) {
    Impl::put(std::string(line) + "\n");
    return;
  }
  Impl::put("\r\x1b[K" + std::string(line) + "\n");
  impl_->draw(true);
}

void Progress::finish() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->finished) return;
  impl_->finished = true;
  impl_->draw(true);
  if (impl_->shown) Impl::put("\n");
}

const ProgressState& Progress::state() const { return impl_->state; }

}  // namespace facula
