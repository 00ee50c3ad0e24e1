// Archives: what save and load of values are made of.
#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/module.h>
#include <facula/serialize.h>

#include "io/archive_tree.h"
#include "io/json_reader.h"
#include "io/safetensors_format.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

namespace facula::serialize {

// --- writing

struct OutputArchive::Node {
  enum class Kind { Dict, List, Single };
  struct Item {
    std::string key;
    std::variant<Tensor, Value, std::shared_ptr<const Node>> held;
  };
  Kind kind = Kind::Dict;
  std::vector<Item> items;
  std::unordered_set<std::string> keys;

  void add(const std::string& key, std::variant<Tensor, Value, std::shared_ptr<const Node>> held) {
    FACULA_CHECK(keys.insert(key).second, ValueError, "OutputArchive::write: the key '", key, "' is already written");
    items.push_back({key, std::move(held)});
  }

  // Collects tensors under their whole names and writes the tree that refers to them.
  struct Writer {
    safetensors::Tensors tensors;
    std::string tree;
    bool is_plain = true;  // a dict of tensors by name says all: no tree is needed

    struct Written {
      Tensor tensor;
      std::string name;
    };
    std::unordered_multimap<const void*, Written> seen;

    // The name under which the same elements are written already.
    const std::string* known(const Tensor& tensor) const {
      const auto [first, last] = seen.equal_range(tensor.has_storage() ? tensor.storage().data() : nullptr);
      for (auto it = first; it != last; ++it) {
        const Tensor& other = it->second.tensor;
        if (other.is_alias_of(tensor) && other.storage_offset() == tensor.storage_offset() &&
            other.sizes() == tensor.sizes() && other.strides() == tensor.strides() &&
            other.scalar_type() == tensor.scalar_type())
          return &it->second.name;
      }
      return nullptr;
    }

    void tensor(const std::string& path, const Tensor& given) {
      FACULA_CHECK(given.defined(), ValueError, "save: tensor '", path, "' is undefined");
      const Tensor value = given.detach();
      io::TreeTensor leaf{path, given.requires_grad(), false};
      leaf.is_complex = value.is_complex() && !io::safetensors_dtype(value.scalar_type());
      if (const std::string* name = value.numel() > 0 ? known(value) : nullptr) {
        leaf.name = *name;
        is_plain = false;
      } else {
        is_plain = is_plain && !leaf.is_complex && !leaf.requires_grad;
        if (value.numel() > 0 && value.has_storage()) seen.emplace(value.storage().data(), Written{value, path});
        tensors.insert(path, leaf.is_complex ? view_as_real(value) : value);
      }
      io::write_tree_tensor(tree, leaf);
    }

    void node(const std::string& path, const Node& node) {
      is_plain = is_plain && path.empty() && node.kind == Kind::Dict;
      const bool is_dict = node.kind == Kind::Dict;
      if (is_dict) tree += "{\"dict\":";
      if (node.kind != Kind::Single) tree += '[';
      bool first = true;
      for (const Item& each : node.items) {
        if (!first) tree += ',';
        first = false;
        if (is_dict) {
          tree += '[';
          io::write_json_string(tree, each.key, "save");
          tree += ',';
        }
        item(path.empty() ? each.key : path + '.' + each.key, each);
        if (is_dict) tree += ']';
      }
      if (node.kind != Kind::Single) tree += ']';
      if (is_dict) tree += '}';
    }

    void item(const std::string& path, const Item& each) {
      if (const Tensor* held = std::get_if<Tensor>(&each.held)) {
        tensor(path, *held);
      } else if (const Value* value = std::get_if<Value>(&each.held)) {
        is_plain = false;
        io::write_tree_value(tree, *value);
      } else {
        node(path, *std::get<std::shared_ptr<const Node>>(each.held));
      }
    }
  };

  void write(io::Sink sink) const {
    const NoGradGuard quiet;
    Writer writer;
    writer.node("", *this);
    safetensors::Metadata metadata;
    metadata.insert("format", "facula");
    if (!writer.is_plain) metadata.insert(io::kTreeKey, std::move(writer.tree));
    io::write_safetensors(writer.tensors, metadata, "save", sink);
  }
};

OutputArchive::OutputArchive() : root_(std::make_unique<Node>()) {}
OutputArchive::OutputArchive(OutputArchive&&) noexcept = default;
OutputArchive& OutputArchive::operator=(OutputArchive&&) noexcept = default;
OutputArchive::~OutputArchive() = default;

void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) { root_->add(key, tensor); }
void OutputArchive::write(const std::string& key, const Value& value) { root_->add(key, value); }
void OutputArchive::write(const std::string& key, const OutputArchive& nested) {
  root_->add(key, std::make_shared<const Node>(*nested.root_));
}
void OutputArchive::set_list() { root_->kind = Node::Kind::List; }
void OutputArchive::set_single() { root_->kind = Node::Kind::Single; }

