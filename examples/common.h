// What the examples share: options of the command line, the data, and the bar, curve and closing line of a training
// run. What they teach is in the examples themselves.
#pragma once

#include <facula/cuda.h>
#include <facula/facula.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Where the folder data/ is; the build says it.
#ifndef FACULA_EXAMPLES_DATA
#define FACULA_EXAMPLES_DATA "examples/data"
#endif

namespace examples {

inline facula::Device best_device() {
  return facula::cuda::is_available() ? facula::Device(facula::kCUDA) : facula::Device(facula::kCPU);
}

struct Options {
  int64_t steps = 0;
  int64_t seed = 1;
  facula::Device device = best_device();
  bool quiet = false;
  std::filesystem::path data = FACULA_EXAMPLES_DATA;
  std::filesystem::path out = ".";
};

// The options of the command line; `more` has those of one example alone, whole numbers by their names.
inline Options read_options(int argc, char** argv, int64_t steps, const std::map<std::string, int64_t*>& more = {}) {
  Options options;
  options.steps = steps;
  const auto usage = [&](int status) {
    std::printf("Usage: %s [OPTIONS]\n  --steps N     how long to train (%lld)\n", argv[0],
                static_cast<long long>(steps));
    std::printf("  --seed N      where random numbers begin (1)\n  --device D    cpu, cuda or cuda:1 (%s)\n",
                options.device.str().c_str());
    std::printf("  --quiet       no bar, no texts, results only\n  --data DIR    where the data is (%s)\n",
                options.data.c_str());
    std::printf("  --out DIR     where the loss curve and the weights go (.)\n");
    for (const auto& [name, value] : more)
      std::printf("  %-9s N   (%lld)\n", name.c_str(), static_cast<long long>(*value));
    std::exit(status);
  };
  const auto number = [&](const std::string& text) {
    char* end = nullptr;
    const int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || value < 0) usage(2);
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") usage(0);
    if (name == "--quiet") {
      options.quiet = true;
      continue;
    }
    if (i + 1 == argc) usage(2);
    const std::string value = argv[++i];
    if (name == "--steps") options.steps = std::max<int64_t>(number(value), 1);
    else if (name == "--seed") options.seed = number(value);
    else if (name == "--device") options.device = facula::Device(value);
    else if (name == "--data") options.data = value;
    else if (name == "--out") options.out = value;
    else if (more.count(name)) *more.at(name) = number(value);
    else usage(2);
  }
  std::filesystem::create_directories(options.out);
  facula::manual_seed(static_cast<uint64_t>(options.seed));
  return options;
}

// Follows a run: a bar on a terminal, a line now and then elsewhere, at the end the curve as a picture and the line
//
//   loss: first 4.4123 last 1.7012
//
// with the means of the first and of the last tenth of the steps.
class Training {
 public:
  Training(const Options& options, const std::string& name)
      : options_(options), name_(name), curve_(name), bar_(options.steps, name, bar_options(options)) {}

  void step(double loss) {
    losses_.push_back(loss);
    curve_.add("loss", static_cast<double>(losses_.size()), loss);
    bar_.step({{"loss", loss}});
    const int64_t done = static_cast<int64_t>(losses_.size());
    if (!options_.quiet && done % std::max<int64_t>(options_.steps / 10, 1) == 0) {
      char line[128];
      std::snprintf(line, sizeof line, "%s: step %lld, loss %.4f, %.1f s", name_.c_str(), static_cast<long long>(done),
                    loss, seconds());
      bar_.print(line);
    }
  }

  void finish() {
    bar_.finish();
    const std::string picture = (options_.out / (name_ + ".svg")).string();
    curve_.save(picture);
    const size_t few = std::max<size_t>(losses_.size() / 10, 1);
    std::printf("loss: first %.4f last %.4f\n", mean(losses_.begin(), few), mean(losses_.end() - few, few));
    if (!options_.quiet) std::printf("%.1f s of training; loss curve: %s\n", seconds(), picture.c_str());
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  static facula::ProgressOptions bar_options(const Options& options) {
    facula::ProgressOptions made;
    if (options.quiet) made.shown = false;
    return made;
  }
  static double mean(std::vector<double>::const_iterator from, size_t count) {
    return std::accumulate(from, from + static_cast<std::ptrdiff_t>(count), 0.0) / static_cast<double>(count);
  }

  Options options_;
  std::string name_;
  facula::LossCurve curve_;
  facula::Progress bar_;
  std::vector<double> losses_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A text as numbers: each letter that occurs in it has one.
struct Text {
  explicit Text(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    FACULA_CHECK(file, ValueError, "cannot read ", path.string(), "; --data DIR says where the data is");
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    const std::set<char> different(all.begin(), all.end());
    letters.assign(different.begin(), different.end());
    const facula::Tensor codes = encode(all);
    // The last tenth is kept apart, to see how well the model does on what it has not read.
    train = codes.narrow(0, 0, codes.size(0) * 9 / 10);
    test = codes.narrow(0, train.size(0), codes.size(0) - train.size(0));
  }

  int64_t size() const { return static_cast<int64_t>(letters.size()); }
  facula::Tensor encode(const std::string& text) const {
    std::vector<int64_t> codes;
    codes.reserve(text.size());
    for (const char letter : text) codes.push_back(static_cast<int64_t>(letters.find(letter)));
    return facula::tensor(codes);
  }
  std::string decode(const facula::Tensor& codes) const {
    const facula::Tensor here = codes.cpu().contiguous();
    std::string text;
    for (int64_t i = 0; i < here.numel(); ++i) text += letters[static_cast<size_t>(here.data_ptr<int64_t>()[i])];
    return text;
  }

  std::string letters;
  facula::Tensor train, test;
};

// Handwritten digits: images of shape (count, 8, 8) with values from 0 to 1, and which digits they show. Every fifth
// one is kept for the test.
struct Digits {
  facula::Tensor images, labels;
};
inline Digits load_digits(const std::filesystem::path& folder, bool test) {
  const auto file = facula::safetensors::load_file((folder / "digits.safetensors").string());
  const facula::Tensor images = file["images"], labels = file["labels"];
  const facula::Tensor is_test = facula::arange(labels.size(0)).remainder(5) == 0;
  const facula::Tensor chosen = (test ? is_test : is_test.logical_not()).nonzero().squeeze(1);
  return {images.index_select(0, chosen).to(facula::kFloat) / 16, labels.index_select(0, chosen).to(facula::kLong)};
}

}  // namespace examples
