// Files of tensors in the safetensors format: names, dtypes, shapes and bytes, and nothing that could be executed.
//
//   safetensors::save_file({{"weight", w}, {"bias", b}}, "layer.safetensors", {{"made_by", "me"}});
//   auto tensors = safetensors::load_file("layer.safetensors");
//   Tensor w = tensors["weight"];
//
// Files are read by memory map: tensors that come out share its memory, and the map lives as long as one of them does.
// Writing to such a tensor copies the page that is written; the file never changes. Whoever shortens a file while it is
// mapped takes the memory away under the tensors; saving does not, because it puts a new file in the place of the old.
//
// A reader believes nothing: the header is bounded, names are unique, every size is compared with the file in 64-bit
// arithmetic before anything is made, and tensors neither overlap nor leave gaps. A FormatError says what is wrong at
// which byte.
#pragma once

#include <facula/nn/ordered_dict.h>
#include <facula/tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace facula::safetensors {

using Tensors = OrderedDict<std::string, Tensor>;
using Metadata = OrderedDict<std::string, std::string>;

struct TensorInfo {
  std::string name;
  ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;  // bytes of the file
};

// An open file, of which single tensors are taken. The header is read and checked at once, tensors are when asked for.
class FACULA_API File {
 public:
  explicit File(const std::string& path);

  // In the order of the header.
  const std::vector<TensorInfo>& tensors() const;
  const Metadata& metadata() const;
  bool contains(const std::string& name) const;
  // Shares the memory of the map where the bytes lie as the dtype needs them, else is a copy.
  Tensor tensor(const std::string& name) const;
  Tensors all() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

FACULA_API Tensors load_file(const std::string& path, Device device = Device(kCPU));
// From bytes in memory, which are copied.
FACULA_API Tensors load(std::string_view bytes, Device device = Device(kCPU));
FACULA_API Metadata metadata(std::string_view bytes);

// Replaces the file as a whole: a crash, a full disk or an error in the middle leaves what was there. Any strides and
// devices; complex32 and complex128 have no place in the format.
FACULA_API void save_file(const Tensors& tensors, const std::string& path, const Metadata& metadata = {});
FACULA_API std::string save(const Tensors& tensors, const Metadata& metadata = {});

}  // namespace facula::safetensors