void OutputArchive::save_to(const std::string& path) const {
  io::write_file_atomically(path, "save", [&](io::Sink sink) { root_->write(sink); });
}

void OutputArchive::save_to(std::ostream& stream) const {
  root_->write([&](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    FACULA_CHECK(stream, Error, "save: writing to the stream failed");
  });
}

void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& writer) const {
  root_->write([&](const void* data, size_t size) {
    const size_t taken = writer(data, size);
    FACULA_CHECK(taken == size, Error, "save: the writer took ", taken, " of ", size, " bytes");
  });
}

// --- reading

struct InputArchive::Contents {
  std::shared_ptr<void> owner;
  char* bytes = nullptr;
  std::string source;
  io::SafetensorsHeader header;
  std::unordered_map<std::string, size_t> tensors;  // by name in the file
  io::TreeLeaves leaves;
  std::unordered_map<std::string, size_t> index;  // by path

  static std::shared_ptr<const Contents> make(std::shared_ptr<void> owner, char* data, size_t size,
                                              std::string source) {
    auto made = std::make_shared<Contents>();
    made->owner = std::move(owner);
    made->bytes = data;
    made->source = std::move(source);
    made->header = io::read_safetensors_header({data, size}, made->source);
    for (size_t i = 0; i < made->header.tensors.size(); ++i) made->tensors[made->header.tensors[i].name] = i;
    if (const std::string* tree = made->header.metadata.find(io::kTreeKey)) {
      made->leaves = io::read_tree(*tree, made->source + ": the tree in its metadata");
    } else {
      for (const safetensors::TensorInfo& info : made->header.tensors)
        made->leaves.emplace_back(info.name, io::TreeTensor{info.name});
    }
    for (size_t i = 0; i < made->leaves.size(); ++i) {
      const auto& [path, leaf] = made->leaves[i];
      FACULA_CHECK(made->index.emplace(path, i).second, FormatError, made->source, ": '", path, "' comes twice");
      if (const auto* tensor = std::get_if<io::TreeTensor>(&leaf))
        FACULA_CHECK(made->tensors.contains(tensor->name), FormatError, made->source, ": '", path,
                     "' stands for the tensor '", tensor->name, "', which is not in the file");
    }
    return made;
  }

  const io::TreeLeaf* find(const std::string& path) const {
    const auto found = index.find(path);
    return found == index.end() ? nullptr : &leaves[found->second].second;
  }

  Tensor tensor(const io::TreeTensor& leaf, const std::optional<Device>& device) const {
    const safetensors::TensorInfo& info = header.tensors[tensors.find(leaf.name)->second];
    Tensor made = io::tensor_in_file(bytes, owner, info, source);
    if (leaf.is_complex) {
      FACULA_CHECK(!info.shape.empty() && info.shape.back() == 2 &&
                       toComplexType(info.dtype) != ScalarType::Undefined && info.dtype != kBFloat16,
                   FormatError, source, ": at byte ", info.begin, ": the complex tensor '", leaf.name,
                   "' is stored with shape ", to_text(IntArrayRef(info.shape)), " and dtype ", dtype_name(info.dtype));
      made = view_as_complex(made);
    }
    if (device && *device != made.device()) made = made.to(TensorOptions().device(device));
    if (leaf.requires_grad && isDifferentiableType(made.scalar_type())) made.set_requires_grad(true);
    return made;
  }
};

InputArchive::InputArchive() = default;
InputArchive::InputArchive(const InputArchive&) = default;
InputArchive::InputArchive(InputArchive&&) noexcept = default;
InputArchive& InputArchive::operator=(const InputArchive&) = default;
InputArchive& InputArchive::operator=(InputArchive&&) noexcept = default;
InputArchive::~InputArchive() = default;

void InputArchive::load_from(const std::string& path, std::optional<Device> device) {
  const auto file = io::MappedFile::open(path, "load");
  contents_ = Contents::make(file, file->data(), file->size(), str("load: '", path, "'"));
  prefix_.clear();
  device_ = device;
}

void InputArchive::load_from(std::istream& stream, std::optional<Device> device) {
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  load_from(bytes.data(), bytes.size(), device);
}

void InputArchive::load_from(const char* data, size_t size, std::optional<Device> device) {
  // Copied to where every dtype is aligned.
  const Tensor memory = empty({static_cast<int64_t>(size)}, TensorOptions().dtype(kByte));
  char* bytes = static_cast<char*>(memory.data_ptr());
  if (size > 0) std::copy(data, data + size, bytes);
  contents_ = Contents::make(std::make_shared<Tensor>(memory), bytes, size, "load: bytes in memory");
  prefix_.clear();
  device_ = device;
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) const {
  const io::TreeLeaf* leaf = contents_ ? contents_->find(prefix_ + key) : nullptr;
  const io::TreeTensor* found = leaf ? std::get_if<io::TreeTensor>(leaf) : nullptr;
  if (!found) return false;
  Tensor made = contents_->tensor(*found, device_);
  if (tensor.defined()) {
    const NoGradGuard quiet;
    tensor.set_data(made.detach());
  } else {
    tensor = std::move(made);
  }
  return true;
}

