// Curves of training as pictures: SVG or PNG, by the ending of the path.
//
//   LossCurve curve("Training");
//   for (...) curve.add("loss", step, loss);
//   curve.save("loss.svg");
#pragma once

#include <facula/core/export.h>

#include <string>
#include <utility>
#include <vector>

namespace facula {

struct PlotOptions {
  std::string title, x_label = "step", y_label = "loss";
  int width = 900, height = 540;
  bool log_y = false;  // values that are not positive are left out then
};

class FACULA_API LossCurve {
 public:
  explicit LossCurve(std::string title = {});
  explicit LossCurve(PlotOptions options);

  // One more point of the curve of this name. Values that are not finite leave a gap.
  void add(const std::string& name, double x, double y);
  // To a file that ends with .svg or .png, which is replaced as a whole.
  void save(const std::string& path) const;
  std::string svg() const;
  std::string png() const;

  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  const std::vector<Series>& series() const { return series_; }

 private:
  PlotOptions options_;
  std::vector<Series> series_;
};

}  // namespace facula
