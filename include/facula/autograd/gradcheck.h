// Checks of gradients against finite differences, for tests of functions that users write.
//
//   gradcheck([](const variable_list& x) { return variable_list{x[0].sin() * x[1]}; }, {a, b});
//
// Inputs should be float64 or complex128: differences of less precise numbers say little.
#pragma once

#include <facula/autograd/node.h>
#include <facula/tensor.h>

#include <cstdint>
#include <functional>

namespace facula::autograd {

using GradcheckFunction = std::function<variable_list(const variable_list&)>;

struct GradcheckOptions {
  double eps = 1e-6;   // step of the differences
  double atol = 1e-5;  // a derivative may be off by atol + rtol * |numerical|
  double rtol = 1e-3;
  bool raise_exception = true;       // otherwise a failed check returns false
  double nondet_tol = 0.0;           // how far two backward passes over the same numbers may differ
  bool check_undefined_grad = true;  // backward must take undefined gradients as zero
  bool check_grad_dtypes = false;    // gradients must have the dtypes of their inputs
  bool check_forward_ad = false;     // tangents of forward mode too
  bool check_backward_ad = true;
  bool check_batched_grad = false;           // backward passes in a batch (func::vmap) must give what single ones do
  bool check_fwd_over_rev = false;           // gradgradcheck: forward mode through the first gradient
  bool check_rev_over_rev = true;            // gradgradcheck: backward through the first gradient
  bool gen_non_contig_grad_outputs = false;  // gradgradcheck: the gradients that it draws are not contiguous
  // One derivative in a random direction for each output and input, instead of all. A failure is looked for in the
  // whole Jacobian.
  bool fast_mode = false;
  uint64_t seed = 2147483647;  // of everything that is drawn; errors name it
};

// Compares the derivatives of `fn` by every input that requires a gradient with central differences. `fn` must give the
// same outputs for the same inputs; its outputs that do not require gradients are left out. Complex numbers count as
// pairs of real ones, gradients of them as libtorch defines them: a real loss changes by Re(conj(grad) dx).
FACULA_API bool gradcheck(const GradcheckFunction& fn, const variable_list& inputs,
                          const GradcheckOptions& options = {});

// The same for the gradients of `fn`, as a function of its inputs and of the gradients of its outputs, which are drawn
// when none are given.
FACULA_API bool gradgradcheck(const GradcheckFunction& fn, const variable_list& inputs,
                              const variable_list& grad_outputs = {}, const GradcheckOptions& options = {});

}  // namespace facula::autograd
