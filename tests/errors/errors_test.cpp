// What users read when they make a mistake. Each case must throw; its type and text are compared with golden.txt
// (FACULA_UPDATE_GOLDEN=1 writes that file anew: read the diff aloud before committing it), and every tensor that the case
// touched must be as it was.
#include <facula/facula.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

namespace {

using namespace facula;
using namespace facula::indexing;

// Tensors that a case may use; compared bit by bit afterwards.
struct Scene {
  Tensor a = arange(6, kFloat).reshape({2, 3});
  Tensor b = arange(12, kFloat).reshape({4, 3});
  Tensor ints = arange(1, 7).reshape({2, 3});
  Tensor halves = arange(6, kFloat).to(kHalf);
  Tensor unsigneds = arange(6).to(kUInt32);
  Tensor floats8 = arange(6, kFloat).to(kFloat8_e4m3fn);
  Tensor flags = arange(6).reshape({2, 3}).gt(2);
  Tensor complexes = arange(6, kFloat).to(kComplexFloat);
  Tensor meta = empty({2, 3}, kMeta);
  Tensor line = arange(10, kFloat);
  Tensor undefined;

  Tensor leaf() const { return a.clone().requires_grad_(); }
  std::vector<const Tensor*> all() const {
    return {&a, &b, &ints, &halves, &unsigneds, &floats8, &flags, &complexes, &line};
  }
};

struct Case {
  const char* name;
  std::function<void(Scene&)> run;
};

struct Forgetful : autograd::Function<Forgetful> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x, const Tensor& y) { return x + y; }
  static autograd::tensor_list backward(autograd::AutogradContext*, autograd::tensor_list grads) { return {grads[0]}; }
};
struct Misshapen : autograd::Function<Misshapen> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static autograd::tensor_list backward(autograd::AutogradContext*, autograd::tensor_list grads) {
    return {grads[0].select(0, 0).narrow(0, 0, 2)};
  }
};

