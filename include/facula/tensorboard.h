// Event files that TensorBoard shows.
//
//   tensorboard::SummaryWriter writer("runs/first");
//   writer.add_scalar("loss/train", loss, step);
#pragma once

#include <facula/tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace facula::tensorboard {

class FACULA_API SummaryWriter {
 public:
  // Makes the folder and a new file in it: events.out.tfevents.TIME.HOST.PROCESS.NUMBER and the suffix.
  explicit SummaryWriter(const std::string& log_dir, const std::string& filename_suffix = {});
  // Writes what is left.
  ~SummaryWriter();
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;

  // `wall_time` is in seconds since 1970, the present when it is not given.
  void add_scalar(const std::string& tag, double value, int64_t step = 0,
                  std::optional<double> wall_time = std::nullopt);
  // How the values of a tensor are distributed. Values that are not finite are left out.
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step = 0,
                     std::optional<double> wall_time = std::nullopt);
  // The same, counted already: `limits` are the upper ends of the buckets.
  void add_histogram_raw(const std::string& tag, double min, double max, double count, double sum, double sum_squares,
                         const std::vector<double>& limits, const std::vector<double>& counts, int64_t step = 0,
                         std::optional<double> wall_time = std::nullopt);
  // Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step = 0,
                std::optional<double> wall_time = std::nullopt);
  // [channels, height, width] or [height, width]; 1, 3 or 4 channels; uint8 from 0 to 255, floating from 0 to 1.
  void add_image(const std::string& tag, const Tensor& image, int64_t step = 0,
                 std::optional<double> wall_time = std::nullopt);

  // Hands everything to the system. It happens by itself every few seconds.
  void flush();
  // Nothing can be added afterwards.
  void close();
  const std::string& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace facula::tensorboard
