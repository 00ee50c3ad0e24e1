// The properties over all records: values, inputs left alone, layouts, in-place and out variants, threads, meta tensors
// and errors. Random ops have theirs in record_properties_random.cpp; tensors of several devices meet in
// record_properties_devices.cpp.
#include "cpp/record_properties.h"

#include "cpp/record_calls.h"
#include "cpp/record_values.h"

#include <facula/threads.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace facula::testing {
namespace {

using Complaints = std::vector<std::string>;

bool has(const Case& one, CaseFlag flag) { return (one.flags & flag) != 0; }

void complain(Complaints& to, const std::string& what, const std::string& why) {
  if (!why.empty()) to.push_back(what + ": " + why);
}

// Runs `body`, and turns what it throws into a complaint.
template <class Body>
void guarded(Complaints& to, const std::string& what, Body body) {
  try {
    body();
  } catch (const Error& error) {
    to.push_back(what + ": " + error.type_name() + ": " + error.what());
  } catch (const std::exception& error) {
    to.push_back(what + ": exception: " + error.what());
  }
}

std::string number_difference(const BoxedValue& actual, const CaseTruth& truth) {
  double got = 0;
  if (const auto* flag = std::get_if<bool>(&actual)) got = *flag ? 1 : 0;
  else if (const auto* integer = std::get_if<int64_t>(&actual)) got = static_cast<double>(*integer);
  else if (const auto* real = std::get_if<double>(&actual)) got = *real;
  else if (const auto* scalar = std::get_if<Scalar>(&actual)) got = scalar->toDouble();
  else return "the result is " + describe(actual) + ", not a number";
  double want = 0;
  if (const auto* flag = std::get_if<bool>(&*truth.number)) want = *flag ? 1 : 0;
  else if (const auto* integer = std::get_if<int64_t>(&*truth.number)) want = static_cast<double>(*integer);
  else want = std::get<double>(*truth.number);
  if (std::abs(got - want) <= truth.atol + truth.rtol * std::abs(want)) return {};
  return "got " + std::to_string(got) + ", must be " + std::to_string(want);
}

void check_same_results(Complaints& to, const std::string& what, const Results& results, const Results& plain) {
  for (size_t i = 0; i < plain.size() && i < results.size(); ++i) {
    const auto* a = std::get_if<Tensor>(&results[i]);
    const auto* b = std::get_if<Tensor>(&plain[i]);
    if (a != nullptr && b != nullptr && a->defined() && b->defined()) complain(to, what, bit_difference(*a, *b));
  }
}

bool any_not_contiguous(const Arguments& args) {
  const auto tensors = tensors_of(args);
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return !t.is_contiguous(); });
}

const Tensor* first_tensor(const Arguments& args) { return args.empty() ? nullptr : std::get_if<Tensor>(&args[0]); }

// In place, on a contiguous copy and on one with the case's strides: the same numbers, in the same tensor, with a
// raised version.
void check_inplace(Complaints& to, const BoxedOp& inplace, const Arguments& args, const Results& plain,
                   const Case& one) {
  const Tensor* self = first_tensor(args);
  if (self == nullptr || one.truth.size() != 1 || one.truth[0].number) return;
  const CaseTruth& truth = one.truth[0];
  if (scalar_type_of_code(truth.dtype) != self->scalar_type() || to_words(self->sizes()) != to_words(truth.sizes))
    return;
  for (const bool strided : {false, true}) {
    if (strided && (self->is_contiguous() || overlaps_itself(*self))) continue;
    const std::string what = strided ? "in place on strided memory" : "in place";
    guarded(to, what, [&] {
      Arguments changed = args;
      const Tensor copy = strided ? strided_copy(*self) : contiguous_copy(*self);
      changed[0] = copy;
      const Untouched others(changed, true);
      const int64_t version = copy._version();
      const Results results = call(inplace, changed);
      check_results(to, what, {BoxedValue(copy)}, one);
      if (!strided && self->is_contiguous()) check_same_results(to, what, {BoxedValue(copy)}, plain);
      if (results.empty() || !std::get<Tensor>(results[0]).is_same(copy))
        to.push_back(what + ": must return the tensor itself");
      if (inplace.kind != OpKind::View && copy._version() <= version)
        to.push_back(what + ": the version was not raised");
      complain(to, what, others.words());
    });
  }
}

