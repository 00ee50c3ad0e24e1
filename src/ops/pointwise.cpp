// From operands to a running program: promotion, broadcasting, layout of the result, cache of one-op programs.
#include "ops/pointwise.h"

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "ops/common.h"
#include "ops/executable.h"
#include "ops/program_cache.h"
#include "ops/shape_checks.h"
#include "ops/transfer.h"

#include <facula/core/error.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace facula {
namespace {

// Promotion looks at three classes of operands apart: tensors with dims, zero-dim tensors, numbers.
struct PromotionState {
  ScalarType with_dims = ScalarType::Undefined, zero_dim = ScalarType::Undefined, number = ScalarType::Undefined;
};

ScalarType promote(ScalarType a, ScalarType b, const char* op) {
  if (a == ScalarType::Undefined) return b;
  if (b == ScalarType::Undefined || a == b) return a;
  ScalarType r = promoteTypes(a, b);
  FACULA_CHECK(r != ScalarType::Undefined, DTypeError, op, ": Promotion of ", toString(a), " and ", toString(b),
               " is not supported; convert one of them with .to(dtype) first");
  return r;
}

int category(ScalarType t) {
  if (isComplexType(t)) return 3;
  if (isFloatingType(t)) return 2;
  return t == ScalarType::Bool ? 0 : 1;
}

// A lower class decides only when its category (bool < int < float < complex) is higher.
ScalarType combine(ScalarType higher, ScalarType lower, const char* op) {
  if (higher == ScalarType::Undefined) return lower;
  if (lower == ScalarType::Undefined) return higher;
  // The width of a float is kept: complex128 next to a float32 with dims gives complex64.
  if (isFloatingType(higher) && isComplexType(lower) && !isFloat8Type(higher)) return toComplexType(higher);
  return category(lower) > category(higher) ? promote(higher, lower, op) : higher;
}

ScalarType number_type(const Scalar& s) {
  switch (s.tag()) {
    case Scalar::Tag::Bool: return ScalarType::Bool;
    case Scalar::Tag::Int:
    case Scalar::Tag::UInt: return ScalarType::Long;
    case Scalar::Tag::Double: return get_default_dtype();
    case Scalar::Tag::Complex: return toComplexType(get_default_dtype());
  }
  return ScalarType::Undefined;
}

}  // namespace

ScalarType result_type(std::span<const Operand> operands, const char* op) {
  PromotionState s;
  for (const Operand& o : operands) {
    if (o.is_tensor()) {
      const TensorImpl* t = o.tensor().impl();
      ScalarType& slot = t->dim() > 0 ? s.with_dims : s.zero_dim;
      slot = slot == t->dtype ? slot : promote(slot, t->dtype, op);
    } else {
      s.number = promote(s.number, number_type(o.scalar()), op);
    }
  }
  return combine(combine(s.with_dims, s.zero_dim, op), s.number, op);
}