const double kNaN = std::numeric_limits<double>::quiet_NaN();

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"shapes do not broadcast", [](Scene& s) { s.a + s.b; }},
      {"in place cannot broadcast self", [](Scene& s) { s.line.narrow(0, 0, 3).add_(s.a); }},
      {"in place cannot change the dtype", [](Scene& s) { s.ints.add_(0.5); }},
      {"out of another kind", [](Scene& s) { add_out(s.ints, s.a, s.a); }},
      {"dtypes that cannot be promoted", [](Scene& s) { s.unsigneds + s.unsigneds.to(kLong); }},
      {"float8 with another float", [](Scene& s) { s.floats8 + s.halves; }},
      {"subtraction of bools", [](Scene& s) { s.flags - s.flags; }},
      {"bitwise on floats", [](Scene& s) { s.a& s.a; }},
      {"order of complex numbers", [](Scene& s) { s.complexes < s.complexes; }},
      {"integer division by zero", [](Scene& s) { floor_divide(s.ints, s.ints - s.ints); }},
      {"integer to a negative power", [](Scene& s) { s.ints.pow(-1); }},
      {"bad rounding mode", [](Scene& s) { div(s.a, s.a, "up"); }},
      {"undefined operand", [](Scene& s) { s.a + s.undefined; }},
      {"undefined tensor has no size", [](Scene& s) { s.undefined.sizes(); }},
      {"dim out of range", [](Scene& s) { s.a.sum(2); }},
      {"dim repeated",
       [](Scene& s) {
         s.a.sum({0, -2});
       }},
      {"index out of range", [](Scene& s) { s.a[2]; }},
      {"select out of range", [](Scene& s) { s.a.select(1, -4); }},
      {"index where there is nothing", [](Scene& s) { s.a.narrow(0, 0, 0)[0]; }},
      {"index of a number", [](Scene& s) { s.line[0][0]; }},
      {"too many indices",
       [](Scene& s) {
         s.a.index({0, 0, 0});
       }},
      {"index tensor out of range",
       [](Scene& s) {
         s.line.index({tensor({1, 10})});
       }},
      {"index_put_ out of range",
       [](Scene& s) {
         s.line.index_put_({tensor({1, -11})}, 0.0);
       }},
      {"index_put_ of values that do not fit",
       [](Scene& s) {
         s.a.index_put_({tensor({0, 1})}, s.line);
       }},
      {"index_put_ of values with more dimensions",
       [](Scene& s) {
         s.a.index_put_({tensor({0, 1})}, ones({2, 2, 3}));
       }},
      {"take out of range",
       [](Scene& s) {
         s.a.take(tensor({0, 6}));
       }},
      {"float index tensor", [](Scene& s) { s.line.index({s.line}); }},
      {"slice with step 0", [](Scene& s) { s.line.index({Slice(None, None, 0)}); }},
      {"mask of another shape",
       [](Scene& s) {
         s.a.index({s.flags.index({Slice(), Slice(0, 2)})});
       }},
      {"gather out of range",
       [](Scene& s) {
         s.a.gather(1, tensor({{0, 3}}));
       }},
      {"scatter out of range",
       [](Scene& s) {
         s.a.scatter_(1, tensor({{0, 5}}), 1.0);
       }},
      {"negative size",
       [](Scene&) {
         empty({2, -3});
       }},
      {"sizes overflow",
       [](Scene&) {
         empty({int64_t{1} << 40, int64_t{1} << 40});
       }},
      {"sizes from a NaN",
       [](Scene&) {
         zeros({INT64_MIN, 2}); /* what x86 makes of a NaN */
       }},
      {"arange to NaN", [](Scene&) { arange(0.0, kNaN, 1.0); }},
      {"arange step 0", [](Scene&) { arange(0, 5, 0); }},
      {"arange away from its end", [](Scene&) { arange(0, 5, -1); }},
      {"out overlaps an input in part",
       [](Scene& s) {
         Tensor target = s.line.narrow(0, 1, 9);
         add_out(target, s.line.narrow(0, 0, 9), s.line.narrow(0, 0, 9));
       }},
      {"write into an expanded tensor", [](Scene& s) { s.line.narrow(0, 0, 1).expand({5}).add_(1); }},
      {"as_strided beyond the storage",
       [](Scene& s) {
         s.line.as_strided({4, 4}, {3, 1});
       }},
      {"as_strided beyond 64 bits",
       [](Scene& s) {
         s.line.as_strided({2}, {INT64_MAX});
       }},
      {"as_strided with a negative offset", [](Scene& s) { s.line.as_strided({2}, {1}, -1); }},
      {"view of strides that do not allow it", [](Scene& s) { s.a.t().view({6}); }},
      {"view of another count",
       [](Scene& s) {
         s.a.view({4, 2});
       }},
      {"view of a size that does not divide",
       [](Scene& s) {
         s.a.view({4, -1});
       }},
      {"view of nothing with a size to infer",
       [](Scene& s) {
         s.a.narrow(0, 0, 0).view({0, -1});
       }},
      {"view that would lose all elements",
       [](Scene& s) {
         s.a.view({0, -1});
       }},
      {"two sizes to infer",
       [](Scene& s) {
         s.a.view({-1, -1});
       }},
      {"expand of a size",
       [](Scene& s) {
         s.a.expand({2, 4});
       }},
      {"expand to a negative size",
       [](Scene& s) {
         s.a.expand({-2, 3});
       }},
      {"resize_ of foreign memory",
       [](Scene&) {
         static float memory[4] = {1, 2, 3, 4};
         from_blob(memory, {4}).resize_({8});
       }},
      {"out that would move memory which is lent",
       [](Scene& s) {
         const Tensor reader = fromDLPack(toDLPack(s.line));
         add_out(s.line, ones({40}), ones({40}));
       }},
      {"padding that overflows",
       [](Scene& s) {
         pad(s.line, {int64_t{1} << 62, int64_t{1} << 62});
       }},
      {"an out tensor that begins one element after the input",
       [](Scene& s) {
         Tensor out = s.line.narrow(0, 1, 4);
         cumsum_out(out, s.line.narrow(0, 0, 4), 0);
       }},
      {"an out tensor that is a part of one of several inputs",
       [](Scene& s) {
         Tensor out = s.line.narrow(0, 0, 8);
         cat_out(out, {s.line.narrow(0, 4, 4), s.line.narrow(0, 0, 4)});
       }},
      {"a number that does not fit", [](Scene& s) { s.line.to(kByte).clamp_max(300); }},
      {"two results into one memory",
       [](Scene& s) {
         Tensor values = s.line.narrow(0, 0, 2), indices = s.line.narrow(0, 1, 2);
         max_out(values, indices, s.a, 1);
       }},
      {"two results into one memory that would have to move",
       [](Scene& s) {
         Tensor values = s.line.narrow(0, 0, 3), indices = s.line.narrow(0, 3, 3);
         max_out(values, indices, s.a, 1);
       }},
      {"the second of two results cannot grow",
       [](Scene& s) {
         static int64_t memory[1] = {7};
         Tensor values = s.line.narrow(0, 0, 0).clone(), indices = from_blob(memory, {1}, TensorOptions(kLong));
         try {
           max_out(values, indices, s.a, 1);
         } catch (const Error&) {
           EXPECT_EQ(values.numel(), 0);
           EXPECT_EQ(indices.numel(), 1);
           throw;
         }
       }},
      {"a number that a meta tensor does not have",
       [](Scene& s) { s.a.fill_(empty({}, TensorOptions().device(kMeta))); }},
      {"mixing devices", [](Scene& s) { s.a + s.meta; }},
      {"an index of another device",
       [](Scene& s) { s.a.index_select(0, empty({1}, TensorOptions().dtype(kLong).device(kMeta))); }},
      {"one of two results on another device",
       [](Scene& s) {
         Tensor values = s.line.narrow(0, 0, 2), indices = empty({2}, TensorOptions().dtype(kLong).device(kMeta));
         max_out(values, indices, s.a, 1);
       }},
      {"device that is not there", [](Scene&) { empty({2}, kCUDA); }},
      {"device name", [](Scene&) { Device("gpu:0"); }},
      {"value of a meta tensor", [](Scene& s) { s.meta.sum().item(); }},
      {"item of nothing", [](Scene& s) { s.a.narrow(0, 0, 0).item(); }},
      {"item of several elements", [](Scene& s) { s.a.item(); }},
      {"data_ptr of another type", [](Scene& s) { s.a.data_ptr<double>(); }},
      {"matmul of shapes that do not fit", [](Scene& s) { s.a.matmul(s.b); }},
      {"matmul of dtypes that differ", [](Scene& s) { s.a.matmul(s.a.t().to(kDouble)); }},
      {"einsum subscripts",
       [](Scene& s) {
         einsum("ij,jk->iq", {s.a, s.a});
       }},
      {"cat of shapes that do not fit",
       [](Scene& s) {
         cat({s.a, s.b}, 1);
       }},
      {"cat of another number of dims",
       [](Scene& s) {
         cat({s.a, s.line}, 0);
       }},
      {"cat of nothing", [](Scene&) { cat(TensorList{}); }},
      {"stack of shapes that differ",
       [](Scene& s) {
         stack({s.a, s.b});
       }},
      {"split into sizes that do not add up",
       [](Scene& s) {
         s.line.split_with_sizes({3, 3});
       }},
      {"label that is no class",
       [](Scene& s) {
         cross_entropy_loss(s.a, tensor({0, 3}));
       }},
      {"max of an empty dim",
       [](Scene&) {
         empty({0, 3}).max(0);
       }},
      {"mean of integers", [](Scene& s) { s.ints.mean(); }},
      {"topk of too many", [](Scene& s) { s.line.topk(11); }},
      {"layer_norm over another shape", [](Scene& s) { layer_norm(s.a, {4}); }},
      {"probability out of range", [](Scene& s) { s.a.bernoulli_(1.5); }},
      {"uniform_ upside down", [](Scene& s) { s.a.uniform_(2, 1); }},
      {"randint of an empty range", [](Scene&) { randint(5, 5, {2}); }},
      {"multinomial of negative weights", [](Scene& s) { multinomial(s.line - 5, 2); }},
      {"generator state of another size", [](Scene& s) { make_generator(1).set_state(s.line); }},
      {"default dtype of integers", [](Scene&) { set_default_dtype(kLong); }},
      {"no threads", [](Scene&) { set_num_threads(0); }},
      {"scalar that does not fit", [](Scene&) { Scalar(1e30).toLong(); }},
      {"fused op of unknown name",
       [](Scene&) {
         Fused f;
         f.apply("frobnicate", {f.input(kFloat)});
       }},
      {"memory that cannot be had", [](Scene&) { empty({int64_t{1} << 50}, kByte); }},

      // Gradients. `s.leaf()` is a copy of `a` that requires one.
      {"gradient of integers", [](Scene& s) { s.ints.requires_grad_(); }},
      {"backward of many elements", [](Scene& s) { s.leaf().exp().backward(); }},
      {"backward of a complex number", [](Scene& s) { (s.leaf() * s.complexes[1]).sum().backward(); }},
      {"backward without history", [](Scene& s) { s.a.sum().backward(); }},
      {"backward with a gradient of another shape", [](Scene& s) { s.leaf().exp().backward(s.b); }},
      {"backward with a gradient of another kind", [](Scene& s) { s.leaf().exp().backward(s.ints); }},
      {"backward through a freed graph",
       [](Scene& s) {
         const Tensor loss = s.leaf().exp().sum();
         loss.backward();
         loss.backward();
       }},
      {"a saved result was written to",
       [](Scene& s) {
         const Tensor y = s.leaf().exp();
         y.add_(1);
         y.sum().backward();
       }},
      {"a saved argument was written to",
       [](Scene& s) {
         const Tensor x = s.leaf(), factor = s.a.clone();
         const Tensor y = (x * factor).sum();
         factor[0].zero_();
         y.backward();
       }},
      {"a leaf is written to", [](Scene& s) { s.leaf().add_(1); }},
      {"a view of a leaf is written to", [](Scene& s) { s.leaf()[0].zero_(); }},
      {"a view from no_grad is written to",
       [](Scene& s) {
         const Tensor y = s.leaf() * 2;
         Tensor view;
         {
           const NoGradGuard quiet;
           view = y[0];
         }
         view.mul_(s.leaf()[0]);
       }},
      {"out of a recorded tensor", [](Scene& s) { exp_out(s.line, s.leaf()); }},
      {"requires_grad of a result is switched off", [](Scene& s) { (s.leaf() * 2).requires_grad_(false); }},
      {"a view is detached in place", [](Scene& s) { (s.leaf() * 2)[0].detach_(); }},
      {"grad by an unused tensor", [](Scene& s) { autograd::grad({s.leaf().sum()}, {s.leaf()}); }},
      {"grad by a plain tensor", [](Scene& s) { autograd::grad({s.leaf().sum()}, {s.a}); }},
      {"grad by nothing", [](Scene& s) { autograd::grad({s.leaf().sum()}, {}); }},
      {"too many gradients of outputs",
       [](Scene& s) {
         autograd::grad({s.leaf().sum()}, {s.leaf()}, {s.a, s.a});
       }},
      {"retain_grad of a plain tensor", [](Scene& s) { s.a.retain_grad(); }},
      {"assigned gradient of another shape", [](Scene& s) { s.leaf().set_grad(s.b); }},
      {"a hook on a plain tensor", [](Scene& s) { s.a.register_hook([](const Tensor&) {}); }},
      {"a hook after accumulation on a result",
       [](Scene& s) { (s.leaf() * 2).register_post_accumulate_grad_hook([](const Tensor&) {}); }},
      {"a hook is removed twice",
       [](Scene& s) {
         const Tensor x = s.leaf();
         autograd::HookHandle hook = x.register_hook([](const Tensor&) {});
         hook.remove();
         hook.remove();
       }},
      {"a hook gives a gradient of another shape",
       [](Scene& s) {
         const Tensor y = s.leaf() * 2;
         y.register_hook([&](const Tensor&) { return s.b; });
         y.sum().backward();
       }},
      {"a custom function gives too few gradients",
       [](Scene& s) { Forgetful::apply(s.leaf(), s.leaf()).sum().backward(); }},
      {"a custom function gives a gradient of another shape",
       [](Scene& s) { Misshapen::apply(s.leaf()).sum().backward(); }},
      {"an inference tensor is saved",
       [](Scene& s) {
         Tensor made;
         {
           const InferenceMode inference;
           made = s.a * 2;
         }
         s.leaf() * made;
       }},
      {"an inference tensor is written to",
       [](Scene& s) {
         Tensor made;
         {
           const InferenceMode inference;
           made = s.a * 2;
         }
         made.add_(1);
       }},
      {"checkpoint of a function that changes",
       [](Scene& s) {
         int runs = 0;
         autograd::checkpoint([&](const Tensor& t) { return runs++ == 0 ? t.exp() : t.exp().exp(); }, s.leaf())
             .sum()
             .backward();
       }},
      {"offload to a folder that is not there",
       [](Scene& s) {
         const autograd::OffloadToDisk hooks("/nowhere/at/all", 1);
         s.leaf().exp();
       }},
      {"tangent of another shape", [](Scene& s) { func::jvp([](const Tensor& t) { return t; }, {s.a}, {s.b}); }},
      {"tangents are missing", [](Scene& s) { func::jvp([](const Tensor& t) { return t; }, {s.a}, {}); }},
      {"func::grad of many results", [](Scene& s) { func::grad([](const Tensor& t) { return t * 2; })(s.a); }},
      {"vmap over different sizes",
       [](Scene& s) { func::vmap([](const Tensor& x, const Tensor& y) { return x + y; })(s.a, s.b); }},
      {"vmap over nothing", [](Scene& s) { func::vmap([](const Tensor& x) { return x; }, {std::nullopt})(s.a); }},
      {"vmap reads a number", [](Scene& s) { func::vmap([](const Tensor& x) { return x * x.sum().item(); })(s.a); }},
      {"vmap writes to what is shared",
       [](Scene& s) { func::vmap([&](const Tensor& x) { return s.line.narrow(0, 0, 3).add_(x); })(s.a); }},
      {"vmap gives results of different sizes",
       [](Scene& s) { func::vmap([](const Tensor& x) { return x.masked_select(x > 1); })(s.a); }},
  };
  return all;
}