// Into tensors of the user: empty ones and wrongly sized ones grow, right ones keep their memory and strides.
void check_out(Complaints& to, const BoxedOp& out, const Arguments& args, const Results& plain, const Case& one) {
  for (const CaseTruth& truth : one.truth)
    if (truth.number) return;
  for (const std::string kind : {"empty", "of the right size", "too big", "with gaps"}) {
    const std::string what = "into an out tensor " + kind;
    guarded(to, what, [&] {
      std::vector<Tensor> outs;
      Arguments with_outs;
      for (const CaseTruth& truth : one.truth) {
        std::vector<int64_t> sizes = truth.sizes;
        if (kind == "empty") sizes = {0};
        if (kind == "too big") sizes.insert(sizes.begin(), 3);
        outs.push_back(make_filled(scalar_type_of_code(truth.dtype), sizes, kind == "with gaps"));
        // Memory that the caller owns cannot grow; a tensor of ours can.
        if (kind == "empty" || kind == "too big") outs.back() = outs.back().clone();
        with_outs.emplace_back(outs.back());
      }
      const void* memory = outs.empty() ? nullptr : outs[0].data_ptr();
      const auto strides = outs.empty() ? std::string() : to_words(outs[0].strides());
      with_outs.insert(with_outs.end(), args.begin(), args.end());
      const Untouched inputs(args, false);
      call(out, with_outs);
      const Results results(with_outs.begin(), with_outs.begin() + static_cast<std::ptrdiff_t>(outs.size()));
      check_results(to, what, results, one);
      if (!any_not_contiguous(args)) check_same_results(to, what, results, plain);
      if (kind == "of the right size" || kind == "with gaps") {
        if (!outs.empty() && (outs[0].data_ptr() != memory || to_words(outs[0].strides()) != strides))
          to.push_back(what + ": the tensor must keep its memory and strides");
      }
      complain(to, what, inputs.words());
    });
  }
}

// The tensor with its first slice along a dim in place of all the others, by a stride of zero.
Tensor repeated_along(const Tensor& tensor, bool last) {
  if (!tensor.defined() || tensor.numel() == 0) return tensor;
  for (int64_t k = 0; k < tensor.dim(); ++k) {
    const int64_t d = last ? tensor.dim() - 1 - k : k;
    if (tensor.size(d) > 1) return tensor.narrow(d, 0, 1).expand(tensor.sizes());
  }
  return tensor;
}

// Inputs that were broadcast, into an out tensor with gaps: what contiguous copies of these inputs give.
void check_out_of_broadcast(Complaints& to, const Variants& variants, const Arguments& args, const Case& one) {
  for (const bool last : {false, true}) {
    const Arguments broadcast = each_tensor(args, [&](const Tensor& t) { return repeated_along(t, last); });
    Results plain;
    try {
      plain = call_plain(variants, all_contiguous(broadcast));
    } catch (const Error&) {
      continue;  // other values may be none that the op takes
    }
    const std::string what = std::string("of inputs broadcast along the ") + (last ? "last" : "first") +
                             " dim, into an out tensor with gaps";
    guarded(to, what, [&] {
      if (plain.size() != one.truth.size()) return;
      Arguments with_outs;
      for (const BoxedValue& result : plain) {
        const auto& tensor = std::get<Tensor>(result);
        with_outs.emplace_back(make_filled(tensor.scalar_type(), tensor.sizes(), true));
      }
      with_outs.insert(with_outs.end(), broadcast.begin(), broadcast.end());
      const Untouched inputs(broadcast, false);
      call(*variants.out, with_outs);
      for (size_t i = 0; i < plain.size(); ++i)
        complain(to, what,
                 difference(std::get<Tensor>(with_outs[i]), as_truth(std::get<Tensor>(plain[i]), one.truth[i]),
                            has(one, kSignedZero)));
      complain(to, what, inputs.words());
    });
  }
}

