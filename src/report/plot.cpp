// Loss curves: axes, curves, legend.
#include <facula/core/error.h>
#include <facula/plot.h>

#include "io/files.h"
#include "report/canvas.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace facula {
namespace {

using report::Align;
using report::Canvas;
using report::Color;
using report::Point;

constexpr Color kInk{51, 51, 51}, kGrid{226, 226, 226};
constexpr Color kCurves[] = {{31, 119, 180}, {230, 85, 13}, {44, 140, 60},  {200, 40, 50},
                             {117, 80, 180}, {120, 80, 60}, {30, 160, 170}, {110, 110, 110}};

// Round numbers between two values, about `count` of them.
std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (power * factor >= rough * (1 - 1e-9)) {
      step = power * factor;
      break;
    }
  std::vector<double> made;
  for (double value = std::ceil(low / step - 1e-9) * step; value <= high + step * 1e-9 && made.size() < 50;
       value += step)
    made.push_back(std::fabs(value) < step * 1e-9 ? 0 : value);
  return made;
}

std::string tick_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, std::fabs(value) >= 1e6 ? "%.3g" : "%.6g", value);
  return buffer;
}

struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool is_log = false;
  double from = 0, to = 1;  // pixels

  bool shows(double value) const { return std::isfinite(value) && (!is_log || value > 0); }
  double scaled(double value) const { return is_log ? std::log10(value) : value; }
  void include(double value) {
    low = std::min(low, scaled(value));
    high = std::max(high, scaled(value));
  }
  void settle(double margin) {
    if (!(low <= high)) low = 0, high = 1;
    double room = high - low;
    // A constant curve lies in the middle; numbers that differ in their last bits only are no axis.
    if (!(room > 1e-12 * std::max(std::fabs(low), std::fabs(high)))) {
      room = std::max(1e-9, std::fabs(high) * 0.1);
      low -= room;
      high += room;
    }
    low -= margin * room;
    high += margin * room;
  }
  double place(double value) const { return from + (scaled(value) - low) / (high - low) * (to - from); }
  // A value of the axis itself, which is a power of ten on a logarithmic one.
  double place_scaled(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Where more points than pixels share a column, its lowest and highest value say all that can be seen.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() < 4000) return points;
  std::vector<Point> made;
  for (size_t i = 0; i < points.size();) {
    const double column = std::floor(points[i].first);
    size_t end = i, low = i, high = i;
    for (; end < points.size() && std::floor(points[end].first) == column; ++end) {
      if (points[end].second < points[low].second) low = end;
      if (points[end].second > points[high].second) high = end;
    }
    made.push_back(points[std::min(low, high)]);
    if (low != high) made.push_back(points[std::max(low, high)]);
    i = std::max(end, i + 1);
  }
  return made;
}

void draw(Canvas& canvas, const PlotOptions& options, const std::vector<LossCurve::Series>& all) {
  Axis x, y;
  y.is_log = options.log_y;
  for (const LossCurve::Series& series : all)
    for (const auto& [at, value] : series.points)
      if (x.shows(at) && y.shows(value)) {
        x.include(at);
        y.include(value);
      }
  x.settle(0.01);
  y.settle(0.05);
  const double size = 11;
  const double left = 84, right = options.width - 24, top = options.title.empty() ? 24 : 48,
               bottom = options.height - 56;
  x.from = left, x.to = right, y.from = bottom, y.to = top;

  for (const double value : ticks(x.low, x.high, 8)) {
    const double at = x.place_scaled(value);
    canvas.line({{at, top}, {at, bottom}}, kGrid, 1);
    canvas.text(tick_text(value), at, bottom + 16, size, kInk, Align::Center);
  }
  for (const double value : ticks(y.low, y.high, 6)) {
    const double at = y.place_scaled(value);
    canvas.line({{left, at}, {right, at}}, kGrid, 1);
    canvas.text(tick_text(y.is_log ? std::pow(10, value) : value), left - 8, at, size, kInk, Align::Right);
  }
  canvas.line({{left, top}, {left, bottom}, {right, bottom}}, kInk, 1.2);
  canvas.text(options.title, options.width / 2.0, top / 2, 15, kInk, Align::Center);
  canvas.text(options.x_label, (left + right) / 2, bottom + 40, size, kInk, Align::Center);
  canvas.text(options.y_label, 8, top - 12, size, kInk, Align::Left);

  size_t longest = 0;
  for (const LossCurve::Series& series : all) longest = std::max(longest, series.name.size());
  const double legend = std::max(left, right - 44 - 0.95 * size * static_cast<double>(longest));
  for (size_t i = 0; i < all.size(); ++i) {
    const Color color = kCurves[i % std::size(kCurves)];
    std::vector<Point> run;
    const auto flush = [&] {
      if (!run.empty()) canvas.line(thinned(run), color, 1.8);
      run.clear();
    };
    for (const auto& [at, value] : all[i].points) {
      if (x.shows(at) && y.shows(value)) run.emplace_back(x.place(at), y.place(value));
      else flush();
    }
    flush();
    const double row = top + 14 + 20 * static_cast<double>(i);
    canvas.line({{legend, row}, {legend + 28, row}}, color, 3);
    canvas.text(all[i].name, legend + 36, row, size, kInk, Align::Left);
  }
}

}  // namespace

LossCurve::LossCurve(std::string title) { options_.title = std::move(title); }
LossCurve::LossCurve(PlotOptions options) : options_(std::move(options)) {
  FACULA_CHECK(options_.width >= 200 && options_.height >= 150 && options_.width <= 10000 && options_.height <= 10000,
               ValueError, "LossCurve: a picture of ", options_.width, " x ", options_.height,
               " is not possible; take 200 x 150 to 10000 x 10000");
}

void LossCurve::add(const std::string& name, double x, double y) {
  auto found = std::find_if(series_.begin(), series_.end(), [&](const Series& each) { return each.name == name; });
  if (found == series_.end()) found = series_.insert(series_.end(), Series{name, {}});
  found->points.emplace_back(x, y);
}

std::string LossCurve::svg() const {
  const auto canvas = report::make_svg_canvas(options_.width, options_.height);
  draw(*canvas, options_, series_);
  return canvas->finish();
}

std::string LossCurve::png() const {
  const auto canvas = report::make_png_canvas(options_.width, options_.height);
  draw(*canvas, options_, series_);
  return canvas->finish();
}

void LossCurve::save(const std::string& path) const {
  const bool is_svg = path.ends_with(".svg");
  FACULA_CHECK(is_svg || path.ends_with(".png"), ValueError, "LossCurve::save: '", path,
               "' ends neither with .svg nor with .png");
  const std::string file = is_svg ? svg() : png();
  io::write_file_atomically(path, "LossCurve::save", [&](io::Sink sink) { sink(file.data(), file.size()); });
}

}  // namespace facula
