// Checks of gradients against finite differences. Jacobians are over real coordinates: a complex number has two.
#include <facula/autograd/autograd.h>
#include <facula/autograd/forward.h>
#include <facula/autograd/function.h>
#include <facula/autograd/gradcheck.h>
#include <facula/core/warning.h>
#include <facula/tensors.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace facula::autograd {
namespace {

// A check that did not hold. What the caller sees of it is decided in one place.
struct Failure {
  std::string text;
};

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Failure{str(parts...)};
}

size_t coordinates_of(const Tensor& t) { return static_cast<size_t>(t.numel() * (t.is_complex() ? 2 : 1)); }

// The numbers of a tensor in order; the imaginary part of an element comes after its real part.
std::vector<double> coordinates(const Tensor& t) {
  Tensor plain = t.detach().to(kCPU);
  if (plain.is_complex()) plain = view_as_real(plain.to(kComplexDouble).contiguous());
  plain = plain.to(kDouble).contiguous();
  const double* data = plain.data_ptr<double>();
  return std::vector<double>(data, data + plain.numel());
}

// A tensor of the shape, dtype and device of `like` with these coordinates.
Tensor from_coordinates(const std::vector<double>& values, const Tensor& like) {
  std::vector<int64_t> sizes = like.sizes().vec();
  if (like.is_complex()) sizes.push_back(2);
  Tensor plain = empty(sizes, kDouble);
  std::copy(values.begin(), values.end(), plain.data_ptr<double>());
  if (like.is_complex()) plain = view_as_complex(plain);
  return plain.to(like.scalar_type()).to(like.device());
}

Tensor unit(const Tensor& like, size_t coordinate) {
  std::vector<double> values(coordinates_of(like), 0.0);
  values[coordinate] = 1;
  return from_coordinates(values, like);
}

// The real inner product, and the sum of the sizes of its numbers.
double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double sum_of_sizes(const std::vector<double>& a) {
  double sum = 0;
  for (const double x : a) sum += std::abs(x);
  return sum;
}

// Writes numbers into an input while it lives, so that `fn` sees the tensor it knows with other numbers.
class Moved {
 public:
  explicit Moved(const Tensor& input) : data_(input.detach()), before_(data_.clone()) {}
  ~Moved() {
    const NoGradGuard quiet;
    data_.copy_(before_);
  }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;
  void to(const std::vector<double>& values) {
    const NoGradGuard quiet;
    data_.copy_(from_coordinates(values, data_));
  }

 private:
  Tensor data_, before_;
};

// One row for each coordinate of the output, one column for each of the input.
struct Jacobian {
  size_t rows = 0, columns = 0;
  std::vector<double> values;
  Jacobian(size_t r, size_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  double& at(size_t r, size_t c) { return values[r * columns + c]; }
  double at(size_t r, size_t c) const { return values[r * columns + c]; }
};

std::string coordinate_name(const Tensor& t, size_t coordinate) {
  if (!t.is_complex()) return str("entry ", coordinate);
  return str(coordinate % 2 ? "the imaginary" : "the real", " part of entry ", coordinate / 2);
}

// Lets undefined gradients into the backward pass of what it is given.
struct Undefine : Function<Undefine> {
  static variable_list forward(AutogradContext* ctx, const variable_list& tensors) {
    ctx->set_materialize_grads(false);
    variable_list copies;
    for (const Tensor& t : tensors) copies.push_back(t.clone());
    return copies;
  }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return variable_list(grads.size()); }
};