// An out tensor that lies on an input: the very same memory, or memory that begins one element later. The call is either
// refused, and leaves all as it was, or gives the right values. Ops that go element by element take their input for out.
void check_out_over_inputs(Complaints& to, const BoxedOp& out, const Arguments& args, const Case& one) {
  if (one.truth.size() != 1) return;
  const CaseTruth& truth = one.truth[0];
  for (size_t i = 0; i < args.size(); ++i) {
    const auto* input = std::get_if<Tensor>(&args[i]);
    if (input == nullptr || !input->defined() || input->numel() == 0 ||
        input->scalar_type() != scalar_type_of_code(truth.dtype) || to_words(input->sizes()) != to_words(truth.sizes))
      continue;
    for (const bool shifted : {false, true}) {
      const std::string what =
          "into an out tensor that " + std::string(shifted ? "overlaps" : "is") + " argument " + std::to_string(i);
      guarded(to, what, [&] {
        const int64_t n = input->numel();
        const Tensor room = make_filled(input->scalar_type(), {n + 1}, false);
        const Tensor self = room.narrow(0, 0, n).view(input->sizes());
        self.copy_(*input);
        const Tensor target = shifted ? room.narrow(0, 1, n).view(input->sizes()) : self;
        Arguments with_out = {target};
        with_out.insert(with_out.end(), args.begin(), args.end());
        with_out[i + 1] = self;
        const Untouched all(with_out, false);
        try {
          call(out, with_out);
        } catch (const Error& error) {
          if (!shifted && out.kind == OpKind::Pointwise) throw;
          complain(to, what + ", refused", all.words());
          return;
        }
        complain(to, what, difference(target, truth, has(one, kSignedZero)));
      });
    }
  }
}

// One thread and two give right values, and the same bits unless the record says otherwise.
void check_threads(Complaints& to, const Variants& variants, const Arguments& args, const Case& one) {
  const int before = get_num_threads();
  guarded(to, "with one and two threads", [&] {
    set_num_threads(1);
    const Results alone = call_plain(variants, args);
    set_num_threads(2);
    const Results together = call_plain(variants, args);
    if (has(one, kCheckThreads)) {
      check_same_results(to, "with two threads instead of one", together, alone);
    } else {
      check_results(to, "with one thread", alone, one);
      check_results(to, "with two threads", together, one);
    }
  });
  set_num_threads(before);
}

void check_meta(Complaints& to, const Variants& variants, const Arguments& args, const Case& one) {
  if (tensors_of(args).empty()) return;
  guarded(to, "on meta tensors", [&] {
    const Results results = call_plain(variants, on_meta(args));
    for (size_t i = 0; i < results.size() && i < one.truth.size(); ++i) {
      const auto* tensor = std::get_if<Tensor>(&results[i]);
      if (tensor == nullptr || one.truth[i].number) continue;
      if (!tensor->is_meta()) to.push_back("on meta tensors: the result is not on the meta device");
      complain(to, "on meta tensors", difference(*tensor, one.truth[i], false, false));
    }
  });
}

Complaints check_values(const Variants& variants, const Case& one) {
  Complaints to;
  const Arguments args = to_boxed(one, variants.plain());
  const bool changes_self = variants.function == nullptr;
  Results plain;
  guarded(to, "plainly", [&] {
    const Untouched inputs(args, changes_self);
    plain = call_plain(variants, args);
    check_results(to, "plainly", plain, one);
    complain(to, "plainly", inputs.words());
  });
  if (!to.empty()) return to;  // a wrong result makes the rest noise

  if (has(one, kAliasesSelf)) {
    const Tensor* self = first_tensor(args);
    for (const BoxedValue& result : plain)
      if (self != nullptr && !std::get<Tensor>(result).is_alias_of(*self))
        to.push_back("the result must be a view of its input");
  }
  if (has(one, kCheckLayouts) && any_not_contiguous(args))
    guarded(to, "with contiguous inputs",
            [&] { check_results(to, "with contiguous inputs", call_plain(variants, all_contiguous(args)), one); });
  if (has(one, kCheckInplace) && variants.inplace != nullptr && variants.function != nullptr)
    check_inplace(to, *variants.inplace, args, plain, one);
  if (has(one, kCheckOut) && variants.out != nullptr) {
    check_out(to, *variants.out, args, plain, one);
    const bool tensors_only = std::none_of(one.truth.begin(), one.truth.end(),
                                           [](const CaseTruth& truth) { return truth.number.has_value(); });
    if (tensors_only && !has(one, kUndefinedValues)) {
      if (has(one, kCheckLayouts)) check_out_of_broadcast(to, variants, args, one);
      check_out_over_inputs(to, *variants.out, args, one);
    }
  }
  if (!has(one, kUndefinedValues)) check_threads(to, variants, args, one);
  if (has(one, kCheckMeta)) check_meta(to, variants, args, one);
  if (has(one, kCheckMeta) && has(one, kCheckDevices)) check_devices(to, variants, args, one);
  return to;
}

