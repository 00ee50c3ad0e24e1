// Reading safetensors: the header with all its checks, and tensors over the map.
#include <facula/facula.h>

#include "io/json_reader.h"
#include "io/safetensors_format.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace facula::io {
namespace {

// As the format's own reader has it.
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostDims = 64;

struct DtypeName {
  const char* name;
  ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {{"BOOL", kBool},          {"U8", kByte},          {"I8", kChar},
                                 {"I16", kShort},          {"U16", kUInt16},       {"I32", kInt},
                                 {"U32", kUInt32},         {"I64", kLong},         {"U64", kUInt64},
                                 {"F16", kHalf},           {"BF16", kBFloat16},    {"F32", kFloat},
                                 {"F64", kDouble},         {"C64", kComplexFloat}, {"F8_E4M3", kFloat8_e4m3fn},
                                 {"F8_E5M2", kFloat8_e5m2}};
// Of the format, but not of this library.
constexpr const char* kForeignDtypes[] = {"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

ScalarType read_dtype(JsonReader& json, const std::string& tensor, const std::string& source) {
  const uint64_t at = json.offset();
  const std::string name = json.string();
  for (const DtypeName& each : kDtypes)
    if (name == each.name) return each.dtype;
  for (const char* each : kForeignDtypes)
    FACULA_CHECK(name != each, NotSupportedError, source, ": at byte ", at, ": tensor \"", tensor, "\" has dtype ",
                 name, ", for which this library has no dtype");
  json.fail(at, str("tensor \"", tensor, "\" has the unknown dtype \"", name, "\""));
}

std::vector<int64_t> read_shape(JsonReader& json, const std::string& tensor) {
  std::vector<int64_t> shape;
  const uint64_t at = json.offset();
  json.array([&](size_t) {
    if (shape.size() == kMostDims) json.fail(at, str("tensor \"", tensor, "\" has more than ", kMostDims, " dims"));
    shape.push_back(json.size());
  });
  return shape;
}

// Bytes of a tensor. Sizes are multiplied as if none were 0, so that strides fit into 64 bits as well.
uint64_t bytes_of(JsonReader& json, uint64_t at, const safetensors::TensorInfo& info) {
  int64_t product = static_cast<int64_t>(elementSize(info.dtype));
  bool is_empty = false;
  for (const int64_t size : info.shape) {
    is_empty = is_empty || size == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product))
      json.fail(at, str("tensor \"", info.name, "\" of shape ", to_text(IntArrayRef(info.shape)),
                        " has more bytes than 64 bits count"));
  }
  return is_empty ? 0 : static_cast<uint64_t>(product);
}

struct Placed {
  uint64_t at;  // of its entry in the header
  uint64_t begin, end;
  size_t index;
};

// One entry of the header. Offsets are still those of the data.
void read_entry(JsonReader& json, const std::string& name, uint64_t data_bytes, SafetensorsHeader& header,
                std::vector<Placed>& placed, const std::string& source) {
  safetensors::TensorInfo info{name, ScalarType::Undefined, {}, 0, 0};
  const uint64_t at = json.offset();
  bool has_shape = false, has_offsets = false;
  json.object([&](const std::string& field) {
    if (field == "dtype") {
      info.dtype = read_dtype(json, name, source);
    } else if (field == "shape") {
      has_shape = true;
      info.shape = read_shape(json, name);
    } else if (field == "data_offsets") {
      has_offsets = true;
      const uint64_t offsets_at = json.offset();
      size_t count = 0;
      json.array([&](size_t i) {
        count = i + 1;
        if (i > 1) json.fail(offsets_at, str("data_offsets of tensor \"", name, "\" has more than two numbers"));
        (i == 0 ? info.begin : info.end) = static_cast<uint64_t>(json.size());
      });
      if (count != 2) json.fail(offsets_at, str("data_offsets of tensor \"", name, "\" has not two numbers"));
      if (info.begin > info.end)
        json.fail(offsets_at,
                  str("data_offsets of tensor \"", name, "\" go backwards: ", info.begin, " to ", info.end));
      if (info.end > data_bytes)
        json.fail(offsets_at, str("tensor \"", name, "\" ends at byte ", info.end, " of the data, which has only ",
                                  data_bytes, "; the file is cut short or its header is wrong"));
    } else {
      json.fail(json.offset(), str("tensor \"", name, "\" has the unknown field \"", field, "\""));
    }
  });
  if (info.dtype == ScalarType::Undefined) json.fail(at, str("tensor \"", name, "\" has no dtype"));
  if (!has_shape) json.fail(at, str("tensor \"", name, "\" has no shape"));
  if (!has_offsets) json.fail(at, str("tensor \"", name, "\" has no data_offsets"));
  const uint64_t needed = bytes_of(json, at, info);
  if (needed != info.end - info.begin)
    json.fail(at,
              str("tensor \"", name, "\" of shape ", to_text(IntArrayRef(info.shape)), " and dtype ",
                  dtype_name(info.dtype), " needs ", needed, " bytes, its data_offsets hold ", info.end - info.begin));
  placed.push_back({at, info.begin, info.end, header.tensors.size()});
  header.tensors.push_back(std::move(info));
}

void read_metadata(JsonReader& json, safetensors::Metadata& metadata) {
  json.object([&](const std::string& key) {
    if (json.peek() != JsonReader::Kind::String)
      json.fail(json.offset(), str("__metadata__ holds strings only; \"", key, "\" is something else"));
    metadata.insert(key, json.string());
  });
}

// All bytes of the data belong to one tensor each.
void check_places(JsonReader& json, const SafetensorsHeader& header, std::vector<Placed>& placed, uint64_t data_start,
                  uint64_t data_bytes, const std::string& source) {
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  uint64_t covered = 0;
  const std::string* before = nullptr;
  for (const Placed& each : placed) {
    const std::string& name = header.tensors[each.index].name;
    if (each.begin < covered)
      json.fail(each.at, str("tensor \"", name, "\" overlaps with \"", *before, "\": it begins at byte ", each.begin,
                             " of the data, the other ends at ", covered));
    if (each.begin > covered)
      json.fail(each.at, str("bytes ", covered, " to ", each.begin, " of the data, before tensor \"", name,
                             "\", belong to no tensor"));
    covered = each.end;
    before = &name;
  }
  FACULA_CHECK(covered == data_bytes, FormatError, source, ": at byte ", data_start + covered, ": ",
               data_bytes - covered, " bytes after the last tensor belong to none");
}

}  // namespace