namespace {

constexpr size_t kMaxOperands = 4;

// A cache of one-op programs. The key packs the op, the operand dtypes (Undefined for a number), and the two dtypes that
// promotion decided.
struct ProgramKey {
  ScalarOp op;
  ScalarType operands[3];
  ScalarType common, result;
  uint64_t packed() const {
    uint64_t k = static_cast<uint64_t>(op);
    for (ScalarType t : operands) k = k << 8 | static_cast<uint8_t>(t);
    return (k << 8 | static_cast<uint8_t>(common)) << 8 | static_cast<uint8_t>(result);
  }
};

Executable make_program(const ProgramKey& key) {
  Program p;
  CType type = compute_type(key.common);
  Value v[3];
  int arity = info(key.op).arity;
  for (int k = 0; k < arity; ++k) {
    CType wanted = key.op == ScalarOp::where && k == 0 ? CType::B8 : type;
    v[k] = key.operands[k] == ScalarType::Undefined ? p.param(wanted) : p.cast(p.load(key.operands[k]), wanted);
  }
  Value r = arity == 1   ? p.apply(key.op, v[0])
            : arity == 2 ? p.apply(key.op, v[0], v[1])
                         : p.apply(key.op, v[0], v[1], v[2]);
  p.store(r, key.result);
  return Executable(std::move(p));
}

const Executable& program_of(const ProgramKey& key) {
  return cached_program<8>(key.packed(), [&] { return make_program(key); });
}

bool has_repeats(const TensorImpl* t) {
  for (size_t d = 0; d < t->sizes.size(); ++d)
    if (t->strides[d] == 0 && t->sizes[d] > 1) return true;
  return false;
}

// The strides of a fresh result: the memory order of the first operand that has the full shape. Operands that were
// expanded to it say little about order and are asked last.
std::optional<DimVector> result_strides(std::span<const Tensor* const> tensors, IntArrayRef sizes) {
  const TensorImpl* expanded = nullptr;
  for (const Tensor* t : tensors) {
    const TensorImpl* i = t->impl();
    if (i->dim() < 2 || !(IntArrayRef(i->sizes) == sizes)) continue;
    if (i->contiguous) return std::nullopt;
    if (is_non_overlapping_and_dense(i->sizes, i->strides)) return DimVector(i->strides);
    if (!has_repeats(i)) return preserved_strides(i->sizes, i->strides);
    if (!expanded) expanded = i;
  }
  if (expanded) return preserved_strides(expanded->sizes, expanded->strides);
  return std::nullopt;
}

bool is_integer_division(ScalarOp op, CType type) {
  bool division =
      op == ScalarOp::div_floor || op == ScalarOp::div_trunc || op == ScalarOp::remainder || op == ScalarOp::fmod;
  return division && (type == CType::I32 || type == CType::I64 || type == CType::U64);
}

bool has_zero(const Tensor& t) {
  if (t.is_meta() || t.numel() == 0) return false;
  Tensor zeros = pointwise(ScalarOp::eq, {t, Scalar(0)}, Out::fresh());
  return std::memchr(zeros.impl()->storage->data(), 1, zeros.impl()->storage->nbytes()) != nullptr;
}

// Whether a zero-dim tensor holds integers that `common` may not hold: it takes no part in promotion.
bool holds_wider_numbers(std::span<const Operand> operands, ScalarType common) {
  for (const Operand& o : operands) {
    if (!o.is_tensor()) continue;
    const TensorImpl* t = o.tensor().impl();
    if (t->sizes.empty() && t->dtype != common && isIntegralType(t->dtype, false) &&
        elementSize(t->dtype) >= elementSize(common))
      return true;
  }
  return false;
}

// The operation with its zero-dim tensors converted to the common dtype first. Computing is done in wider integers, in
// which the larger of 100 and 300 would be 300, and only then 44 as uint8.
Tensor pointwise_of_common(ScalarOp op, std::initializer_list<Operand> operands, ScalarType common, const Out& out,
                           const char* name) {
  const Operand* o = operands.begin();
  Tensor held[3];
  const auto narrowed = [&](size_t k) {
    if (!o[k].is_tensor() || o[k].tensor().dim() > 0 || (op == ScalarOp::where && k == 0)) return o[k];
    held[k] = as_dtype(o[k].tensor(), common);
    return Operand(held[k]);
  };
  FACULA_INTERNAL_CHECK(operands.size() == 2 || operands.size() == 3);
  if (operands.size() == 2) return pointwise(op, {narrowed(0), narrowed(1)}, out, name);
  return pointwise(op, {narrowed(0), narrowed(1), narrowed(2)}, out, name);
}

// Numbers that the integers of `common` do not hold. Sums and products come out the same when such a number wraps around;
// comparisons are made in wider integers; where the number is chosen, or divides and would become another one, it is refused.
ScalarType dtype_for_numbers(ScalarOp op, std::span<const Operand> operands, ScalarType common, const char* name) {
  const bool compares = op >= ScalarOp::eq && op <= ScalarOp::ge;
  const bool chooses = (op >= ScalarOp::maximum && op <= ScalarOp::clamp_max) || op == ScalarOp::clamp;
  const CType type = compute_type(common);
  if (!compares && !chooses && !is_integer_division(op, type)) return common;
  for (const Operand& o : operands) {
    if (o.is_tensor() || !o.scalar().isIntegral(false)) continue;
    const Scalar& number = o.scalar();
    if (chooses || number.tag() == Scalar::Tag::UInt) check_fits(number, common, name);
    else if (type == CType::I32 && compares && number.toLong() != static_cast<int32_t>(number.toLong())) return kLong;
    else if (type == CType::I32) check_fits(number, kInt, name);
  }
  return common;
}

void check_divisor(const Operand& divisor, ScalarType common, const char* name) {
  // On a GPU the kernel reports a zero, and the next call that waits for it throws: looking here would wait every time.
  if (divisor.is_tensor() && divisor.tensor().is_cuda()) return;
  bool zero = divisor.is_tensor() ? has_zero(as_dtype(divisor.tensor(), common)) : divisor.scalar().is_zero();
  FACULA_CHECK(
      !zero, ValueError, name,
      ": ZeroDivisionError: integer division by zero. Mask the zeros of the divisor first, or divide as floats");
}

// Zero-dim tensors of the cpu may join those of a GPU: their numbers are carried over.
struct CarriedLoads {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> pointers;
  CarriedLoads(std::span<const Tensor* const> loads, Device device) {
    tensors.reserve(loads.size());
    for (const Tensor* t : loads) {
      tensors.push_back(carried_to(device, *t));
      pointers.push_back(&tensors.back());
    }
  }
};

// kRoom: arrays on either side, at most. Making and dropping room for many costs more than a small operation.
template <size_t kRoom>
void run_strided(const Executable& program, std::span<const Tensor* const> loads, std::span<const ParamValue> params,
                 std::span<const Tensor> targets, IntArrayRef sizes, const RunPlace& place) {
  DimVector strides[kRoom];
  ArrayArg in[kRoom], out[kRoom];
  for (size_t k = 0; k < loads.size(); ++k) {
    const TensorImpl* t = loads[k]->impl();
    strides[k] = broadcast_strides(t->sizes, t->strides, sizes);
    in[k] = {t->data(), strides[k].data()};
  }
  for (size_t k = 0; k < targets.size(); ++k) out[k] = {targets[k].impl()->data(), targets[k].impl()->strides.data()};
  program.run(sizes, {in, loads.size()}, params, {out, targets.size()}, place);
}

// Runs on arrays whose geometry is settled. Loads and the target have the sizes or broadcast to them.
void execute(const Executable& program, std::span<const Tensor* const> loads, const ParamValue* params,
             size_t param_count, std::span<const Tensor> targets, IntArrayRef sizes, const char* op) {
  const TensorImpl* first = targets[0].impl();
  if (first->device.is_cuda())
    for (const Tensor* t : loads)
      if (t->impl()->device != first->device) [[unlikely]]
        return execute(program, CarriedLoads(loads, first->device).pointers, params, param_count, targets, sizes, op);
  bool flat = true;
  for (const Tensor& t : targets) flat &= t.impl()->contiguous;
  for (const Tensor* t : loads)
    flat &= t->impl()->contiguous && t->impl()->numel == first->numel && t->impl()->dim() == first->dim();
  constexpr size_t kMaxArrays = 32;
  FACULA_CHECK(loads.size() + targets.size() <= kMaxArrays, NotSupportedError, "a program may use at most ", kMaxArrays,
               " arrays");
  StorageImpl* storages[kMaxArrays];
  RunPlace place{first->device, op};
  if (!first->device.is_cpu()) {
    size_t count = 0;
    for (const Tensor* t : loads) storages[count++] = t->impl()->storage.get();
    for (const Tensor& t : targets) storages[count++] = t.impl()->storage.get();
    place.storages = {storages, count};
  }
  if (flat) {
    const void* in[kMaxArrays];
    void* out[kMaxArrays];
    for (size_t k = 0; k < loads.size(); ++k) in[k] = loads[k]->impl()->data();
    for (size_t k = 0; k < targets.size(); ++k) out[k] = targets[k].impl()->data();
    return program.run_contiguous(first->numel, in, params, out, place);
  }
  if (loads.size() <= kMaxOperands && targets.size() <= kMaxOperands)
    return run_strided<kMaxOperands>(program, loads, {params, param_count}, targets, sizes, place);
  run_strided<kMaxArrays>(program, loads, {params, param_count}, targets, sizes, place);
}

}  // namespace