// The call must fail as stated; whatever it was given must be as before.
void check_failure(Complaints& to, const std::string& what, const BoxedOp& op, const Arguments& args, const Case& one) {
  const Untouched inputs(args, false);
  try {
    call(op, args);
    to.push_back(what + ": must fail with " + one.error_type + ", but succeeded");
  } catch (const Error& error) {
    if (one.error_type != error.type_name())
      to.push_back(what + ": must fail with " + one.error_type + ", but failed with " + error.type_name() + ": " +
                   error.what());
    else if (std::string(error.what()).find(one.error_text) == std::string::npos)
      to.push_back(what + ": the text must contain \"" + one.error_text + "\", but is: " + error.what());
  } catch (const std::exception& error) {
    to.push_back(what + ": must fail with " + one.error_type + ", but failed with another exception: " + error.what());
  }
  complain(to, what, inputs.words());
}

Complaints check_error(const Variants& variants, const Case& one) {
  Complaints to;
  const Arguments args = to_boxed(one, variants.plain());
  check_failure(to, "plainly", variants.plain(), args, one);
  if (variants.inplace != nullptr && variants.function != nullptr)
    check_failure(to, "in place", *variants.inplace, args, one);
  // What depends on shapes and dtypes alone is refused without data as well.
  if (has(one, kCheckMeta) && (one.error_type == "ShapeError" || one.error_type == "DTypeError") &&
      !tensors_of(args).empty()) {
    try {
      call_plain(variants, on_meta(args));
      to.push_back("on meta tensors: must fail with " + one.error_type + ", but succeeded");
    } catch (const Error& error) {
      if (one.error_type != error.type_name())
        to.push_back("on meta tensors: must fail with " + one.error_type + ", but failed with " + error.type_name() +
                     ": " + error.what());
    }
  }
  return to;
}

}  // namespace

void check_results(std::vector<std::string>& to, const std::string& what, const Results& results, const Case& one) {
  if (results.size() != one.truth.size()) {
    to.push_back(what + ": there are " + std::to_string(results.size()) + " results, must be " +
                 std::to_string(one.truth.size()));
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const CaseTruth& truth = one.truth[i];
    const std::string label = results.size() == 1 ? what : what + ", result " + std::to_string(i);
    if (truth.number) {
      complain(to, label, number_difference(results[i], truth));
    } else if (const auto* tensor = std::get_if<Tensor>(&results[i])) {
      complain(to, label, difference(*tensor, truth, has(one, kSignedZero), !has(one, kUndefinedValues)));
    } else {
      to.push_back(label + ": the result is " + describe(results[i]) + ", not a tensor");
    }
  }
}

Variants find_variants(const std::string& op, const std::string& schema) {
  Variants found;
  for (const BoxedOp& entry : boxed_ops()) {
    if (op != entry.op || schema != entry.signature) continue;
    // An alias has the same op under another name; the first entry of a variant is the op itself.
    const BoxedOp*& place = entry.variant == BoxedVariant::Function  ? found.function
                            : entry.variant == BoxedVariant::Inplace ? found.inplace
                                                                     : found.out;
    if (place == nullptr) place = &entry;
  }
  if (found.function == nullptr && found.inplace == nullptr)
    throw std::runtime_error("the table of boxed calls has no " + op + schema +
                             "; generate it and draw the cases again");
  return found;
}

std::vector<std::string> check_case(const std::string& op, const Case& one, uint64_t seed) {
  const Variants variants = find_variants(op, one.schema);
  switch (one.kind) {
    case CaseKind::kValues: return check_values(variants, one);
    case CaseKind::kError: return check_error(variants, one);
    case CaseKind::kRandom: return check_random(variants, one, seed);
  }
  return {"unknown kind of case"};
}

}  // namespace facula::testing
