// Runs the cases of two plugins in turn in one process, compares their results and reports medians. What the cases are
// is in cases.cpp; whether the figures are good enough is for compare.py.

#include <dlfcn.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugin.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSides = 2;  // 0 is ours, 1 is the peer

struct Options {
  std::string paths[kSides];
  std::string filter = ".";
  std::string threads = "1,all";
  std::string json;
  std::string markdown;
  std::vector<std::pair<std::string, std::string>> notes;  // facts about the machine, passed through to the reports
  bool quick = false;
  bool list = false;
};

struct Plan {
  double block_seconds;  // a timed block is at least this long
  double side_seconds;   // all timed blocks of one side together, when that leaves min_rounds
  int min_rounds;
  int max_rounds;
};

constexpr Plan kFull{0.002, 0.20, 3, 21};
constexpr Plan kQuick{0.001, 0.03, 2, 7};

struct Plugin {
  const BenchPlugin* api = nullptr;
  std::map<std::string, int32_t> index_of;
};

struct Timing {
  double median = 0;  // seconds for one iteration
  double low = 0;     // quartiles
  double high = 0;
};

struct Result {
  std::string name, group;
  int threads = 0;
  Timing timing[kSides];
  int rounds = 0;
  int64_t iterations[kSides] = {};
  std::string problem;  // empty when both sides ran and agree

  double ratio() const { return timing[1].median / timing[0].median; }
};

[[noreturn]] void usage(const char* message) {
  std::fprintf(stderr,
               "%s\nusage: facula_bench --ours PLUGIN --peer PLUGIN [--filter REGEX] [--threads 1,all] [--quick]\n"
               "                    [--list] [--json FILE] [--markdown FILE] [--note KEY=VALUE]...\n",
               message);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) usage((name + " needs a value").c_str());
      return argv[i];
    };
    if (name == "--ours") options.paths[0] = value();
    else if (name == "--peer") options.paths[1] = value();
    else if (name == "--filter") options.filter = value();
    else if (name == "--threads") options.threads = value();
    else if (name == "--json") options.json = value();
    else if (name == "--markdown") options.markdown = value();
    else if (name == "--quick") options.quick = true;
    else if (name == "--list") options.list = true;
    else if (name == "--note") {
      const std::string note = value();
      const size_t equals = note.find('=');
      if (equals == std::string::npos) usage("--note takes KEY=VALUE");
      options.notes.emplace_back(note.substr(0, equals), note.substr(equals + 1));
    } else usage(("unknown option " + name).c_str());
  }
  if (options.paths[0].empty() || options.paths[1].empty()) usage("--ours and --peer are needed");
  return options;
}

std::vector<int> thread_counts(const std::string& list) {
  const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<int> counts;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    const int count = item == "all" ? all : std::atoi(item.c_str());
    if (count < 1) usage("--threads takes numbers and `all`");
    if (std::find(counts.begin(), counts.end(), count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

// Each plugin in a scope of its own: no symbol of one library is found by the other.
Plugin load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<const BenchPlugin* (*)()>(dlsym(handle, "facula_bench_plugin"));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  Plugin plugin;
  plugin.api = entry();
  for (int32_t i = 0; i < plugin.api->case_count(); ++i) plugin.index_of[plugin.api->case_info(i).name] = i;
  return plugin;
}

// The OpenMP runtimes in this process. With two of them, idle threads of one still spin while the other runs.
std::set<std::string> openmp_runtimes() {
  std::set<std::string> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.rfind('/');
    if (slash == std::string::npos) continue;
    const std::string file = line.substr(slash + 1);
    if (file.rfind("libgomp", 0) == 0 || file.rfind("libomp", 0) == 0 || file.rfind("libiomp", 0) == 0) {
      paths.insert(line.substr(line.find('/')));
    }
  }
  return paths;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Some virtual machines announce AMX but hide the table of its tile shapes; oneDNN 2 then raises SIGILL,
// in either library. Returns whether AMX was ruled out for it.
bool rule_out_broken_amx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (1u << 24)) == 0) return false;
  if (__get_cpuid_count(0x1D, 0, &a, &b, &c, &d) && a > 0) return false;
  for (const char* name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) setenv(name, "AVX512_CORE_BF16", 0);
  return true;
