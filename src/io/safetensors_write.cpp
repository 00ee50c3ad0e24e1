// Writing safetensors: where each tensor goes, the header, the bytes.
#include <facula/autograd/modes.h>
#include <facula/facula.h>

#include "io/json_reader.h"
#include "io/safetensors_format.h"

#include <algorithm>
#include <limits>

namespace facula::io {
namespace {

struct Entry {
  const std::string* name;
  const Tensor* tensor;
  uint64_t begin = 0;
};

void check(const std::string& name, const Tensor& tensor, const char* op) {
  FACULA_CHECK(name != "__metadata__", ValueError, op, ": a tensor may not be called __metadata__");
  FACULA_CHECK(tensor.defined(), ValueError, op, ": tensor \"", name, "\" is undefined");
  FACULA_CHECK(!tensor.is_meta(), ValueError, op, ": tensor \"", name,
               "\" is on the meta device and has no data to save");
  FACULA_CHECK(safetensors_dtype(tensor.scalar_type()), NotSupportedError, op, ": tensor \"", name, "\" has dtype ",
               dtype_name(tensor.scalar_type()), ", which the safetensors format does not know; save view_as_real(",
               name, ") instead");
}

std::string header_text(const std::vector<Entry>& entries, const safetensors::Metadata& metadata, const char* op) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.is_empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& item : metadata) {
      if (!first) text += ',';
      first = false;
      write_json_string(text, item.key(), op);
      text += ':';
      write_json_string(text, *item, op);
    }
    text += '}';
  }
  for (const Entry& entry : entries) {
    separate();
    write_json_string(text, *entry.name, op);
    text += str(":{\"dtype\":\"", safetensors_dtype(entry.tensor->scalar_type()), "\",\"shape\":[");
    for (int64_t d = 0; d < entry.tensor->dim(); ++d) text += str(d ? "," : "", entry.tensor->size(d));
    text += str("],\"data_offsets\":[", entry.begin, ",", entry.begin + entry.tensor->nbytes(), "]}");
  }
  text += '}';
  // The data begins at a multiple of 64, where a map of the file can be used as it is.
  text.append((64 - (text.size() + 8) % 64) % 64, ' ');
  return text;
}

}  // namespace

void write_safetensors(const safetensors::Tensors& tensors, const safetensors::Metadata& metadata, const char* op,
                       Sink sink) {
  const NoGradGuard quiet;
  std::vector<Entry> entries;
  entries.reserve(tensors.size());
  for (const auto& item : tensors) {
    check(item.key(), *item, op);
    entries.push_back({&item.key(), &item.value()});
  }
  // Large elements first: then all are aligned, without the gaps that the format forbids.
  std::vector<size_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return entries[a].tensor->itemsize() > entries[b].tensor->itemsize(); });
  uint64_t end = 0;
  for (const size_t i : order) {
    entries[i].begin = end;
    end += entries[i].tensor->nbytes();
  }

  const std::string header = header_text(entries, metadata, op);
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  sink(length, 8);
  sink(header.data(), header.size());
  for (const size_t i : order) {
    // One at a time, so that a network on a GPU needs the memory of its largest tensor here.
    const Tensor bytes = entries[i].tensor->detach().cpu().contiguous();
    if (bytes.nbytes() > 0) sink(bytes.const_data_ptr(), bytes.nbytes());
  }
}

}  // namespace facula::io

namespace facula::safetensors {

void save_file(const Tensors& tensors, const std::string& path, const Metadata& metadata) {
  io::write_file_atomically(path, "save_file",
                            [&](io::Sink sink) { io::write_safetensors(tensors, metadata, "save_file", sink); });
}

std::string save(const Tensors& tensors, const Metadata& metadata) {
  std::string bytes;
  io::write_safetensors(tensors, metadata, "safetensors::save",
                        [&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); });
  return bytes;
}

}  // namespace facula::safetensors