class Check {
 public:
  Check(const char* name, const GradcheckFunction& fn, const variable_list& inputs, const GradcheckOptions& options)
      : fn_(fn), inputs_(inputs), options_(options) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      if (!input.defined() || !isDifferentiableType(input.scalar_type()) || !input.requires_grad()) continue;
      for (int64_t d = 0; d < input.dim(); ++d)
        FACULA_CHECK(input.stride(d) != 0 || input.size(d) < 2, ValueError, name, ": input ", i,
                     " has a dimension with stride 0, so that several entries share memory; call .contiguous() on it "
                     "before");
      wanted_.push_back(i);
    }
    FACULA_CHECK(
        !wanted_.empty(), ValueError, name,
        ": expects at least one input tensor to require gradient, but none of them does; call requires_grad_() on "
        "those to check");
  }

  void run() {
    const variable_list all = call();
    for (size_t j = 0; j < all.size(); ++j)
      if (all[j].defined() && isDifferentiableType(all[j].scalar_type()) && all[j].requires_grad())
        outputs_.push_back(j);
    if (outputs_.empty()) {
      check_constant(all);
      return;
    }
    if (options_.fast_mode) check_fast();
    else check_full();
    if (options_.check_backward_ad && options_.check_batched_grad) check_batched();
    if (options_.check_backward_ad && options_.check_undefined_grad) check_undefined();
  }

 private:
  variable_list call() const {
    const EnableGradGuard record;
    return fn_(inputs_);
  }
  variable_list chosen_outputs(const variable_list& all) const {
    variable_list chosen;
    for (const size_t j : outputs_) {
      if (j >= all.size() || !all[j].defined())
        fail("the function gave ", all.size(), " outputs in one call, and no output ", j, " now");
      chosen.push_back(all[j]);
    }
    return chosen;
  }
  variable_list chosen_inputs() const {
    variable_list chosen;
    for (const size_t i : wanted_) chosen.push_back(inputs_[i]);
    return chosen;
  }

  // The derivatives of `of` by the numbers of an input along `direction`: coordinates for each output.
  std::vector<std::vector<double>> differences(size_t input, const std::vector<double>& direction,
                                               const std::vector<size_t>& of) const {
    const std::vector<double> at = coordinates(inputs_[input]);
    Moved moved(inputs_[input]);
    const auto values = [&](double step) {
      std::vector<double> there = at;
      for (size_t k = 0; k < at.size(); ++k) there[k] += step * direction[k];
      moved.to(there);
      const variable_list all = call();
      std::vector<std::vector<double>> found;
      for (const size_t j : of) found.push_back(coordinates(all.at(j)));
      return found;
    };
    std::vector<std::vector<double>> up = values(options_.eps);
    const std::vector<std::vector<double>> down = values(-options_.eps);
    for (size_t j = 0; j < up.size(); ++j) {
      if (up[j].size() != down[j].size())
        fail("the shape of output ", of[j], " depends on the numbers of input ", input);
      for (size_t k = 0; k < up[j].size(); ++k) up[j][k] = (up[j][k] - down[j][k]) / (2 * options_.eps);
    }
    return up;
  }

  // By one input, a Jacobian for each of `of`.
  std::vector<Jacobian> numerical(size_t input, const std::vector<size_t>& of) const {
    const size_t columns = coordinates_of(inputs_[input]);
    std::vector<Jacobian> found;
    for (size_t c = 0; c < columns; ++c) {
      std::vector<double> direction(columns, 0.0);
      direction[c] = 1;
      const auto derivatives = differences(input, direction, of);
      for (size_t j = 0; j < of.size(); ++j) {
        if (c == 0) found.emplace_back(derivatives[j].size(), columns);
        for (size_t r = 0; r < derivatives[j].size(); ++r) found[j].at(r, c) = derivatives[j][r];
      }
    }
    return found;
  }

  // Coordinates of the gradient of each chosen input; zeros where there is none.
  std::vector<std::vector<double>> gradients(const variable_list& outputs, const variable_list& grads,
                                             size_t output) const {
    const variable_list inputs = chosen_inputs();
    const variable_list found = grad(outputs, inputs, grads, true, false, true);
    std::vector<std::vector<double>> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!found[i].defined()) {
        values.emplace_back(coordinates_of(inputs[i]), 0.0);
        continue;
      }
      if (found[i].sizes() != inputs[i].sizes())
        fail("the gradient of output ", output, " with respect to input ", wanted_[i], " has the shape ",
             found[i].sizes(), ", the input has ", inputs[i].sizes());
      if (options_.check_grad_dtypes && found[i].scalar_type() != inputs[i].scalar_type())
        fail("the gradient of output ", output, " with respect to input ", wanted_[i], " is ",
             toString(found[i].scalar_type()), ", the input is ", toString(inputs[i].scalar_type()));
      // A complex gradient of a real input would have twice the coordinates.
      const Tensor fitting = found[i].is_complex() && !inputs[i].is_complex() ? real(found[i]) : found[i];
      values.push_back(coordinates(fitting.to(inputs[i].scalar_type())));
    }
    return values;
  }

  void check_reentrant(const std::vector<std::vector<double>>& first, const std::vector<std::vector<double>>& again,
                       size_t output) const {
    for (size_t i = 0; i < first.size(); ++i)
      for (size_t k = 0; k < first[i].size(); ++k) {
        const double off = std::abs(first[i][k] - again[i][k]);
        if (off > options_.nondet_tol)
          fail(
              "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
              "different values: ",
              first[i][k], " and then ", again[i][k], " for ", coordinate_name(inputs_[wanted_[i]], k), " of input ",
              wanted_[i], ", from output ", output, "; nondet_tol is ", options_.nondet_tol);
      }
  }

  // Of one output by all chosen inputs.
  std::vector<Jacobian> backward_jacobians(const Tensor& output, size_t number) const {
    std::vector<Jacobian> found;
    const size_t rows = coordinates_of(output);
    for (const size_t i : wanted_) found.emplace_back(rows, coordinates_of(inputs_[i]));
    for (size_t r = 0; r < rows; ++r) {
      const variable_list grads = {unit(output, r)};
      const auto rows_of_inputs = gradients({output}, grads, number);
      check_reentrant(rows_of_inputs, gradients({output}, grads, number), number);
      for (size_t i = 0; i < wanted_.size(); ++i)
        for (size_t c = 0; c < rows_of_inputs[i].size(); ++c) found[i].at(r, c) = rows_of_inputs[i][c];
    }
    return found;
  }

  // Tangents of the chosen outputs when one input moves along `tangent`.
  std::vector<std::vector<double>> tangents(size_t input, const Tensor& tangent) const {
    const DualLevel level;
    variable_list moving = inputs_;
    moving[input] = level.make_dual(inputs_[input], tangent);
    const EnableGradGuard record;
    std::vector<std::vector<double>> found;
    for (const Tensor& output : chosen_outputs(fn_(moving))) {
      const Tensor moves = level.unpack_dual(output).second;
      if (!moves.defined()) found.emplace_back(coordinates_of(output), 0.0);
      else found.push_back(coordinates(moves));
    }
    return found;
  }

  // By one input, a Jacobian for each chosen output.
  std::vector<Jacobian> forward_jacobians(size_t input) const {
    const size_t columns = coordinates_of(inputs_[input]);
    std::vector<Jacobian> found;
    for (size_t c = 0; c < columns; ++c) {
      const auto moves = tangents(input, unit(inputs_[input], c));
      for (size_t j = 0; j < moves.size(); ++j) {
        if (c == 0) found.emplace_back(moves[j].size(), columns);
        for (size_t r = 0; r < moves[j].size(); ++r) found[j].at(r, c) = moves[j][r];
      }
    }
    return found;
  }

  // Empty when they agree; else the worst entry in words.
  std::string difference(const Jacobian& analytical, const Jacobian& numerical, const Tensor& output,
                         const Tensor& input) const {
    size_t wrong = 0, worst = 0;
    double most = -1;
    for (size_t k = 0; k < numerical.values.size(); ++k) {
      const double a = analytical.values[k], n = numerical.values[k];
      if (std::isnan(a) && std::isnan(n)) continue;
      const double excess = std::abs(a - n) - (options_.atol + options_.rtol * std::abs(n));
      if (excess <= 0 || a == n) continue;
      ++wrong;
      const double size = std::isnan(excess) ? HUGE_VAL : excess;
      if (size > most) most = size, worst = k;
    }
    if (wrong == 0) return {};
    return str("the derivative of ", coordinate_name(output, worst / numerical.columns), " of the output by ",
               coordinate_name(input, worst % numerical.columns),
               " of the input is numerical: ", numerical.values[worst], ", analytical: ", analytical.values[worst],
               " (the worst of ", wrong, " wrong ones among ", numerical.values.size(), ")");
  }

  [[noreturn]] void mismatch(const char* mode, size_t output, size_t input, const std::string& why) const {
    fail("Jacobian mismatch for output ", output, " with respect to input ", input, " in ", mode, ": ", why, "; eps ",
         options_.eps, ", atol ", options_.atol, ", rtol ", options_.rtol);
  }

  // The outputs do not require gradients: then they must not depend on the inputs.
  void check_constant(const variable_list& all) const {
    std::vector<size_t> of;
    for (size_t j = 0; j < all.size(); ++j)
      if (all[j].defined() && isDifferentiableType(all[j].scalar_type())) of.push_back(j);
    for (const size_t i : wanted_) {
      const auto jacobians = numerical(i, of);
      for (size_t j = 0; j < jacobians.size(); ++j)
        for (size_t k = 0; k < jacobians[j].values.size(); ++k)
          if (!(std::abs(jacobians[j].values[k]) <= options_.atol))
            fail(
                "Numerical gradient for function expected to be zero, since no output requires a gradient; the "
                "derivative "
                "of ",
                coordinate_name(all[of[j]], k / jacobians[j].columns), " of output ", of[j], " by ",
                coordinate_name(inputs_[i], k % jacobians[j].columns), " of input ", i, " is ", jacobians[j].values[k]);
    }
  }

  void check_full() const {
    std::vector<std::vector<Jacobian>> wanted;  // by input, then output
    for (const size_t i : wanted_) wanted.push_back(numerical(i, outputs_));
    const variable_list outputs = chosen_outputs(call());
    const auto compare = [&](const char* mode, const Jacobian& analytical, size_t j, size_t i) {
      if (wanted[i].empty()) return;  // an input without entries
      const std::string why = difference(analytical, wanted[i][j], outputs[j], inputs_[wanted_[i]]);
      if (!why.empty()) mismatch(mode, outputs_[j], wanted_[i], why);
    };
    if (options_.check_backward_ad)
      for (size_t j = 0; j < outputs_.size(); ++j) {
        const auto found = backward_jacobians(outputs[j], outputs_[j]);
        for (size_t i = 0; i < wanted_.size(); ++i) compare("backward mode", found[i], j, i);
      }
    if (options_.check_forward_ad)
      for (size_t i = 0; i < wanted_.size(); ++i) {
        const auto found = forward_jacobians(wanted_[i]);
        for (size_t j = 0; j < found.size(); ++j) compare("forward mode", found[j], j, i);
      }
  }

  std::vector<double> random_direction(const Tensor& like, Generator& generator) const {
    const auto count = static_cast<int64_t>(coordinates_of(like));
    std::vector<double> values = coordinates(randn({count}, generator, kDouble));
    const double size = std::sqrt(dot(values, values));
    if (size > 0)
      for (double& x : values) x /= size;
    return values;
  }

  void check_fast() const {
    Generator generator = make_generator(options_.seed);
    const variable_list outputs = chosen_outputs(call());
    std::vector<std::vector<double>> directions, weights;
    for (const size_t i : wanted_) directions.push_back(random_direction(inputs_[i], generator));
    for (const Tensor& output : outputs) weights.push_back(random_direction(output, generator));
    std::vector<std::vector<std::vector<double>>> rows;  // by output, then input
    if (options_.check_backward_ad)
      for (size_t j = 0; j < outputs.size(); ++j) {
        const variable_list grads = {from_coordinates(weights[j], outputs[j])};
        rows.push_back(gradients({outputs[j]}, grads, outputs_[j]));
        check_reentrant(rows.back(), gradients({outputs[j]}, grads, outputs_[j]), outputs_[j]);
      }
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const auto moves = differences(wanted_[i], directions[i], outputs_);
      const auto compare = [&](const char* mode, double analytical, size_t j) {
        const double numerical = dot(weights[j], moves[j]);
        // An error of atol in every entry would add up to this.
        const double atol = options_.atol * sum_of_sizes(directions[i]) * sum_of_sizes(weights[j]);
        if (std::abs(analytical - numerical) <= atol + options_.rtol * std::abs(numerical)) return;
        if (std::isnan(analytical) && std::isnan(numerical)) return;
        check_full();  // names the entry
        mismatch(mode, outputs_[j], wanted_[i],
                 str("in a random direction (fast mode, seed ", options_.seed,
                     ") the derivative is numerical: ", numerical, ", analytical: ", analytical));
      };
      if (options_.check_backward_ad)
        for (size_t j = 0; j < outputs.size(); ++j) compare("backward mode", dot(rows[j][i], directions[i]), j);
      if (options_.check_forward_ad) {
        const auto found = tangents(wanted_[i], from_coordinates(directions[i], inputs_[wanted_[i]]));
        for (size_t j = 0; j < found.size(); ++j) compare("forward mode", dot(weights[j], found[j]), j);
      }
    }
  }

  // Backward passes for several gradients at once against one after the other.
  void check_batched() const {
    Generator generator = make_generator(options_.seed);
    const variable_list outputs = chosen_outputs(call()), inputs = chosen_inputs();
    for (size_t j = 0; j < outputs.size(); ++j) {
      variable_list drawn;
      for (int k = 0; k < 2; ++k)
        drawn.push_back(from_coordinates(random_direction(outputs[j], generator), outputs[j]));
      const auto backward = [&](const Tensor& gradient) {
        variable_list found = grad({outputs[j]}, inputs, {gradient}, true, false, true);
        for (size_t i = 0; i < found.size(); ++i)
          if (!found[i].defined()) found[i] = zeros_like(inputs[i]);
        return found;
      };
      variable_list batched;
      try {
        batched = func::vmap(backward)(stack(drawn));
      } catch (const std::exception& error) {
        fail("While computing batched gradients of output ", outputs_[j], ", got: ", error.what(), "; seed ",
             options_.seed);
      }
      for (size_t k = 0; k < drawn.size(); ++k) {
        const variable_list single = backward(drawn[k]);
        for (size_t i = 0; i < inputs.size(); ++i)
          if (!allclose(batched[i].select(0, static_cast<int64_t>(k)), single[i], options_.rtol, options_.atol, true))
            fail("Batched gradients of output ", outputs_[j], " with respect to input ", wanted_[i],
                 " differ from those computed one by one; seed ", options_.seed);
      }
    }
  }

  // Undefined gradients for all outputs, and for one of several while the others get zeros.
  void check_undefined() const {
    for (size_t skipped = 0; skipped <= outputs_.size(); ++skipped) {
      if (skipped == 1 && outputs_.size() == 1) return;
      const variable_list outputs = chosen_outputs(call());
      variable_list through = Undefine::apply(outputs);
      variable_list grads;
      for (size_t j = 0; j < outputs.size(); ++j) {
        if (skipped > 0 && j != skipped - 1) through[j] = outputs[j];
        grads.push_back(zeros_like(outputs[j]));
      }
      variable_list found;
      try {
        found = grad(through, chosen_inputs(), grads, false, false, true);
      } catch (const std::exception& error) {
        fail("Expected backward function to handle undefined output grads: treat them as zero. It threw: ",
             error.what());
      }
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i].defined() && sum_of_sizes(coordinates(found[i])) != 0)
          fail(
              "Expected all input grads to be undefined or zero when all output grads are undefined or zero, but that "
              "of "
              "input ",
              wanted_[i], " is not");
    }
  }

  const GradcheckFunction& fn_;
  const variable_list& inputs_;
  const GradcheckOptions& options_;
  std::vector<size_t> wanted_;   // inputs that require gradients
  std::vector<size_t> outputs_;  // outputs that do
};