#else
  return false;
#endif
}

// Freeing one large block makes glibc keep freed memory of up to that size, as it does in a process that has run for a
// while. Otherwise it depends on the order of the cases whether a result of a few hundred kilobytes is paged in anew.
void settle_allocator() {
  constexpr size_t kBytes = (size_t{32} << 20) - (size_t{64} << 10);
  volatile char* block = static_cast<volatile char*>(std::malloc(kBytes));
  if (block == nullptr) return;
  block[0] = 1;
  std::free(const_cast<char*>(block));
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one_minute;
  file >> one_minute;
  return one_minute;
}

void require(const char* error) {
  if (error != nullptr) throw std::runtime_error(error);
}

// ---- Checking -------------------------------------------------------------------------------------------------------

std::string describe_mismatch(const BenchSamples& ours, const BenchSamples& peer) {
  if (std::strcmp(ours.dtype, peer.dtype) != 0) {
    return std::string("dtype ") + ours.dtype + ", the peer's " + peer.dtype;
  }
  if (ours.dim != peer.dim || !std::equal(ours.sizes, ours.sizes + ours.dim, peer.sizes)) return "shapes differ";
  double largest = 0;
  for (int64_t i = 0; i < peer.count; ++i) {
    if (std::isfinite(peer.values[i])) largest = std::max(largest, std::abs(peer.values[i]));
  }
  const double allowed = peer.tolerance * largest;
  for (int64_t i = 0; i < peer.count; ++i) {
    const double a = ours.values[i], b = peer.values[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed;
    if (same) continue;
    char text[160];
    std::snprintf(text, sizeof text, "sample %lld is %.9g, the peer's %.9g, allowed difference %.3g",
                  static_cast<long long>(i), a, b, allowed);
    return text;
  }
  return "";
}

std::string describe_moments(const BenchSamples& samples, int32_t check) {
  double mean = 0, square = 0;
  for (int64_t i = 0; i < samples.count; ++i) mean += samples.values[i];
  mean /= static_cast<double>(samples.count);
  for (int64_t i = 0; i < samples.count; ++i) square += (samples.values[i] - mean) * (samples.values[i] - mean);
  const double deviation = std::sqrt(square / static_cast<double>(samples.count));
  if (!std::isfinite(deviation)) return "samples are not finite";
  if (samples.count < 1000) return "";  // too few for moments
  const double true_mean = check == kBenchNormal ? 0.0 : 0.5;
  const double true_deviation = check == kBenchNormal ? 1.0 : std::sqrt(1.0 / 12.0);
  if (std::abs(mean - true_mean) < 0.05 && std::abs(deviation - true_deviation) < 0.05) return "";
  return "mean " + std::to_string(mean) + ", standard deviation " + std::to_string(deviation);
}

// Empty when the results of the last run of both sides agree.
std::string compare_results(const Plugin (&sides)[kSides], int32_t check) {
  static const auto samples = std::make_unique<BenchSamples[]>(kSides);
  const int32_t count = sides[0].api->result_count();
  if (count != sides[1].api->result_count()) return "numbers of results differ";
  for (int32_t which = 0; which < count; ++which) {
    for (int side = 0; side < kSides; ++side) {
      if (const char* error = sides[side].api->sample_result(which, &samples[side])) return error;
    }
    std::string problem;
    if (check == kBenchSameValues) problem = describe_mismatch(samples[0], samples[1]);
    else problem = describe_moments(samples[0], check);
    if (!problem.empty()) return "result " + std::to_string(which) + ": " + problem;
  }
  return "";
}

// ---- Timing ---------------------------------------------------------------------------------------------------------

double time_block(const Plugin& plugin, int64_t iterations) {
  const auto start = Clock::now();
  const char* error = plugin.api->run(iterations);
  const auto stop = Clock::now();
  require(error);
  return std::chrono::duration<double>(stop - start).count();
}

struct Block {
  int64_t iterations;
  double seconds;
};

// How many iterations make a block of the wanted length, when the first iteration of all took `first_seconds`.
Block calibrate(const Plugin& plugin, double block_seconds, double first_seconds) {
  if (first_seconds > 0.05) return {1, first_seconds};
  int64_t iterations = 1;
  for (;;) {
    const double seconds = time_block(plugin, iterations);
    if (seconds >= block_seconds) return {iterations, seconds};
    const double grow = std::clamp(1.2 * block_seconds / std::max(seconds, 1e-9), 1.5, 100.0);
    iterations = static_cast<int64_t>(std::ceil(static_cast<double>(iterations) * grow));
  }
}

Timing summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t n = times.size();
  const double median = n % 2 == 1 ? times[n / 2] : 0.5 * (times[n / 2 - 1] + times[n / 2]);
  return {median, times[n / 4], times[(3 * n) / 4 < n ? (3 * n) / 4 : n - 1]};
}

