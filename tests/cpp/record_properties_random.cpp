// The properties of random ops: shape and dtype, the same numbers for the same seed and any number of threads, others
// for another seed, and the statistics that the record states.
#include "cpp/record_calls.h"
#include "cpp/record_values.h"

#include <facula/core/generator.h>
#include <facula/threads.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace facula::testing {
namespace {

// A sound generator fails a bound of this many standard deviations about once in 500 million checks.
constexpr double kSigmas = 6.0;

std::string bounds_and_moments(const std::vector<double>& values, const CaseStatistics& want) {
  std::ostringstream out;
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double x : values) {
    if (!(x >= want.low && x <= want.high)) {
      out << "the number " << x << " is outside " << want.low << ".." << want.high;
      return out.str();
    }
    sum += x;
  }
  const double mean = sum / n;
  if (std::isfinite(want.mean) && std::isfinite(want.std) &&
      std::abs(mean - want.mean) > kSigmas * want.std / std::sqrt(n) + 1e-6) {
    out << "the mean of " << values.size() << " numbers is " << mean << ", must be about " << want.mean;
    return out.str();
  }
  for (const auto& [x, p] : want.cdf) {
    const auto below =
        static_cast<double>(std::count_if(values.begin(), values.end(), [at = x](double v) { return v <= at; }));
    if (std::abs(below / n - p) > kSigmas * std::sqrt(p * (1 - p) / n) + 1e-9) {
      out << "a share of " << below / n << " of " << values.size() << " numbers is at most " << x << ", must be about "
          << p;
      return out.str();
    }
  }
  return {};
}

std::string not_a_permutation(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<double>(i))
      return "the numbers are not a permutation of 0.." + std::to_string(values.size() - 1);
  return {};
}

// Neighbours in the stream must not be related: the correlation of each number with the next one.
std::string correlation(const std::vector<double>& values, const CaseStatistics& want) {
  if (values.size() < 10000 || !std::isfinite(want.mean) || !(want.std > 0)) return {};
  double sum = 0;
  for (size_t i = 0; i + 1 < values.size(); ++i) sum += (values[i] - want.mean) * (values[i + 1] - want.mean);
  const auto n = static_cast<double>(values.size() - 1);
  const double r = sum / n / (want.std * want.std);
  // Heavy tails make the estimate wider than for normal numbers, hence the factor.
  if (std::abs(r) <= 2 * kSigmas / std::sqrt(n)) return {};
  return "neighbouring numbers have correlation " + std::to_string(r);
}

}  // namespace

std::vector<std::string> check_random(const Variants& variants, const Case& one, uint64_t seed) {
  std::vector<std::string> to;
  const auto add = [&](const std::string& what, const std::string& why) {
    if (!why.empty()) to.push_back(what + ": " + why);
  };
  const int threads = get_num_threads();
  try {
    const Arguments args = to_boxed(one, variants.plain());
    const auto draw = [&](uint64_t with_seed) {
      manual_seed(with_seed);
      return std::get<Tensor>(call_plain(variants, args).at(0));
    };
    const Tensor first = draw(seed);
    add("plainly", difference(first, one.truth.at(0), false, false));
    if (!to.empty()) return to;
    const auto values = elements_as_double(first);
    if (!values.empty()) {
      add("statistics", bounds_and_moments(values, one.statistics));
      add("statistics", correlation(values, one.statistics));
      if (one.statistics.permutation) add("statistics", not_a_permutation(values));
    }
    add("with the same seed", bit_difference(draw(seed), first));
    set_num_threads(1);
    const Tensor alone = draw(seed);
    set_num_threads(2);
    add("with two threads instead of one", bit_difference(draw(seed), alone));
    add("with one thread", bit_difference(alone, first));
    const bool constant = values.size() < 32 || *std::min_element(values.begin(), values.end()) ==
                                                    *std::max_element(values.begin(), values.end());
    if (!constant && bit_difference(draw(seed + 1), first).empty()) to.push_back("another seed gives the same numbers");
    if (!constant) {
      manual_seed(seed);
      call_plain(variants, args);
      if (bit_difference(std::get<Tensor>(call_plain(variants, args).at(0)), first).empty())
        to.push_back("a second call gives the same numbers as the first");
    }
    if ((one.flags & kCheckMeta) != 0 && !tensors_of(args).empty())
      add("on meta tensors",
          difference(std::get<Tensor>(call_plain(variants, on_meta(args)).at(0)), one.truth.at(0), false, false));
  } catch (const Error& error) {
    to.push_back(std::string(error.type_name()) + ": " + error.what());
  }
  set_num_threads(threads);
  return to;
}

}  // namespace facula::testing
