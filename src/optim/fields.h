// Options and states as named tensors, and back: what state dicts and files of optimizers hold.
#pragma once

#include <facula/optim/optimizer.h>

#include <string>
#include <vector>

namespace facula::optim {

// Appends every field as a tensor under `prefix` + its name. Undefined tensors and absent options are left out.
class FieldWriter final : public FieldVisitor {
 public:
  FieldWriter(nn::NamedTensors& state, std::string prefix) : state_(state), prefix_(std::move(prefix)) {}
  void field(const char* name, Tensor& value) override;
  void field(const char* name, std::vector<Tensor>& value) override;
  void field(const char* name, double& value) override;
  void field(const char* name, int64_t& value) override;
  void field(const char* name, bool& value) override;
  void field(const char* name, std::tuple<double, double>& value) override;
  void field(const char* name, std::optional<int64_t>& value) override;
  void field(const char* name, std::optional<std::string>& value) override;

 private:
  nn::NamedTensors& state_;
  std::string prefix_;
};

// Gives every field the value that stands under its name; names that are missing or do not fit are added to `problems`. Tensors
// become copies on `device`.
class FieldReader final : public FieldVisitor {
 public:
  FieldReader(const nn::NamedTensors& state, std::string prefix, Device device, std::vector<std::string>& problems)
      : state_(state), prefix_(std::move(prefix)), device_(device), problems_(problems) {}
  void field(const char* name, Tensor& value) override;
  void field(const char* name, std::vector<Tensor>& value) override;
  void field(const char* name, double& value) override;
  void field(const char* name, int64_t& value) override;
  void field(const char* name, bool& value) override;
  void field(const char* name, std::tuple<double, double>& value) override;
  void field(const char* name, std::optional<int64_t>& value) override;
  void field(const char* name, std::optional<std::string>& value) override;

 private:
  // The entry, which must have `count` elements; null, with a problem noted, when it does not.
  const Tensor* number(const char* name, int64_t count = 1);

  const nn::NamedTensors& state_;
  std::string prefix_;
  Device device_;
  std::vector<std::string>& problems_;
};

}  // namespace facula::optim