void measure(const Plugin (&sides)[kSides], const Plan& plan, bool let_threads_sleep,
             const double (&first_seconds)[kSides], Result& result) {
  Block block[kSides];
  double slowest = 0;
  for (int side = 0; side < kSides; ++side) {
    block[side] = calibrate(sides[side], plan.block_seconds, first_seconds[side]);
    slowest = std::max(slowest, block[side].seconds);
    result.iterations[side] = block[side].iterations;
  }
  const double affordable = plan.side_seconds / slowest;
  result.rounds = static_cast<int>(std::clamp(affordable, 1.0 * plan.min_rounds, 1.0 * plan.max_rounds));
  std::vector<double> times[kSides];
  for (int round = 0; round < result.rounds; ++round) {
    for (int turn = 0; turn < kSides; ++turn) {
      const int side = (turn + round) % kSides;
      const int64_t iterations = block[side].iterations;
      if (let_threads_sleep) std::this_thread::sleep_for(std::chrono::milliseconds(15));
      // Untimed: wakes the threads and brings this side's data and code back into the caches. Long blocks outgrow them.
      if (block[side].seconds < 0.02) time_block(sides[side], std::max<int64_t>(1, iterations / 8));
      times[side].push_back(time_block(sides[side], iterations) / static_cast<double>(iterations));
    }
  }
  for (int side = 0; side < kSides; ++side) result.timing[side] = summarize(times[side]);
}

// ---- Reporting ------------------------------------------------------------------------------------------------------

std::string human_time(double seconds) {
  char text[32];
  if (seconds < 1e-6) std::snprintf(text, sizeof text, "%.0f ns", seconds * 1e9);
  else if (seconds < 1e-3) std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  else if (seconds < 1) std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  else std::snprintf(text, sizeof text, "%.2f s", seconds);
  return text;
}

std::string json_string(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') (quoted += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) quoted += ' ';
    else quoted += c;
  }
  return quoted + "\"";
}

double geometric_mean(const std::vector<Result>& results, int threads) {
  double sum = 0;
  int count = 0;
  for (const Result& result : results) {
    if (!result.problem.empty() || (threads != 0 && result.threads != threads)) continue;
    sum += std::log(result.ratio());
    ++count;
  }
  return count == 0 ? 0.0 : std::exp(sum / count);
}

