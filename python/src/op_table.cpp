// The ops as Python's tables of functions and methods.
#include "op_table.h"

#include "generated/op_families.h"

namespace facula::python {
namespace {

std::vector<PyMethodDef> joined(std::initializer_list<const PyMethodDef*> tables) {
  std::vector<PyMethodDef> all;
  for (const PyMethodDef* table : tables)
    for (; table->ml_name; ++table) all.push_back(*table);
  all.push_back({nullptr, nullptr, 0, nullptr});
  return all;
}

}  // namespace

const PyMethodDef* op_methods() {
#define FACULA_TABLE(family) family##_methods(),
  static const std::vector<PyMethodDef> all = joined({FACULA_OP_FAMILIES(FACULA_TABLE)});
#undef FACULA_TABLE
  return all.data();
}

std::vector<NamedResult*> op_results() {
  std::vector<NamedResult*> all;
#define FACULA_TABLE(family) \
  for (NamedResult* const* each = family##_named(); *each; ++each) all.push_back(*each);
  FACULA_OP_FAMILIES(FACULA_TABLE)
#undef FACULA_TABLE
  return all;
}

const PyMethodDef* op_functions() {
#define FACULA_TABLE(family) family##_functions(),
  static const std::vector<PyMethodDef> all = joined({FACULA_OP_FAMILIES(FACULA_TABLE)});
#undef FACULA_TABLE
  return all.data();
}

}  // namespace facula::python
