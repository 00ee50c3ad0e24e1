// Event files of TensorBoard: an event for each value, appended as it comes. Readers may look at the file meanwhile, so
// it grows in whole records.
#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/tensorboard.h>

#include "io/json_reader.h"
#include "report/event_file.h"
#include "report/png.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mutex>

namespace facula::tensorboard {
namespace {

using report::Message;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Upper ends of the buckets of a histogram: they grow by a tenth each, from 1e-12 on, on both sides of 0.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double value = 1e-12; value < 1e20; value *= 1.1) positive.push_back(value);
    std::vector<double> made;
    for (auto it = positive.rbegin(); it != positive.rend(); ++it) made.push_back(-*it);
    made.push_back(0);
    made.insert(made.end(), positive.begin(), positive.end());
    made.push_back(1.7976931348623157e308);
    return made;
  }();
  return limits;
}

std::string checked_utf8(const std::string& text, const char* op) {
  FACULA_CHECK(io::is_utf8(text), ValueError, op, ": the text is not UTF-8");
  return text;
}

}  // namespace

struct SummaryWriter::Impl {
  int file = -1;
  std::string path;
  std::string waiting;  // whole records that are not written yet
  std::chrono::steady_clock::time_point written = std::chrono::steady_clock::now();
  std::mutex mutex;

  ~Impl() {
    if (file < 0) return;
    try {
      write_out();
    } catch (const Error&) {  // nobody is left to tell
    }
    ::close(file);
  }

  void write_out() {
    const char* data = waiting.data();
    size_t left = waiting.size();
    while (left > 0) {
      const ssize_t done = ::write(file, data, left);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) {
        const int error = done == 0 ? ENOSPC : errno;
        waiting.erase(0, waiting.size() - left);  // what is written is not written again
        throw Error(str("SummaryWriter: cannot write '", path, "': ", std::strerror(error)));
      }
      data += done;
      left -= static_cast<size_t>(done);
    }
    waiting.clear();
    written = std::chrono::steady_clock::now();
  }

  void add(Message& event, const std::optional<double>& wall_time) {
    event.number(1, wall_time.value_or(seconds_now()));
    const std::lock_guard lock(mutex);
    FACULA_CHECK(file >= 0, Error, "SummaryWriter: '", path, "' is closed");
    waiting += report::record(event.text());
    if (waiting.size() > 1 << 16 || std::chrono::steady_clock::now() - written > std::chrono::seconds(2)) write_out();
  }

  // Event 2: step, 5: summary; summary 1: value; value 1: tag.
  void add_value(const std::string& tag, Message value, int64_t step, const std::optional<double>& wall_time) {
    value.bytes(1, checked_utf8(tag, "SummaryWriter"));
    Message summary, event;
    summary.message(1, value);
    event.varint(2, static_cast<uint64_t>(step)).message(5, summary);
    add(event, wall_time);
  }
};

SummaryWriter::SummaryWriter(const std::string& log_dir, const std::string& filename_suffix)
    : impl_(std::make_unique<Impl>()) {
  FACULA_CHECK(filename_suffix.find('/') == std::string::npos, ValueError, "SummaryWriter: filename_suffix '",
               filename_suffix, "' may not hold a '/'");
  std::error_code failed;
  std::filesystem::create_directories(log_dir, failed);
  FACULA_CHECK(std::filesystem::is_directory(log_dir), Error, "SummaryWriter: cannot make the folder '", log_dir,
               "': ", failed.message());
  static std::atomic<int> count{0};
  char host[256] = "host";
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "host");
  impl_->path = str(log_dir, "/events.out.tfevents.", static_cast<int64_t>(seconds_now()), ".", host, ".",
                    static_cast<int64_t>(::getpid()), ".", count.fetch_add(1), filename_suffix);
  impl_->file = ::open(impl_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  FACULA_CHECK(impl_->file >= 0, Error, "SummaryWriter: cannot create '", impl_->path, "': ", std::strerror(errno));
  Message event;
  event.bytes(3, "brain.Event:2");
  impl_->add(event, std::nullopt);
  flush();
}

SummaryWriter::~SummaryWriter() = default;
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;

void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t step, std::optional<double> wall_time) {
  Message summary;
  summary.single(2, static_cast<float>(value));
  impl_->add_value(tag, std::move(summary), step, wall_time);
}

