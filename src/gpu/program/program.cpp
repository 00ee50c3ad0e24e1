#include "gpu/program/program.h"

#include "gpu/program/program_state.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>

namespace facula::gpu {

ProgramState::ProgramState(const Program& p)
    : program(p), text(render_struct(p)), faults(can_fault(p)), cost(cost_of(p)) {
  FACULA_CHECK(p.loads().size() + p.stores().size() <= std::size(widths), NotSupportedError,
               "a program may use at most ", std::size(widths), " arrays, this one has ",
               p.loads().size() + p.stores().size(), "; split it");
  size_t a = 0;
  auto add = [&](ScalarType t) { widths[a++] = static_cast<uint8_t>(std::countr_zero(elementSize(t))); };
  for (ScalarType t : p.loads()) add(t);
  for (const Program::Store& s : p.stores()) add(s.dtype);
  full_vector = 4 - *std::max_element(widths, widths + a);
}

ProgramState::~ProgramState() {
  for (auto& row : flat)
    for (auto& kernel : row) delete kernel.load();
  for (PointwiseKernel* k = others.load(); k;) {
    PointwiseKernel* next = k->next;
    delete k;
    k = next;
  }
}

GpuProgram::GpuProgram(const Program& program) : state_(std::make_unique<State>(program)) {}
GpuProgram::~GpuProgram() = default;

}  // namespace facula::gpu