std::string golden_path() {
  const char* root = std::getenv("FACULA_SOURCE_DIR");
  return std::string(root ? root : ".") + "/tests/errors/golden.txt";
}

// "name" lines start with '#', the text follows on one line.
std::map<std::string, std::string> read_golden() {
  std::ifstream in(golden_path());
  std::map<std::string, std::string> golden;
  std::string line, name;
  while (std::getline(in, line)) {
    if (line.rfind("# ", 0) == 0) name = line.substr(2);
    else if (!line.empty()) golden[name] = line;
  }
  return golden;
}

// Numbers of bytes in use differ from run to run.
std::string without_memory_figures(std::string text) {
  auto from = text.find("; ");
  if (text.rfind("OutOfMemoryError", 0) == 0 && from != std::string::npos) {
    auto to = text.find(". Free tensors");
    if (to != std::string::npos) text.replace(from, to - from, "; (memory in use)");
  }
  return text;
}

std::string outcome(const Case& c, Scene& scene) {
  try {
    c.run(scene);
  } catch (const Error& e) {
    return without_memory_figures(std::string(e.type_name()) + ": " + e.what());
  } catch (const std::exception& e) {
    return std::string("NOT A FACULA ERROR: ") + e.what();
  }
  return "NO ERROR";
}

TEST(Errors, TextsAreTheGoldenOnes) {
  auto golden = read_golden();
  bool update = std::getenv("FACULA_UPDATE_GOLDEN") != nullptr;
  std::ostringstream fresh;
  for (const Case& c : cases()) {
    Scene scene;
    std::string text = outcome(c, scene);
    fresh << "# " << c.name << "\n" << text << "\n";
    EXPECT_EQ(text.find("NO ERROR"), std::string::npos) << c.name;
    EXPECT_EQ(text.find("NOT A FACULA"), std::string::npos) << c.name << ": " << text;
    EXPECT_EQ(text.find("InternalError"), std::string::npos) << c.name << ": " << text;
    if (!update) {
      EXPECT_EQ(text, golden[c.name]) << c.name;
    }
  }
  if (update) {
    std::ofstream(golden_path()) << fresh.str();
  } else {
    EXPECT_EQ(golden.size(), cases().size()) << "golden.txt has cases that no longer exist";
  }
}

TEST(Errors, LeaveEveryTensorAsItWas) {
  for (const Case& c : cases()) {
    Scene scene, untouched;
    outcome(c, scene);
    auto after = scene.all(), before = untouched.all();
    for (size_t i = 0; i < after.size(); ++i) {
      ASSERT_TRUE(after[i]->sizes() == before[i]->sizes()) << c.name;
      EXPECT_EQ(0, std::memcmp(after[i]->data_ptr(), before[i]->data_ptr(), before[i]->nbytes())) << c.name;
    }
  }
}

TEST(Errors, ProcessGoesOnAfterOutOfMemory) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(empty({int64_t{1} << 52}, kFloat), OutOfMemoryError);
    EXPECT_EQ(ones({1000}).sum().item<double>(), 1000.0);
  }
}

TEST(Errors, AViewOutlivesItsBaseAndItsGrowth) {
  Tensor view;
  {
    Tensor base = arange(8, kFloat);
    view = base.narrow(0, 2, 3);
    base.resize_({100000});  // moves the storage
  }
  EXPECT_TRUE(view.equal(tensor({2.0f, 3.0f, 4.0f})));
}

}  // namespace