void write_json(const std::string& path, const Options& options, const std::vector<Result>& results) {
  std::ofstream file(path);
  file << "{\n  \"notes\": {";
  const char* separator = "\n";
  for (const auto& [key, value] : options.notes) {
    file << separator << "    " << json_string(key) << ": " << json_string(value);
    separator = ",\n";
  }
  file << "\n  },\n  \"geomean\": " << geometric_mean(results, 0) << ",\n  \"results\": [";
  separator = "\n";
  char text[320];
  for (const Result& result : results) {
    file << separator << "    {\"case\": " << json_string(result.name) << ", \"group\": " << json_string(result.group)
         << ", \"threads\": " << result.threads;
    separator = ",\n";
    if (result.problem.empty()) {
      const Timing *a = &result.timing[0], *b = &result.timing[1];
      std::snprintf(text, sizeof text,
                    ", \"ours_ns\": %.1f, \"peer_ns\": %.1f, \"ratio\": %.4f, \"ours_quartiles_ns\": [%.1f, %.1f], "
                    "\"peer_quartiles_ns\": [%.1f, %.1f], \"rounds\": %d}",
                    a->median * 1e9, b->median * 1e9, result.ratio(), a->low * 1e9, a->high * 1e9, b->low * 1e9,
                    b->high * 1e9, result.rounds);
      file << text;
    } else {
      file << ", \"problem\": " << json_string(result.problem) << "}";
    }
  }
  file << "\n  ]\n}\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void write_markdown(const std::string& path, const Options& options, const std::vector<Result>& results) {
  std::ofstream file(path);
  file << "# CPU cases\n\n"
          "Ratio is the peer's time divided by ours: above 1 we are faster. Medians of interleaved rounds.\n\n";
  for (const auto& [key, value] : options.notes) file << "- " << key << ": " << value << "\n";
  char text[256];
  std::set<int> threads;
  for (const Result& result : results) threads.insert(result.threads);
  for (int count : threads) {
    std::snprintf(text, sizeof text, "- geometric mean of the ratios, %d thread%s: %.2f\n", count,
                  count == 1 ? "" : "s", geometric_mean(results, count));
    file << text;
  }
  file << "\n| case | threads | ours | peer | ratio |\n|---|---:|---:|---:|---:|\n";
  for (const Result& result : results) {
    if (result.problem.empty()) {
      std::snprintf(text, sizeof text, "| %s | %d | %s | %s | %.2f |\n", result.name.c_str(), result.threads,
                    human_time(result.timing[0].median).c_str(), human_time(result.timing[1].median).c_str(),
                    result.ratio());
      file << text;
    } else {
      file << "| " << result.name << " | " << result.threads << " | " << result.problem << " | | |\n";
    }
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void print_result(const Result& result) {
  if (!result.problem.empty()) {
    std::printf("%-38s %3d  VOID: %s\n", result.name.c_str(), result.threads, result.problem.c_str());
  } else {
    std::printf("%-38s %3d %11s %11s %8.2f\n", result.name.c_str(), result.threads,
                human_time(result.timing[0].median).c_str(), human_time(result.timing[1].median).c_str(),
                result.ratio());
  }
  std::fflush(stdout);
}

void print_summary(const std::vector<Result>& results, const std::vector<int>& threads, double seconds) {
  std::vector<const Result*> worst;
  int void_count = 0;
  for (const Result& result : results) {
    if (result.problem.empty()) worst.push_back(&result);
    else ++void_count;
  }
  std::sort(worst.begin(), worst.end(), [](const Result* a, const Result* b) { return a->ratio() < b->ratio(); });
  std::printf("\nworst cases\n");
  for (size_t i = 0; i < std::min<size_t>(worst.size(), 12); ++i) print_result(*worst[i]);
  std::printf("\n");
  for (int count : threads) {
    std::printf("geometric mean, %d thread%s: %.3f\n", count, count == 1 ? "" : "s", geometric_mean(results, count));
  }
  std::printf("geometric mean: %.3f over %zu results, %d void, %.0f s\n", geometric_mean(results, 0), worst.size(),
              void_count, seconds);
}

// ---- The run --------------------------------------------------------------------------------------------------------

// All thread counts of one case, on inputs that are made once.
void run_case(const Plugin (&sides)[kSides], const BenchCaseInfo& info, const std::vector<int>& threads,
              const Plan& plan, bool two_runtimes, std::vector<Result>& results) {
  std::string problem;
  try {
    for (const Plugin& side : sides) {
      const auto found = side.index_of.find(info.name);
      if (found == side.index_of.end()) throw std::runtime_error("one plugin lacks this case");
      require(side.api->prepare(found->second));
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  for (int count : threads) {
    Result result;
    result.name = info.name;
    result.group = info.group;
    result.threads = count;
    result.problem = problem;
    try {
      if (problem.empty()) {
        double first_seconds[kSides];
        for (int side = 0; side < kSides; ++side) {
          require(sides[side].api->set_num_threads(count));
          first_seconds[side] = time_block(sides[side], 1);
        }
        result.problem = compare_results(sides, info.check);
        if (result.problem.empty()) measure(sides, plan, two_runtimes && count > 1, first_seconds, result);
      }
    } catch (const std::exception& error) {
      result.problem = error.what();
    }
    result.problem = result.problem.substr(0, result.problem.find('\n'));
    results.push_back(result);
    print_result(result);
  }
  for (const Plugin& side : sides) side.api->teardown();
}

int run(Options options) {
  const std::vector<int> threads = thread_counts(options.threads);
  const Plan plan = options.quick ? kQuick : kFull;
  const std::regex filter(options.filter);
  settle_allocator();
  const bool amx_ruled_out = rule_out_broken_amx();
  Plugin sides[kSides];
  for (int side = 0; side < kSides; ++side) sides[side] = load(options.paths[side]);

  std::vector<BenchCaseInfo> selected;
  for (int32_t i = 0; i < sides[0].api->case_count(); ++i) {
    const BenchCaseInfo info = sides[0].api->case_info(i);
    if (std::regex_search(info.name, filter) || std::regex_search(info.group, filter)) selected.push_back(info);
  }
  if (options.list) {
    for (const BenchCaseInfo& info : selected) std::printf("%-12s %s\n", info.group, info.name);
    return 0;
  }

  const std::set<std::string> runtimes = openmp_runtimes();
  std::string runtime_list;
  for (const std::string& path : runtimes) {
    runtime_list += (runtime_list.empty() ? "" : ", ") + path.substr(path.rfind('/') + 1);
  }
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"date", date},
      {"cpu", cpu_model() + ", " + std::to_string(std::thread::hardware_concurrency()) + " threads"},
      {"ours", sides[0].api->library()},
      {"peer", std::string(sides[1].api->library()) + ", autograd off (inference mode)"},
      {"OpenMP", runtime_list.empty() ? "none" : runtime_list},
      {"AMX", amx_ruled_out ? "ruled out for oneDNN on both sides, which traps here: this machine hides the tile shapes"
                            : "as the libraries find it"},
      {"load before the run", load_average()},
      {"rounds", options.quick ? "quick" : "full"}};
  options.notes.insert(options.notes.begin(), facts.begin(), facts.end());
  for (const auto& [key, value] : options.notes) std::printf("%s: %s\n", key.c_str(), value.c_str());
  std::printf("\n%-38s %3s %11s %11s %8s\n", "case", "thr", "ours", "peer", "peer/ours");

  const auto start = Clock::now();
  std::vector<Result> results;
  for (const BenchCaseInfo& info : selected) run_case(sides, info, threads, plan, runtimes.size() > 1, results);
  print_summary(results, threads, std::chrono::duration<double>(Clock::now() - start).count());
  if (!options.json.empty()) write_json(options.json, options, results);
  if (!options.markdown.empty()) write_markdown(options.markdown, options, results);
  const bool sound = std::all_of(results.begin(), results.end(), [](const Result& r) { return r.problem.empty(); });
  return sound && !results.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "facula_bench: %s\n", error.what());
    return 2;
  }
}
