// Runs cases of the GPU benchmark on request: run.py writes one command a line to standard input and reads one line of JSON.
//
//   list              the cases, the device, the versions
//   prepare NAME      makes the inputs, runs it once and checks the result
//   time NAME COUNT   microseconds of COUNT runs
//   drop              lets go of everything
//
// With `--tiny` all tensors are tiny, which tries the program and measures nothing.
// `--first-op` instead measures the time from the start of main until the first result of an op is on the host.
#include "cases.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace facula;
using Clock = std::chrono::steady_clock;

namespace {

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

// The time between two events around each run, as the peer takes it.
std::string time_on_device(const std::function<void()>& run, int count) {
  std::ostringstream out;
  out << "{\"us\": [";
  for (int i = -3; i < count; ++i) {
    cuda::CUDAEvent start(cuda::kEventDefault), end(cuda::kEventDefault);
    start.record();
    run();
    end.record();
    end.synchronize();
    if (i >= 0) out << (i > 0 ? ", " : "") << start.elapsed_time(end) * 1e3;
  }
  out << "]}";
  return out.str();
}

// Many calls in a row: what the host pays for one, and what passes until the device is done, for one.
std::string time_on_host(const std::function<void()>& run, int count) {
  constexpr int kCalls = 5000;
  std::ostringstream total, host;
  for (int i = -1; i < count; ++i) {
    cuda::synchronize();
    const auto begin = Clock::now();
    for (int k = 0; k < kCalls; ++k) run();
    const double queued = microseconds_since(begin) / kCalls;
    cuda::synchronize();
    if (i < 0) continue;
    total << (i > 0 ? ", " : "") << microseconds_since(begin) / kCalls;
    host << (i > 0 ? ", " : "") << queued;
  }
  return "{\"us\": [" + total.str() + "], \"host_us\": [" + host.str() + "]}";
}

class Server {
 public:
  Server() {
    for (const auto& family : {pointwise_cases(), reduction_cases(), matmul_cases(), attention_cases(),
                               training_cases(), index_cases(), overhead_cases()})
      for (const BenchCase& each : family) {
        order_.push_back(each.name);
        cases_[each.name] = each;
      }
  }

  std::string answer(const std::string& command) {
    std::istringstream words(command);
    std::string verb, name;
    int count = 0;
    words >> verb >> name >> count;
    try {
      if (verb == "list") return list();
      if (verb == "prepare") return prepare(cases_.at(name));
      if (verb == "time") return cases_.at(name).host ? time_on_host(run_, count) : time_on_device(run_, count);
      if (verb == "drop") return drop();
      return "{\"problem\": \"no such command\"}";
    } catch (const Error& error) {
      return "{\"problem\": " + json_text(std::string(error.type_name()) + ": " + error.what()) + "}";
    } catch (const std::exception& error) {
      return "{\"problem\": " + json_text(error.what()) + "}";
    }
  }

 private:
  std::string list() const {
    std::ostringstream out;
    out << "{\"device\": " << json_text(cuda::get_device_name(0)) << ", \"library\": " << json_text("Facula")
        << ", \"cases\": [";
    const char* comma = "";
    for (const std::string& name : order_) {
      const BenchCase& each = cases_.at(name);
      out << comma << "{\"name\": " << json_text(name) << ", \"bytes\": " << each.bytes << ", \"flops\": " << each.flops
          << ", \"host\": " << (each.host ? "true" : "false") << "}";
      comma = ", ";
    }
    out << "]}";
    return out.str();
  }

  std::string prepare(const BenchCase& one) {
    drop();
    const Prepared prepared = one.prepare();
    prepared.run();
    const double error = prepared.check();
    if (!(error <= one.tolerance)) {
      std::ostringstream why;
      why << "wrong result: the relative error is " << error << ", at most " << one.tolerance << " is right";
      return "{\"problem\": " + json_text(why.str()) + "}";
    }
    run_ = prepared.run;
    std::ostringstream out;
    out << "{\"error\": " << error << "}";
    return out.str();
  }

  std::string drop() {
    run_ = nullptr;
    cuda::synchronize();
    cuda::empty_cache();
    return "{}";
  }

  std::map<std::string, BenchCase> cases_;
  std::vector<std::string> order_;
  std::function<void()> run_;
};

int first_op(Clock::time_point start) {
  const Tensor a = full({8}, 1.5, TensorOptions().device(Device("cuda:0")));
  const double sum = (a + a).select(0, 3).item<double>();
  std::printf("{\"us\": %.0f, \"right\": %s}\n", microseconds_since(start), sum == 3.0 ? "true" : "false");
  return sum == 3.0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = Clock::now();
  if (argc > 1 && std::string_view(argv[1]) == "--first-op") return first_op(start);
  tiny_cases = argc > 1 && std::string_view(argv[1]) == "--tiny";
  Server server;
  for (std::string line; std::getline(std::cin, line);) std::cout << server.answer(line) << std::endl;
  return 0;
}
