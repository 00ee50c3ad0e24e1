// What is kept on disk between processes: one file per entry in a folder of the user. Nothing found there is trusted: folder and
// files must belong to the user and be writable by nobody else, and an entry carries its key and the hash of its contents. A folder
// that cannot be used costs one warning, never an error.
#pragma once

#include "gpu/sha256.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace facula::gpu {

class DiskCache {
 public:
  // Nothing is touched until the first use. An empty folder or a limit of 0 bytes keeps nothing; `why_none` then says why, for
  // the warning; no text, no warning.
  DiskCache(std::string folder, uint64_t limit_bytes, std::string why_none = {});
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // The folder; "" when it cannot be used.
  const std::string& folder();
  // The contents that were written under this key, if they are there and whole. Other entries are removed.
  std::optional<std::vector<char>> read(const Digest& key);
  void write(const Digest& key, std::span<const char> contents);
  void remove(const Digest& key);
  // Writes a text for people next to the entries (it is removed with the oldest of them); its path, or "" on failure.
  std::string write_text(const std::string& name, std::string_view text);
  // Marks: empty files in a folder of their own beside the entries. They say only that something is going on, so trouble with them
  // is no error and no warning.
  bool set_mark(const std::string& name);  // false: not made, also where there is one of this name already
  void remove_mark(const std::string& name);
  // The names that begin with `prefix`. Others that were left behind long ago are removed.
  std::vector<std::string> marks(const std::string& prefix);
  // Removes the entries that were not used for longest until all together take at most `bytes`.
  void shrink_to(uint64_t bytes);

  int64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }
  int64_t write_failures() const { return write_failures_.load(std::memory_order_relaxed); }

 private:
  bool open();
  std::string prepare();  // makes and checks the folders; returns what is wrong
  bool write_file(const std::string& name, std::span<const std::span<const char>> parts);
  void warn_once(const std::string& cause);
  int open_marks(bool make);  // a descriptor of their folder; -1: there is none

  std::string folder_, why_none_;
  uint64_t limit_bytes_;
  std::mutex mutex_;
  bool opened_ = false;
  std::atomic<bool> warned_{false};
  int descriptor_ = -1;       // of the folder of entries
  int base_descriptor_ = -1;  // of the folder that it lies in
  bool size_known_ = false;
  uint64_t size_bytes_ = 0;
  std::atomic<bool> writable_{true};
  std::atomic<int64_t> rejected_{0}, write_failures_{0};
};

// The cache of this process, where FACULA_CACHE_DIR and FACULA_CACHE_MB say.
DiskCache& disk_cache();

}  // namespace facula::gpu
