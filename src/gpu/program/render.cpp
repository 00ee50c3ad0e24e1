#include "gpu/program/render.h"

#include <facula/core/error.h>

#include <algorithm>

namespace facula::gpu {
namespace {

constexpr uint16_t kNoOperand = UINT16_MAX;

constexpr size_t param_alignment(CType type) {
  constexpr uint8_t kAlignments[kCTypeCount] = {4, 8, 4, 8, 8, 1, 4, 8};
  return kAlignments[static_cast<size_t>(type)];
}

bool is_integer(CType type) { return (ctype_bit(type) & kLanesInt) != 0; }

// Integer divisions, whose zero divisor is a fault.
bool divides(const Program::Instruction& i) {
  if (i.is_cast || !is_integer(i.type)) return false;
  return i.op == ScalarOp::div_floor || i.op == ScalarOp::div_trunc || i.op == ScalarOp::remainder ||
         i.op == ScalarOp::fmod;
}

std::string v(size_t id) { return "v" + std::to_string(id); }

template <class Types>
std::string type_list(const char* name, const Types& types) {
  std::string out = str("  static constexpr DType ", name, "[] = {");
  const char* separator = "";
  for (ScalarType t : types) out += str(separator, "DType::", toString(t)), separator = ", ";
  if (types.empty()) out += "DType::Byte";
  return out + "};\n";
}

// The lines that compute one instruction.
std::string instruction_text(const Program::Instruction& i, size_t id) {
  std::string call;
  if (i.is_cast) {
    call = str("cast<", c_type(i.result), ">(", v(i.operands[0]), ")");
  } else {
    call = str("expr::op::", info(i.op).name, "::eval(");
    for (int k = 0; k < 3 && i.operands[k] != kNoOperand; ++k) {
      if (k > 0) call += ", ";
      call += v(i.operands[k]);
      if (i.op == ScalarOp::where && k == 0) call += " != 0";
    }
    call += ")";
  }
  std::string out;
  if (divides(i)) out += str("    faults.check_divisor(", v(i.operands[1]), ");\n");
  return out + str("    const ", c_type(i.result), " ", v(id), " = ", call, ";\n");
}

// The values of a part of the program, in order. Parameters are cheap to name twice.
std::string body(const Program& p, bool epilogue) {
  bool whole = p.reduction() == ReduceOp::None;
  std::string out;
  for (size_t id = 0; id < p.values().size(); ++id) {
    const Program::ValueInfo& value = p.values()[id];
    std::string name = str("    const ", c_type(value.type), " ", v(id), " = ");
    switch (value.source) {
      case Program::Source::Load:
        if (!epilogue) out += str(name, "in.template load<", value.index, ">();\n");
        break;
      case Program::Source::Param: out += str(name, "params.p", value.index, ";\n"); break;
      case Program::Source::Reduced:
        if (epilogue) out += str(name, value.index == 0 ? "first" : "second", ";\n");
        break;
      case Program::Source::Instruction:
        if (whole || (value.index >= p.epilogue_begin()) == epilogue)
          out += instruction_text(p.instructions()[value.index], id);
        break;
    }
  }
  return out;
}

std::string stores_text(const Program& p) {
  std::string out;
  for (size_t k = 0; k < p.stores().size(); ++k)
    out += str("    out.template store<", k, ">(", v(p.stores()[k].value), ");\n");
  return out;
}

const char* enumerator(ReduceOp op) {
  constexpr const char* kNames[] = {"None",   "Sum",    "Prod",         "Max",          "Min",     "Any",      "All",
                                    "ArgMax", "ArgMin", "MaxWithIndex", "MinWithIndex", "Moments", "LogSumExp"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace

std::string c_type(CType type) {
  constexpr const char* kNames[kCTypeCount] = {"float",    "double",  "int32_t",        "int64_t",
                                               "uint64_t", "uint8_t", "Complex<float>", "Complex<double>"};
  return kNames[static_cast<size_t>(type)];
}

bool can_fault(const Program& program) {
  return std::any_of(program.instructions().begin(), program.instructions().end(), divides);
}

std::string kernel_name(const char* prefix, const Program& program) {
  constexpr size_t kLongest = 60;
  std::string name = prefix;
  if (program.reduction() != ReduceOp::None) name += str("_", name_of(program.reduction()));
  if (program.instructions().empty() && program.reduction() == ReduceOp::None) {
    name += program.loads().empty() ? "_fill" : str("_copy_", dtype_name(program.loads()[0]));
    if (program.stores().size() == 1) name += str("_", dtype_name(program.stores()[0].dtype));
  }
  for (const Program::Instruction& i : program.instructions()) {
    std::string_view part = i.is_cast ? "cast" : info(i.op).name;
    if (name.size() + part.size() + 1 > kLongest) break;
    name.append("_").append(part);
  }
  return name;
}

int64_t cost_of(const Program& program) {
  int64_t cost = 0;
  for (const Program::Instruction& i : program.instructions()) {
    int64_t c = 1;
    if (divides(i)) c = 8;
    else if (!i.is_cast && i.op >= ScalarOp::exp) c = i.op < ScalarOp::erf ? 6 : 40;
    else if (!i.is_cast && (i.op == ScalarOp::gcd || i.op == ScalarOp::lcm)) c = 40;
    // Functions of doubles are long sequences, and complex ones call several of them.
    if (c > 1 && (ctype_bit(i.type) & (kLanesComplex | ctype_bit(CType::F64)))) c *= 6;
    cost += c;
  }
  return cost;
}

std::string render_struct(const Program& p) {
  std::vector<ScalarType> stores;
  for (const Program::Store& s : p.stores()) stores.push_back(s.dtype);
  std::string out = "struct P {\n";
  out += str("  static constexpr int kLoads = ", p.loads().size(), ", kStores = ", stores.size(), ";\n");
  out += str("  static constexpr bool kFaults = ", can_fault(p) ? "true" : "false", ";\n");
  out += type_list("kLoadTypes", p.loads()) + type_list("kStoreTypes", stores);
  out += "  static constexpr CType kStoreValues[] = {";
  for (size_t k = 0; k < p.stores().size(); ++k)
    out += str(k > 0 ? ", " : "", "CType::", name_of(p.values()[p.stores()[k].value].type));
  out += "};\n  struct Params {";
  for (size_t k = 0; k < p.params().size(); ++k) out += str(" ", c_type(p.params()[k]), " p", k, ";");
  out += " };\n";
  if (p.reduction() == ReduceOp::None) {
    out +=
        "  template <class In, class Out>\n"
        "  static FACULA_DEVICE void run(const In& in, const Params& params, const Faults& faults, Out& out) {\n";
    return out + body(p, false) + stores_text(p) + "  }\n};\n";
  }
  CType first = CType::F32, second = CType::I32;
  for (const Program::ValueInfo& value : p.values())
    if (value.source == Program::Source::Reduced) (value.index == 0 ? first : second) = value.type;
  out += str("  static constexpr ReduceOp kReduce = ReduceOp::", enumerator(p.reduction()), ";\n");
  out += str("  using Reduced = ", c_type(p.values()[p.reduced_value()].type), ";\n  using First = ", c_type(first),
             ";\n  using Second = ", c_type(second), ";\n");
  out +=
      "  template <class In>\n"
      "  static FACULA_DEVICE Reduced prologue(const In& in, const Params& params, const Faults& faults) {\n";
  out += body(p, false) + str("    return ", v(p.reduced_value()), ";\n  }\n");
  out +=
      "  template <class Out>\n"
      "  static FACULA_DEVICE void epilogue(First first, Second second, const Params& params, const Faults& faults, "
      "Out& out) {\n";
  return out + body(p, true) + stores_text(p) + "  }\n};\n";
}

std::string render_defines(const Program& p) {
  // Intermediate values must not be wider than float either: they may be the user's reason for a wider type.
  const bool narrow = std::all_of(p.stores().begin(), p.stores().end(),
                                  [&](const Program::Store& s) { return isReducedFloatingType(s.dtype); }) &&
                      std::all_of(p.values().begin(), p.values().end(), [](const Program::ValueInfo& v) {
                        return v.type == CType::F32 || v.type == CType::B8 || v.type == CType::I32;
                      });
  return narrow ? "#define FACULA_NARROW_RESULTS 1\n" : "";
}

void KernelArguments::put_params(const Program& program, const ParamValue* params) {
  align(8);
  for (size_t k = 0; k < program.params().size(); ++k) {
    CType type = program.params()[k];
    align(param_alignment(type));
    std::memcpy(take(size_of(type)), &params[k], size_of(type));
  }
  align(8);
}

void KernelArguments::too_large() {
  throw InternalError(str("a kernel's arguments do not fit into ", kCapacity, " bytes"));
}

size_t params_bytes(const Program& program) {
  size_t size = 0;
  for (CType type : program.params()) {
    size_t a = param_alignment(type);
    size = (size + a - 1) / a * a + size_of(type);
  }
  return (size + 7) / 8 * 8;
}

}  // namespace facula::gpu