Tensor pointwise(ScalarOp op, std::initializer_list<Operand> operands, const Out& out, const char* name) {
  const ScalarOpInfo& op_info = info(op);
  if (!name) name = op_info.name;
  FACULA_INTERNAL_CHECK(operands.size() == op_info.arity);

  const Tensor *tensors[kMaxOperands], *loads[kMaxOperands];
  ParamValue params[kMaxOperands];
  size_t tensor_count = 0, param_count = 0;
  for (const Operand& o : operands) {
    if (!o.is_tensor()) continue;
    FACULA_CHECK(o.tensor().defined(), ValueError, name,
                 ": an operand is an undefined tensor; assign a tensor to it first");
    tensors[tensor_count++] = &o.tensor();
  }
  FACULA_INTERNAL_CHECK(tensor_count > 0);

  // Dtypes. The condition of `where` takes no part in promotion.
  std::span<const Operand> all(operands.begin(), operands.size());
  std::span<const Operand> promoted = op == ScalarOp::where ? all.subspan(1) : all;
  ScalarType common = result_type(promoted, name);
  if (op_info.promotion == Promotion::IntToFloat) common = float_if_integral(common);
  if (isIntegralType(common, false)) {
    if (holds_wider_numbers(promoted, common)) [[unlikely]]
      return pointwise_of_common(op, operands, common, out, name);
    common = dtype_for_numbers(op, promoted, common, name);
  }
  CType type = compute_type(common);
  FACULA_CHECK(op_info.exists_for(type), DTypeError, name, ": \"", op_info.name, "\" not implemented for '",
               toString(common), "'. Convert the operands with .to(dtype) first");
  ScalarType result = common;
  switch (op_info.result) {
    case ResultKind::Bool: result = ScalarType::Bool; break;
    case ResultKind::RealOf: result = toRealValueType(common); break;
    case ResultKind::ComplexOf: result = toComplexType(common); break;
    case ResultKind::Same: break;
  }

  // Shape and device.
  const TensorImpl* first = tensors[0]->impl();
  Device device = first->device;
  bool same_geometry = true;
  for (size_t k = 1; k < tensor_count; ++k) {
    const TensorImpl* t = tensors[k]->impl();
    same_geometry &= IntArrayRef(t->sizes) == IntArrayRef(first->sizes);
    if (t->device != device) [[unlikely]] {
      device = tensor_count == 2   ? common_device({tensors[0], tensors[1]}, name)
               : tensor_count == 3 ? common_device({tensors[0], tensors[1], tensors[2]}, name)
                                   : device;
    }
  }
  DimVector sizes(first->sizes);
  if (!same_geometry)
    for (size_t k = 1; k < tensor_count; ++k) sizes = broadcast_sizes(sizes, tensors[k]->impl()->sizes, name);

  std::optional<DimVector> strides;
  if (out.is_fresh()) strides = result_strides({tensors, tensor_count}, sizes);
  if (is_integer_division(op, type)) check_divisor(operands.begin()[1], common, name);

  ProgramKey key{op, {ScalarType::Undefined, ScalarType::Undefined, ScalarType::Undefined}, common, result};
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& o = operands.begin()[k];
    CType wanted = op == ScalarOp::where && k == 0 ? CType::B8 : type;
    if (!o.is_tensor()) params[param_count++] = param_value(o.scalar(), wanted);
    else if (o.tensor().impl()->device == device) key.operands[k] = o.tensor().impl()->dtype;
    else params[param_count++] = param_value(device.is_meta() ? Scalar(0) : o.tensor().item(), wanted);
  }
  // What is a zero-dim tensor of the cpu next to those of another device is a number to the program.
  size_t load_count = 0;
  for (size_t k = 0; k < tensor_count; ++k)
    if (tensors[k]->impl()->device == device) loads[load_count++] = tensors[k];

  if (out.resizes_an_input(sizes, {tensors, tensor_count})) {
    Tensor fresh = pointwise(op, operands, Out::fresh(), name);
    return meaning::write_out(*out.target(), fresh, name);
  }
  Tensor target = out.prepare(sizes, result, device, name, strides ? &*strides : nullptr);
  for (size_t k = 0; k < tensor_count; ++k) out.check_input(target, *tensors[k], name);
  if (!out.is_fresh()) key.result = target.impl()->dtype;
  if (!device.is_meta()) execute(program_of(key), {loads, load_count}, params, param_count, {&target, 1}, sizes, name);
  out.written(target);
  return target;
}