const char* safetensors_dtype(ScalarType dtype) {
  for (const DtypeName& each : kDtypes)
    if (each.dtype == dtype) return each.name;
  return nullptr;
}

SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& source) {
  FACULA_CHECK(file.size() >= 8, FormatError, source, ": at byte 0: a file of ", file.size(),
               " bytes is too short to be safetensors");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[static_cast<size_t>(i)]);
  // What people try to read most often that is something else.
  FACULA_CHECK(
      !file.starts_with("PK\3\4"), FormatError, source,
      ": at byte 0: this is a zip archive, as torch.save of PyTorch writes, and not safetensors; save it there with "
      "safetensors.torch.save_file");
  FACULA_CHECK(length <= kMostHeaderBytes, FormatError, source, ": at byte 0: the header would have ", length,
               " bytes, and at most ", kMostHeaderBytes, " are allowed; this is no safetensors file, or a damaged one");
  FACULA_CHECK(length <= file.size() - 8, FormatError, source, ": at byte 0: the header would have ", length,
               " bytes, and the file has only ", file.size() - 8, " after its length");
  const std::string_view text = file.substr(8, length);
  FACULA_CHECK(!text.empty() && text[0] == '{', FormatError, source, ": at byte 8: the header does not begin with '{'");

  const uint64_t data_start = 8 + length;
  const uint64_t data_bytes = file.size() - data_start;
  SafetensorsHeader header;
  std::vector<Placed> placed;
  JsonReader json(text, source, 8);
  json.object([&](const std::string& name) {
    if (name == "__metadata__") read_metadata(json, header.metadata);
    else read_entry(json, name, data_bytes, header, placed, source);
  });
  json.end();
  check_places(json, header, placed, data_start, data_bytes, source);
  for (safetensors::TensorInfo& info : header.tensors) {
    info.begin += data_start;
    info.end += data_start;
  }
  return header;
}

