// That ops with a rule take a batch in a fixed number of calls, however many entries it has.
#include <facula/facula.h>

#include "core/call_hooks.h"
#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace facula {
namespace {

using facula_test::draw;

class Counter : detail::CallWatcher {
 public:
  void on_call(OpId op, const detail::OpAttrs*) override { ++calls_[std::string(op_name(op))]; }
  const std::map<std::string, int>& calls() const { return calls_; }

 private:
  std::map<std::string, int> calls_;
};

using Function = std::function<Tensor(const Tensor&)>;

std::map<std::string, int> calls_for(const Function& f, const std::vector<int64_t>& entry, int64_t batch) {
  std::vector<int64_t> sizes = entry;
  sizes.insert(sizes.begin(), batch);
  const Tensor xs = draw(sizes, 0.2, 0.9);
  const Counter counter;
  func::vmap(f)(xs);
  return counter.calls();
}

struct Rule {
  const char* name;
  Function f;
  std::vector<int64_t> entry = {3, 4};
};

TEST(VmapRules, TakeWholeBatches) {
  const Tensor rows = tensor({2, 0, 1}), places = rows.unsqueeze(1), mask = draw({3, 4}) > 0;
  const Tensor m = draw({4, 4}), v = draw({4}), b = draw({3, 4});
  const Tensor target = tensor({1, 0, 3});
  const std::vector<Rule> rules = {
      {"sum", [](const Tensor& t) { return t.sum(); }},
      {"mean", [](const Tensor& t) { return t.mean(); }},
      {"prod", [](const Tensor& t) { return t.prod(); }},
      {"max", [](const Tensor& t) { return t.max(); }},
      {"min", [](const Tensor& t) { return t.min(); }},
      {"var", [](const Tensor& t) { return t.var(); }},
      {"var biased", [](const Tensor& t) { return t.var(false); }},
      {"std", [](const Tensor& t) { return t.std(); }},
      {"norm", [](const Tensor& t) { return t.norm(); }},
      {"any", [](const Tensor& t) { return t.any(); }},
      {"all", [](const Tensor& t) { return t.all(); }},
      {"sum of numbers", [](const Tensor& t) { return t.sum() + t.mean() + t.amax() + t.norm(); }, {}},
      {"argmax", [](const Tensor& t) { return t.argmax() + t.argmin(1, true); }},
      {"aminmax", [](const Tensor& t) { return std::get<0>(aminmax(t)); }},
      {"count_nonzero", [](const Tensor& t) { return t.count_nonzero(); }},
      {"nanmean", [](const Tensor& t) { return t.nanmean(1); }},
      {"to", [](const Tensor& t) { return t.to(kFloat); }},
      {"new_zeros", [](const Tensor& t) { return t.new_zeros({2}); }},
      {"cat",
       [&](const Tensor& t) {
         return cat({t, b}, 1);
       }},
      {"stack",
       [&](const Tensor& t) {
         return stack({t, b}, -1);
       }},
      {"gather", [&](const Tensor& t) { return t.gather(0, places); }},
      {"scatter", [&](const Tensor& t) { return t.scatter(0, places, b) + t.scatter_add(0, places, t); }},
      {"index_select", [&](const Tensor& t) { return t.index_select(0, rows); }},
      {"index_add", [&](const Tensor& t) { return t.index_add(0, rows, b) + t.index_copy(0, rows, b); }},
      {"index",
       [&](const Tensor& t) {
         return t.index({rows, indexing::Slice(1)});
       }},
      {"index at a batch", [&](const Tensor& t) { return m.index({(t * 3).to(kLong)}); }},
      {"index_put", [&](const Tensor& t) { return t.clone().index_put_({rows}, v); }},
      {"masks", [&](const Tensor& t) { return t.masked_fill(mask, t.sum()); }},
      {"take", [&](const Tensor& t) { return t.take(rows); }},
      {"embedding", [&](const Tensor& t) { return embedding(m, (t * 3).to(kLong)); }},
      {"matmul", [&](const Tensor& t) { return t.matmul(m) + t.matmul(v).unsqueeze(1) + b.matmul(t.t().matmul(t)); }},
      {"mv", [&](const Tensor& t) { return m.mv(t[0]) + t.mv(v).sum() + t[0].matmul(m) + t[0].dot(v); }},
      {"addmm", [&](const Tensor& t) { return addmm(b, t, m) + addmv(t.select(1, 0), t, v).unsqueeze(1); }},
      {"_addmm_activation",
       [&](const Tensor& t) { return _addmm_activation(v, t, m) + _addmm_activation(t, b, m, 1, 1, true); }},
      {"linear", [&](const Tensor& t) { return linear(b, t, t.select(1, 0)); }},
      {"layer_norm", [&](const Tensor& t) { return layer_norm(b, {4}, t[0], t[1]) + rms_norm(t, {4}, t[2]); }},
      {"losses", [&](const Tensor& t) { return mse_loss(t, b) + l1_loss(t, b) + huber_loss(t, b, Reduction::Sum); }},
      {"cross entropy", [&](const Tensor& t) { return nll_loss(t.log_softmax(1), target); }},
      {"distances", [&](const Tensor& t) { return cosine_similarity(t, b, 1) + pairwise_distance(t, b); }},
      {"cdist", [&](const Tensor& t) { return cdist(t, m); }},
      {"pad",
       [](const Tensor& t) {
         return constant_pad_nd(t, {1, 1}) + pad(t, {2, 0});
       }},
      {"roll", [](const Tensor& t) { return t.roll(1, 0) + t.roll(2); }},
      {"repeat",
       [](const Tensor& t) {
         return t.repeat({2, 1, 2});
       }},
      {"repeat_interleave", [](const Tensor& t) { return t.repeat_interleave(2, 1) + t.repeat_interleave(2)[0]; }},
      {"diag_embed", [](const Tensor& t) { return diag_embed(t); }},
      {"in place", [&](const Tensor& t) { return t.clone().cumsum_(1).tril_().index_add_(0, rows, b).addmm_(b, m); }},
      {"maximum", [&](const Tensor& t) { return max(t, b); }},
      {"einsum",
       [&](const Tensor& t) {
         return einsum("ij,kj->ik", {t, m});
       }},
      {"searchsorted", [&](const Tensor& t) { return searchsorted(v, t); }},
  };
  for (const Rule& rule : rules) {
    SCOPED_TRACE(rule.name);
    EXPECT_EQ(calls_for(rule.f, rule.entry, 2), calls_for(rule.f, rule.entry, 7));
  }
}

}  // namespace
}  // namespace facula
