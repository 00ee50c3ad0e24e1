// One step of an LSTM or GRU layer after its matrix product, and the same backwards: a thread has one hidden unit of one sample, with
// all its gates. Rows of gates hold one gate behind the other. The formulas are those of cpu/rnn.cpp.
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

// The unit that a thread has.
struct RnnUnits {
  int64_t count, hidden;  // of all samples, of one
  Divider<int64_t> by_hidden;
};
struct RnnPlace {
  int64_t at, row, unit;
  bool live;
};
FACULA_DEVICE RnnPlace rnn_place(const RnnUnits& units) {
  RnnPlace place;
  place.at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  place.live = place.at < units.count;
  place.row = place.live ? place.at : 0;
  place.unit = divide(place.row, units.by_hidden);
  return place;
}

// The order of members is what gpu/primitives/rnn.cpp writes. All pointers are to the step's first element.
struct LstmArgs {
  const void* input;  // what it adds to the gates
  const void* before;
  void* gates;  // holds what the hidden state adds
  void* cell;
  void* output;
  RnnUnits units;
};
template <class T>
FACULA_DEVICE void lstm_step(const LstmArgs& args) {
  const RnnPlace place = rnn_place(args.units);
  if (!place.live) return;
  const int64_t n = args.units.hidden, first = place.row * 4 * n + place.unit;
  const T* x = static_cast<const T*>(args.input) + first;
  T* gates = static_cast<T*>(args.gates) + first;
  const T i = expr::op::sigmoid::eval(x[0] + gates[0]), f = expr::op::sigmoid::eval(x[n] + gates[n]),
          g = expr::m::tanh(x[2 * n] + gates[2 * n]), o = expr::op::sigmoid::eval(x[3 * n] + gates[3 * n]);
  const T c = expr::m::fma(f, static_cast<const T*>(args.before)[place.at], i * g);
  gates[0] = i;
  gates[n] = f;
  gates[2 * n] = g;
  gates[3 * n] = o;
  static_cast<T*>(args.cell)[place.at] = c;
  static_cast<T*>(args.output)[place.at] = o * expr::m::tanh(c);
}

struct LstmBackwardArgs {
  const void* grad_output;
  const void* grad_cell;  // or null
  const void* before;
  const void* cell;
  const void* gates;
  void* grad_gates;
  const void* from_hidden;  // what the step after gives back to this one's states
  void* from_cell;          // becomes what this one gives to the step before
  RnnUnits units;
  int32_t last;  // there is no step after
};
template <class T>
FACULA_DEVICE void lstm_step_backward(const LstmBackwardArgs& args) {
  const RnnPlace place = rnn_place(args.units);
  if (!place.live) return;
  const int64_t n = args.units.hidden, first = place.row * 4 * n + place.unit;
  const T* gates = static_cast<const T*>(args.gates) + first;
  const T i = gates[0], f = gates[n], g = gates[2 * n], o = gates[3 * n];
  const T y = expr::m::tanh(static_cast<const T*>(args.cell)[place.at]);
  T* from_cell = static_cast<T*>(args.from_cell) + place.at;
  const T from_hidden = args.last ? T(0) : static_cast<const T*>(args.from_hidden)[place.at];
  const T d = from_hidden + static_cast<const T*>(args.grad_output)[place.at];
  T of_cell = (args.last ? T(0) : *from_cell) + d * o * (T(1) - y * y);
  if (args.grad_cell) of_cell += static_cast<const T*>(args.grad_cell)[place.at];
  T* to = static_cast<T*>(args.grad_gates) + first;
  to[0] = of_cell * g * i * (T(1) - i);
  to[n] = of_cell * static_cast<const T*>(args.before)[place.at] * f * (T(1) - f);
  to[2 * n] = of_cell * i * (T(1) - g * g);
  to[3 * n] = d * y * o * (T(1) - o);
  *from_cell = of_cell * f;
}

struct GruArgs {
  const void* input;
  const void* bias;  // or null
  const void* before;
  void* gates;  // the first three hold what the hidden state adds
  void* output;
  RnnUnits units;
};
template <class T>
FACULA_DEVICE void gru_step(const GruArgs& args) {
  const RnnPlace place = rnn_place(args.units);
  if (!place.live) return;
  const int64_t n = args.units.hidden;
  const T* x = static_cast<const T*>(args.input) + place.row * 3 * n + place.unit;
  T* gates = static_cast<T*>(args.gates) + place.row * 4 * n + place.unit;
  T sums[3];
  FACULA_UNROLL
  for (int q = 0; q < 3; ++q) {
    sums[q] = gates[q * n];
    if (args.bias) sums[q] += static_cast<const T*>(args.bias)[q * n + place.unit];
  }
  const T r = expr::op::sigmoid::eval(x[0] + sums[0]), z = expr::op::sigmoid::eval(x[n] + sums[1]);
  const T fresh = expr::m::tanh(expr::m::fma(r, sums[2], x[2 * n]));
  gates[0] = r;
  gates[n] = z;
  gates[2 * n] = fresh;
  gates[3 * n] = sums[2];
  static_cast<T*>(args.output)[place.at] = expr::m::fma(z, static_cast<const T*>(args.before)[place.at] - fresh, fresh);
}

struct GruBackwardArgs {
  const void* grad_output;
  const void* before;
  const void* gates;
  void* grad_gates;
  void* grad_hidden;
  void* from_hidden;  // becomes the part that goes to the state before without the product
  RnnUnits units;
  int32_t last;
};
template <class T>
FACULA_DEVICE void gru_step_backward(const GruBackwardArgs& args) {
  const RnnPlace place = rnn_place(args.units);
  if (!place.live) return;
  const int64_t n = args.units.hidden, first = place.row * 3 * n + place.unit;
  const T* gates = static_cast<const T*>(args.gates) + place.row * 4 * n + place.unit;
  const T r = gates[0], z = gates[n], fresh = gates[2 * n], part = gates[3 * n];
  T* from_hidden = static_cast<T*>(args.from_hidden) + place.at;
  const T d = (args.last ? T(0) : *from_hidden) + static_cast<const T*>(args.grad_output)[place.at];
  const T dn = d * (T(1) - z) * (T(1) - fresh * fresh);
  const T dz = d * (static_cast<const T*>(args.before)[place.at] - fresh) * z * (T(1) - z);
  const T dr = dn * part * r * (T(1) - r);
  T *to_input = static_cast<T*>(args.grad_gates) + first, *to_hidden = static_cast<T*>(args.grad_hidden) + first;
  to_input[0] = to_hidden[0] = dr;
  to_input[n] = to_hidden[n] = dz;
  to_input[2 * n] = dn;
  to_hidden[2 * n] = dn * r;
  *from_hidden = d * z;
}

}  // namespace facula
