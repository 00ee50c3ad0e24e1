// Saving and loading by libtorch's names: tensors, lists of tensors, modules, and whatever has `save(OutputArchive&)`
// and `load(InputArchive&)`, as optimizers do.
//
//   save(net, "net.safetensors");        load(net, "net.safetensors");
//   save(optimizer, "adam.safetensors"); load(optimizer, "adam.safetensors");
//
// A file is safetensors (see safetensors.h): tensors by their names, "layer.weight" for those of submodules. What is
// more than a list of tensors by name (numbers, texts, a tensor with two names) is described by a tree of JSON in the
// metadata. Python's facula.save and facula.load use the same files. Reading a file runs nothing and believes nothing.
#pragma once

#include <facula/nn/module_holder.h>
#include <facula/safetensors.h>

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace facula {
namespace nn {
class Module;
}

namespace serialize {

// What an archive holds beside tensors.
using Value = std::variant<bool, int64_t, double, std::string>;

class FACULA_API OutputArchive {
 public:
  OutputArchive();
  OutputArchive(OutputArchive&&) noexcept;
  OutputArchive& operator=(OutputArchive&&) noexcept;
  ~OutputArchive();

  // Under a key that is new. `is_buffer` makes no difference.
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, const Value& value);
  template <std::integral T>
    requires(!std::is_same_v<T, bool>)
  void write(const std::string& key, T number) {
    write(key, Value(static_cast<int64_t>(number)));
  }
  // An archive inside of this one: what it holds now.
  void write(const std::string& key, const OutputArchive& nested);

  // A file is replaced as a whole or not at all.
  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;
  void save_to(const std::function<size_t(const void* data, size_t size)>& writer) const;

  // A list, whose keys are "0", "1", ..., or the one tensor "0": what Python then reads is a list or a tensor.
  void set_list();
  void set_single();

 private:
  struct Node;
  std::unique_ptr<Node> root_;
};

class FACULA_API InputArchive {
 public:
  InputArchive();
  InputArchive(const InputArchive&);
  InputArchive(InputArchive&&) noexcept;
  InputArchive& operator=(const InputArchive&);
  InputArchive& operator=(InputArchive&&) noexcept;
  ~InputArchive();

  // From then on tensors are read to `device`, where one is given.
  void load_from(const std::string& path, std::optional<Device> device = std::nullopt);
  void load_from(std::istream& stream, std::optional<Device> device = std::nullopt);
  void load_from(const char* data, size_t size, std::optional<Device> device = std::nullopt);

  // False when there is nothing of this kind under the key. A tensor that is defined gets the data, else it is made.
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  bool try_read(const std::string& key, Value& value) const;
  bool try_read(const std::string& key, InputArchive& nested) const;
  // As before; throws when there is nothing.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  void read(const std::string& key, InputArchive& nested) const;
  void read(const std::string& key, bool& value) const;
  void read(const std::string& key, int64_t& value) const;
  void read(const std::string& key, double& value) const;
  void read(const std::string& key, std::string& value) const;

  // The keys of this archive, not of those inside.
  std::vector<std::string> keys() const;
  bool contains(const std::string& key) const;
  // All tensors of this archive and of those inside, by their whole names.
  safetensors::Tensors tensors() const;
  const std::optional<Device>& device() const { return device_; }

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
  std::string prefix_;
  std::optional<Device> device_;
};

FACULA_API OutputArchive& operator<<(OutputArchive& archive, const Tensor& tensor);
FACULA_API InputArchive& operator>>(InputArchive& archive, Tensor& tensor);
FACULA_API OutputArchive& operator<<(OutputArchive& archive, const std::vector<Tensor>& tensors);
FACULA_API InputArchive& operator>>(InputArchive& archive, std::vector<Tensor>& tensors);
// The state dict of a module; reading wants all names and shapes to fit, and else changes nothing.
FACULA_API void write_module(OutputArchive& archive, const nn::Module& module);
FACULA_API void read_module(InputArchive& archive, nn::Module& module);

template <class T>
  requires requires(const T& value, OutputArchive& archive) { value.save(archive); }
OutputArchive& operator<<(OutputArchive& archive, const T& value) {
  value.save(archive);
  return archive;
}
template <class T>
  requires requires(T& value, InputArchive& archive) { value.load(archive); }
InputArchive& operator>>(InputArchive& archive, T& value) {
  value.load(archive);
  return archive;
}

// Modules by pointer or holder.
template <std::derived_from<nn::Module> M>
OutputArchive& operator<<(OutputArchive& archive, const std::shared_ptr<M>& module) {
  if constexpr (requires { module->save(archive); }) module->save(archive);
  else write_module(archive, *module);
  return archive;
}
template <std::derived_from<nn::Module> M>
InputArchive& operator>>(InputArchive& archive, const std::shared_ptr<M>& module) {
  if constexpr (requires { module->load(archive); }) module->load(archive);
  else read_module(archive, *module);
  return archive;
}
template <class T>
  requires facula::detail::is_module_holder<T>::value
OutputArchive& operator<<(OutputArchive& archive, const T& module) {
  return archive << module.ptr();
}
template <class T>
  requires facula::detail::is_module_holder<T>::value
InputArchive& operator>>(InputArchive& archive, T& module) {
  return archive >> module.ptr();
}

}  // namespace serialize

// To a path, a stream or a function that takes bytes.
template <class Value, class... To>
void save(const Value& value, To&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
// From a path, a stream or bytes; a device may follow.
template <class Value, class... From>
void load(Value& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}

}  // namespace facula
