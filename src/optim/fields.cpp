#include "optim/fields.h"

#include <facula/tensors.h>

namespace facula::optim {

void FieldWriter::field(const char* name, Tensor& value) {
  if (value.defined()) state_.insert(prefix_ + name, value.detach());
}
void FieldWriter::field(const char* name, std::vector<Tensor>& value) {
  for (size_t i = 0; i < value.size(); ++i) state_.insert(str(prefix_, name, ".", i), value[i].detach());
}
void FieldWriter::field(const char* name, double& value) {
  state_.insert(prefix_ + name, scalar_tensor(value, kDouble));
}
void FieldWriter::field(const char* name, int64_t& value) {
  state_.insert(prefix_ + name, scalar_tensor(value, kLong));
}
void FieldWriter::field(const char* name, bool& value) { state_.insert(prefix_ + name, scalar_tensor(value, kBool)); }
void FieldWriter::field(const char* name, std::tuple<double, double>& value) {
  state_.insert(prefix_ + name, tensor({std::get<0>(value), std::get<1>(value)}, kDouble));
}
void FieldWriter::field(const char* name, std::optional<int64_t>& value) {
  if (value) state_.insert(prefix_ + name, scalar_tensor(*value, kLong));
}
void FieldWriter::field(const char* name, std::optional<std::string>& value) {
  if (!value) return;
  Tensor text = empty({static_cast<int64_t>(value->size())}, kByte);
  std::copy(value->begin(), value->end(), text.data_ptr<uint8_t>());
  state_.insert(prefix_ + name, text);
}

const Tensor* FieldReader::number(const char* name, int64_t count) {
  const Tensor* found = state_.find(prefix_ + name);
  if (!found) {
    problems_.push_back(str("missing: ", prefix_, name));
    return nullptr;
  }
  if (!found->defined() || found->numel() != count) {
    problems_.push_back(str("wrong size: ", prefix_, name, " has ", found->defined() ? found->numel() : 0,
                            " elements, expected ", count));
    return nullptr;
  }
  return found;
}

void FieldReader::field(const char* name, Tensor& value) {
  const Tensor* found = state_.find(prefix_ + name);
  value = found && found->defined() ? found->detach().to(device_, found->scalar_type(), false, true) : Tensor();
}
void FieldReader::field(const char* name, std::vector<Tensor>& value) {
  value.clear();
  for (size_t i = 0;; ++i) {
    const Tensor* found = state_.find(str(prefix_, name, ".", i));
    if (!found) return;
    value.push_back(found->detach().to(device_, found->scalar_type(), false, true));
  }
}
void FieldReader::field(const char* name, double& value) {
  if (const Tensor* found = number(name)) value = found->item<double>();
}
void FieldReader::field(const char* name, int64_t& value) {
  if (const Tensor* found = number(name)) value = found->item<int64_t>();
}
void FieldReader::field(const char* name, bool& value) {
  if (const Tensor* found = number(name)) value = found->item<bool>();
}
void FieldReader::field(const char* name, std::tuple<double, double>& value) {
  if (const Tensor* found = number(name, 2)) {
    const Tensor pair = found->cpu().to(kDouble).view({2});
    value = {pair[0].item<double>(), pair[1].item<double>()};
  }
}
void FieldReader::field(const char* name, std::optional<int64_t>& value) {
  value.reset();
  if (!state_.contains(prefix_ + name)) return;
  if (const Tensor* found = number(name)) value = found->item<int64_t>();
}
void FieldReader::field(const char* name, std::optional<std::string>& value) {
  value.reset();
  const Tensor* found = state_.find(prefix_ + name);
  if (!found) return;
  if (!found->defined() || found->scalar_type() != kByte || found->dim() != 1) {
    problems_.push_back(str("wrong kind: ", prefix_, name, " is no text"));
    return;
  }
  const Tensor text = found->cpu().contiguous();
  const auto* bytes = text.data_ptr<uint8_t>();
  value.emplace(bytes, bytes + text.numel());
}

}  // namespace facula::optim
