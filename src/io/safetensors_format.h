// The safetensors format itself: eight bytes with the length of the header, the header as JSON, then the bytes of all
// tensors without gaps.
#pragma once

#include <facula/safetensors.h>

#include "io/files.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace facula::io {

struct SafetensorsHeader {
  std::vector<safetensors::TensorInfo> tensors;
  safetensors::Metadata metadata;
};

// Reads and checks everything but the bytes of the tensors. `source` begins every error.
SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& source);
// A tensor over `owner`'s memory at `file + info.begin`, or a copy when that is not aligned.
Tensor tensor_in_file(char* file, const std::shared_ptr<void>& owner, const safetensors::TensorInfo& info,
                      const std::string& source);

// Writes a whole file. `op` begins every error.
void write_safetensors(const safetensors::Tensors& tensors, const safetensors::Metadata& metadata, const char* op,
                       Sink sink);

// The format's name of a dtype; null where it has none.
const char* safetensors_dtype(ScalarType dtype);

}  // namespace facula::io