bool InputArchive::try_read(const std::string& key, Value& value) const {
  const io::TreeLeaf* leaf = contents_ ? contents_->find(prefix_ + key) : nullptr;
  const Value* found = leaf ? std::get_if<Value>(leaf) : nullptr;
  if (found) value = *found;
  return found != nullptr;
}

bool InputArchive::try_read(const std::string& key, InputArchive& nested) const {
  if (!contents_) return false;
  const std::string prefix = prefix_ + key + '.';
  const auto is_inside = [&](const auto& leaf) { return leaf.first.starts_with(prefix); };
  if (std::none_of(contents_->leaves.begin(), contents_->leaves.end(), is_inside)) return false;
  nested.contents_ = contents_;
  nested.device_ = device_;
  nested.prefix_ = prefix;
  return true;
}

namespace {
[[noreturn]] void nothing_under(const std::string& source, const std::string& path, const char* kind) {
  throw ValueError(
      str(source.empty() ? "InputArchive" : source, ": there is no ", kind, " under the key '", path, "'"));
}

template <class T>
void read_value(const InputArchive& archive, const std::string& source, const std::string& key, T& value,
                const char* kind) {
  Value found;
  if (!archive.try_read(key, found)) nothing_under(source, key, kind);
  if constexpr (std::is_same_v<T, double>)  // a whole number is one, too
    if (const int64_t* integer = std::get_if<int64_t>(&found)) found = static_cast<double>(*integer);
  if (T* held = std::get_if<T>(&found)) value = std::move(*held);
  else nothing_under(source, key, kind);
}
}  // namespace

void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) const {
  if (!try_read(key, tensor, is_buffer)) nothing_under(contents_ ? contents_->source : "", prefix_ + key, "tensor");
}
void InputArchive::read(const std::string& key, InputArchive& nested) const {
  if (!try_read(key, nested)) nothing_under(contents_ ? contents_->source : "", prefix_ + key, "archive");
}
void InputArchive::read(const std::string& key, bool& value) const {
  read_value(*this, contents_ ? contents_->source : "", key, value, "truth value");
}
void InputArchive::read(const std::string& key, int64_t& value) const {
  read_value(*this, contents_ ? contents_->source : "", key, value, "whole number");
}
void InputArchive::read(const std::string& key, double& value) const {
  read_value(*this, contents_ ? contents_->source : "", key, value, "number");
}
void InputArchive::read(const std::string& key, std::string& value) const {
  read_value(*this, contents_ ? contents_->source : "", key, value, "text");
}

std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> found;
  if (!contents_) return found;
  std::unordered_map<std::string, bool> seen;
  for (const auto& [path, leaf] : contents_->leaves) {
    if (!path.starts_with(prefix_)) continue;
    std::string key = path.substr(prefix_.size(), path.find('.', prefix_.size()) - prefix_.size());
    if (seen.emplace(key, true).second) found.push_back(std::move(key));
  }
  return found;
}

bool InputArchive::contains(const std::string& key) const {
  InputArchive nested;
  return (contents_ && contents_->find(prefix_ + key)) || try_read(key, nested);
}

safetensors::Tensors InputArchive::tensors() const {
  safetensors::Tensors made;
  if (!contents_) return made;
  for (const auto& [path, leaf] : contents_->leaves)
    if (const auto* tensor = std::get_if<io::TreeTensor>(&leaf); tensor && path.starts_with(prefix_))
      made.insert(path.substr(prefix_.size()), contents_->tensor(*tensor, device_));
  return made;
}

// --- what is saved

OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor) {
  archive.write("0", tensor);
  archive.set_single();
  return archive;
}

InputArchive& operator>>(InputArchive& archive, Tensor& tensor) {
  archive.read("0", tensor);
  return archive;
}

OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i]);
  archive.set_list();
  return archive;
}

InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& tensors) {
  tensors.clear();
  for (;;) {
    Tensor next;
    if (!archive.try_read(std::to_string(tensors.size()), next)) break;
    tensors.push_back(std::move(next));
  }
  return archive;
}

void write_module(OutputArchive& archive, const nn::Module& module) {
  for (const auto& item : module.state_dict()) archive.write(item.key(), *item);
}

void read_module(InputArchive& archive, nn::Module& module) {
  module.load_state_dict(archive.tensors());
  if (archive.device()) module.to(*archive.device());
}

}  // namespace facula::serialize