Tensor tensor_in_file(char* file, const std::shared_ptr<void>& owner, const safetensors::TensorInfo& info,
                      const std::string& source) {
  const TensorOptions options = TensorOptions().dtype(info.dtype);
  const uint64_t bytes = info.end - info.begin;
  if (bytes == 0) return empty(info.shape, options);
  char* data = file + info.begin;
  if (info.dtype == kBool) {
    // Other bytes than 0 and 1 are no value of C++'s bool.
    for (uint64_t i = 0; i < bytes; ++i)
      FACULA_CHECK(static_cast<unsigned char>(data[i]) <= 1, FormatError, source, ": at byte ", info.begin + i,
                   ": tensor \"", info.name, "\" is of dtype BOOL and holds the byte ",
                   static_cast<int>(static_cast<unsigned char>(data[i])), ", which is neither 0 nor 1");
  }
  if (reinterpret_cast<uintptr_t>(data) % elementSize(info.dtype) == 0)
    return from_blob(
        data, info.shape, [owner](void*) {}, options);
  Tensor copy = empty(info.shape, options);
  std::memcpy(copy.data_ptr(), data, bytes);
  return copy;
}

}  // namespace facula::io

namespace facula::safetensors {

struct File::Impl {
  std::shared_ptr<io::MappedFile> file;
  std::string source;
  io::SafetensorsHeader header;
  std::unordered_map<std::string_view, size_t> index;
};

File::File(const std::string& path) {
  auto impl = std::make_shared<Impl>();
  impl->file = io::MappedFile::open(path, "load_file");
  impl->source = str("load_file: '", path, "'");
  impl->header = io::read_safetensors_header(impl->file->bytes(), impl->source);
  for (size_t i = 0; i < impl->header.tensors.size(); ++i) impl->index[impl->header.tensors[i].name] = i;
  impl_ = std::move(impl);
}

const std::vector<TensorInfo>& File::tensors() const { return impl_->header.tensors; }
const Metadata& File::metadata() const { return impl_->header.metadata; }
bool File::contains(const std::string& name) const { return impl_->index.contains(name); }

Tensor File::tensor(const std::string& name) const {
  const auto found = impl_->index.find(name);
  FACULA_CHECK(found != impl_->index.end(), ValueError, impl_->source, " has no tensor \"", name, "\"; it has ",
               impl_->header.tensors.size(), " others");
  return io::tensor_in_file(impl_->file->data(), impl_->file, impl_->header.tensors[found->second], impl_->source);
}

Tensors File::all() const {
  Tensors made;
  made.reserve(impl_->header.tensors.size());
  for (const TensorInfo& info : impl_->header.tensors)
    made.insert(info.name, io::tensor_in_file(impl_->file->data(), impl_->file, info, impl_->source));
  return made;
}

namespace {
Tensors on_device(Tensors tensors, Device device) {
  if (!device.is_cpu())
    for (auto& item : tensors) item.value() = item->to(TensorOptions().device(std::optional<Device>(device)));
  return tensors;
}
}  // namespace

Tensors load_file(const std::string& path, Device device) { return on_device(File(path).all(), device); }

Metadata metadata(std::string_view bytes) {
  return io::read_safetensors_header(bytes, "safetensors::metadata: bytes in memory").metadata;
}

Tensors load(std::string_view bytes, Device device) {
  const std::string source = "safetensors::load: bytes in memory";
  const io::SafetensorsHeader header = io::read_safetensors_header(bytes, source);
  Tensors made;
  for (const TensorInfo& info : header.tensors) {
    // The caller's memory may go: what shares it is copied.
    char* data = const_cast<char*>(bytes.data());
    made.insert(info.name, io::tensor_in_file(data, nullptr, info, source).clone());
  }
  return on_device(std::move(made), device);
}

}  // namespace facula::safetensors