namespace {

std::vector<ParamValue> param_values(const Program& program, std::span<const Scalar> params, const char* op) {
  FACULA_CHECK(params.size() == program.params().size(), ValueError, op, ": the program takes ",
               program.params().size(), " parameters, got ", params.size());
  std::vector<ParamValue> values(params.size());
  for (size_t k = 0; k < params.size(); ++k) values[k] = param_value(params[k], program.params()[k]);
  return values;
}

void check_loads(const Program& program, std::span<const Tensor> loads, const char* op) {
  FACULA_CHECK(loads.size() == program.loads().size(), ValueError, op, ": the program loads ", program.loads().size(),
               " tensors, got ", loads.size());
  for (size_t k = 0; k < loads.size(); ++k)
    FACULA_CHECK(loads[k].scalar_type() == program.loads()[k], DTypeError, op, ": load ", k, " of the program is ",
                 toString(program.loads()[k]), ", the tensor is ", toString(loads[k].scalar_type()));
}

}  // namespace

void run_program_into(const Program& program, std::span<const Tensor> loads, std::span<const Scalar> params,
                      std::span<const Tensor> stores, const char* op) {
  check_loads(program, loads, op);
  FACULA_CHECK(stores.size() == program.stores().size() && !stores.empty(), ValueError, op, ": the program stores ",
               program.stores().size(), " tensors, got ", stores.size());
  std::vector<ParamValue> values = param_values(program, params, op);
  if (stores[0].is_meta()) return;
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : loads) pointers.push_back(&t);
  execute(kept_program(program), pointers, values.data(), values.size(), stores, sizes_of(stores[0]), op);
}

