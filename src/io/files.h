// Files of the system: read-only contents by memory map, and writing that replaces a file as a whole or not at all.
#pragma once

#include "core/function_ref.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace facula::io {

// The contents of a file. Memory that was written to is private to this process: the file never changes through it.
class MappedFile {
 public:
  // `op` names the caller in errors. Only plain files can be mapped.
  static std::shared_ptr<MappedFile> open(const std::string& path, const char* op);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(char* data, size_t size) : data_(data), size_(size) {}
  char* data_;
  size_t size_;
};

using Sink = FunctionRef<void(const void* data, size_t size)>;

// Calls `write` with where to put bytes, and gives the file its name when all of them are on the disk. Until then the
// file has another name in the same folder, so that a crash, a full disk or an exception leave what `path` was before.
void write_file_atomically(const std::string& path, const char* op, FunctionRef<void(Sink)> write);

}  // namespace facula::io