void SummaryWriter::add_histogram_raw(const std::string& tag, double min, double max, double count, double sum,
                                      double sum_squares, const std::vector<double>& limits,
                                      const std::vector<double>& counts, int64_t step,
                                      std::optional<double> wall_time) {
  FACULA_CHECK(limits.size() == counts.size(), ValueError, "add_histogram_raw: ", limits.size(), " limits and ",
               counts.size(), " counts are not as many");
  Message histogram, summary;
  histogram.number(1, min).number(2, max).number(3, count).number(4, sum).number(5, sum_squares);
  histogram.numbers(6, limits).numbers(7, counts);
  summary.message(5, histogram);
  impl_->add_value(tag, std::move(summary), step, wall_time);
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, int64_t step,
                                  std::optional<double> wall_time) {
  FACULA_CHECK(!values.is_complex() && !values.is_meta(), ValueError, "add_histogram: expected real numbers with data");
  const NoGradGuard quiet;
  const Tensor flat = values.detach().cpu().to(kDouble).contiguous();
  const double* data = flat.data_ptr<double>();
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size(), 0);
  double min = 0, max = 0, sum = 0, squares = 0, number = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double value = data[i];
    if (!std::isfinite(value)) continue;
    min = number == 0 ? value : std::min(min, value);
    max = number == 0 ? value : std::max(max, value);
    number += 1;
    sum += value;
    squares += value * value;
    const auto bucket = std::lower_bound(limits.begin(), limits.end(), value) - limits.begin();
    counts[std::min<size_t>(static_cast<size_t>(bucket), counts.size() - 1)] += 1;
  }
  // Only the buckets between the first and the last that hold something, and one empty in front, which bounds the
  // first.
  std::vector<double> kept_limits, kept_counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool is_next_used = i + 1 < counts.size() && counts[i + 1] > 0;
    if (kept_limits.empty() && counts[i] == 0 && !is_next_used) continue;
    kept_limits.push_back(limits[i]);
    kept_counts.push_back(counts[i]);
  }
  while (!kept_counts.empty() && kept_counts.back() == 0) {
    kept_counts.pop_back();
    kept_limits.pop_back();
  }
  if (kept_limits.empty()) {
    kept_limits.push_back(0);
    kept_counts.push_back(0);
  }
  add_histogram_raw(tag, min, max, number, sum, squares, kept_limits, kept_counts, step, wall_time);
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, int64_t step,
                             std::optional<double> wall_time) {
  // Value 8: a tensor (1: dtype, of which 7 is text; 2: shape; 8: texts); 9: whose business it is.
  Message size, shape, tensor, plugin, metadata, summary;
  size.varint(1, 1);
  shape.message(2, size);
  tensor.varint(1, 7).message(2, shape).bytes(8, checked_utf8(text, "add_text"));
  plugin.bytes(1, "text");
  metadata.message(1, plugin);
  summary.message(8, tensor).message(9, metadata);
  impl_->add_value(tag + "/text_summary", std::move(summary), step, wall_time);
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, int64_t step,
                              std::optional<double> wall_time) {
  FACULA_CHECK(image.dim() == 2 || image.dim() == 3, ShapeError,
               "add_image: expected [channels, height, width] or [height, "
               "width], got ",
               to_text(image.sizes()));
  const NoGradGuard quiet;
  Tensor pixels = image.detach().cpu();
  if (pixels.dim() == 2) pixels = pixels.unsqueeze(0);
  const int64_t channels = pixels.size(0), height = pixels.size(1), width = pixels.size(2);
  FACULA_CHECK((channels == 1 || channels == 3 || channels == 4) && height > 0 && width > 0 && height < 1 << 15 &&
                   width < 1 << 15,
               ShapeError, "add_image: expected 1, 3 or 4 channels of at least one pixel, got ",
               to_text(image.sizes()));
  FACULA_CHECK(pixels.scalar_type() == kByte || pixels.is_floating_point(), DTypeError,
               "add_image: expected uint8 or floating numbers, got ", dtype_name(pixels.scalar_type()));
  if (pixels.is_floating_point()) pixels = pixels.to(kFloat).nan_to_num(0).clamp(0, 1).mul(255).round().to(kByte);
  pixels = pixels.permute({1, 2, 0}).contiguous();
  const std::string png =
      report::encode_png({static_cast<const char*>(pixels.const_data_ptr()), pixels.nbytes()},
                         static_cast<uint32_t>(width), static_cast<uint32_t>(height), static_cast<int>(channels));
  Message picture, summary;
  picture.varint(1, static_cast<uint64_t>(height)).varint(2, static_cast<uint64_t>(width));
  picture.varint(3, static_cast<uint64_t>(channels)).bytes(4, png);
  summary.message(4, picture);
  impl_->add_value(tag, std::move(summary), step, wall_time);
}

void SummaryWriter::flush() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->file >= 0) impl_->write_out();
}

void SummaryWriter::close() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->file < 0) return;
  impl_->write_out();
  ::close(impl_->file);
  impl_->file = -1;
}

const std::string& SummaryWriter::path() const { return impl_->path; }

}  // namespace facula::tensorboard