Tensor run_program(const Program& program, std::initializer_list<Tensor> loads, std::span<const Scalar> params,
                   const Out& out, const char* op) {
  FACULA_INTERNAL_CHECK(program.stores().size() == 1 && loads.size() > 0);
  std::span<const Tensor> tensors(loads.begin(), loads.size());
  check_loads(program, tensors, op);
  DimVector sizes(sizes_of(tensors[0]));
  for (const Tensor& t : tensors.subspan(1)) sizes = broadcast_sizes(sizes, sizes_of(t), op);
  Device device = common_device(TensorList(tensors.data(), tensors.size()), op);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : tensors) pointers.push_back(&t);
  std::optional<DimVector> strides;
  if (out.is_fresh()) strides = result_strides(pointers, sizes);
  if (out.resizes_an_input(sizes, pointers)) {
    Tensor fresh = run_program(program, loads, params, Out::fresh(), op);
    return meaning::write_out(*out.target(), fresh, op);
  }
  Tensor target = out.prepare(sizes, program.stores()[0].dtype, device, op, strides ? &*strides : nullptr);
  for (const Tensor& t : tensors) out.check_input(target, t, op);
  if (!device.is_meta()) {
    std::vector<ParamValue> values = param_values(program, params, op);
    if (target.scalar_type() == program.stores()[0].dtype) {
      execute(kept_program(program), pointers, values.data(), values.size(), {&target, 1}, sizes, op);
    } else {
      // The user's out has another dtype: the same program with that store.
      Tensor plain = new_tensor(sizes, program.stores()[0].dtype, device, op);
      execute(kept_program(program), pointers, values.data(), values.size(), {&plain, 1}, sizes, op);
      copy_values(target, plain);
    }
  }
  out.written(target);
  return target;
}

}  // namespace facula