bool run(const char* name, const GradcheckFunction& fn, const variable_list& inputs, const GradcheckOptions& options) {
  FACULA_CHECK(options.eps > 0 && options.atol >= 0 && options.rtol >= 0, ValueError, name, ": eps is ", options.eps,
               ", atol ", options.atol, ", rtol ", options.rtol, "; eps must be positive, the others not negative");
  FACULA_CHECK(options.check_backward_ad || options.check_forward_ad, ValueError, name,
               ": neither backward nor forward mode is to be checked; set check_backward_ad or check_forward_ad");
  Check check(name, fn, inputs, options);
  try {
    check.run();
  } catch (const Failure& failure) {
    if (options.raise_exception) throw Error(str(name, ": ", failure.text));
    return false;
  }
  return true;
}

}  // namespace

bool gradcheck(const GradcheckFunction& fn, const variable_list& inputs, const GradcheckOptions& options) {
  FACULA_CHECK(fn, ValueError, "gradcheck: the function is empty; give one");
  return run("gradcheck", fn, inputs, options);
}

bool gradgradcheck(const GradcheckFunction& fn, const variable_list& inputs, const variable_list& grad_outputs,
                   const GradcheckOptions& options) {
  FACULA_CHECK(fn, ValueError, "gradgradcheck: the function is empty; give one");
  std::vector<size_t> outputs;
  variable_list all = inputs;
  {
    const EnableGradGuard record;
    const variable_list found = fn(inputs);
    for (size_t j = 0; j < found.size(); ++j)
      if (found[j].defined() && isDifferentiableType(found[j].scalar_type()) && found[j].requires_grad())
        outputs.push_back(j);
    FACULA_CHECK(
        !outputs.empty(), ValueError,
        "gradgradcheck: no output requires a gradient, so there is none to differentiate; call requires_grad_() on "
        "the inputs");
    FACULA_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), ValueError, "gradgradcheck: there are ",
                 grad_outputs.size(), " grad_outputs for ", outputs.size(),
                 " outputs that require gradients; give one for each, or none");
    Generator generator = make_generator(options.seed);
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!grad_outputs.empty()) {
        all.push_back(grad_outputs[k]);
        continue;
      }
      const Tensor& output = found[outputs[k]];
      const auto count = static_cast<int64_t>(coordinates_of(output));
      Tensor drawn = from_coordinates(coordinates(randn({count}, generator, kDouble)), output);
      if (options.gen_non_contig_grad_outputs) drawn = stack({drawn, zeros_like(drawn)}, -1).select(-1, 0);
      drawn.requires_grad_();
      all.push_back(drawn);
    }
  }
  std::vector<size_t> wanted;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && isDifferentiableType(inputs[i].scalar_type()) && inputs[i].requires_grad())
      wanted.push_back(i);
  const GradcheckFunction gradient = [&](const variable_list& args) {
    const variable_list given(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    const variable_list grads(args.begin() + static_cast<std::ptrdiff_t>(inputs.size()), args.end());
    const variable_list found = fn(given);
    variable_list chosen, by;
    for (const size_t j : outputs) chosen.push_back(found.at(j));
    for (const size_t i : wanted) by.push_back(given[i]);
    variable_list result;
    const variable_list first = grad(chosen, by, grads, std::nullopt, true, true);
    for (size_t k = 0; k < first.size(); ++k) result.push_back(first[k].defined() ? first[k] : zeros_like(by[k]));
    return result;
  };
  GradcheckOptions second = options;
  second.check_forward_ad = options.check_fwd_over_rev;
  second.check_backward_ad = options.check_rev_over_rev;
  return run("gradgradcheck", gradient, all, second);
}

}  // namespace facula::autograd
