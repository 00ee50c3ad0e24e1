// Folders and environment variables that live as long as a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace facula::testing {

// An empty folder, removed with all that it holds.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/facula-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// An environment variable with another value.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (had_) ::setenv(name_, before_.c_str(), 1);
    else ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string before_;
};

}  // namespace facula::testing
