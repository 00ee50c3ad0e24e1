// The cases of attention: forward, and the gradients of all three inputs, at the sizes of peer.py.
#include "cases.h"

#include <facula/facula.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

using namespace facula;

namespace {

struct Problem {
  Tensor query, key, value;
  bool causal;
  double scale() const { return 1 / std::sqrt(static_cast<double>(query.size(3))); }
};

Problem drawn(int64_t batch, int64_t heads, int64_t length, int64_t width, bool causal) {
  const auto normal = [&] {
    return randn({batch, heads, length, width}, TensorOptions().device(Device("cuda:0"))).to(kBFloat16);
  };
  return {normal(), normal(), normal(), causal};
}

// The last head on the CPU in double precision.
Tensor last_head(const Tensor& t) { return t.select(0, -1).select(0, -1).cpu().to(kDouble); }

double relative_error(const Tensor& got, const Tensor& want) {
  const double off = (got.to(kDouble) - want).square().sum().sqrt().item<double>();
  return std::isfinite(off) ? off / std::max(want.square().sum().sqrt().item<double>(), 1e-300) : HUGE_VAL;
}

constexpr int64_t kSome = 8;  // queries, or keys, that are checked
Tensor some(const Tensor& rows) { return rows.narrow(0, rows.size(0) / 3, kSome); }

// Of some queries and all keys: -inf where a key is later than the query.
Tensor some_scores(const Problem& p, const Tensor& query, const Tensor& key) {
  const Tensor scores = some(query).matmul(key.t()) * p.scale();
  if (!p.causal) return scores;
  const Tensor keys = arange(key.size(0)), queries = some(arange(query.size(0)));
  return scores.masked_fill(keys.unsqueeze(0) > queries.unsqueeze(1), -INFINITY);
}

double forward_error(const Problem& p) {
  const Tensor got = scaled_dot_product_attention(p.query, p.key, p.value, std::nullopt, 0.0, p.causal);
  const Tensor shares = some_scores(p, last_head(p.query), last_head(p.key)).softmax(-1);
  return relative_error(some(last_head(got)), shares.matmul(last_head(p.value)));
}

struct Saved {
  Tensor output, sums, state, grad;
};
std::tuple<Tensor, Tensor, Tensor> gradients(const Problem& p, const Saved& s) {
  return _fused_attention_backward(s.grad, p.query, p.key, p.value, std::nullopt, s.output, s.sums, s.state, 0.0,
                                   p.causal, p.scale());
}

// The largest error of the three gradients, at some queries and at some keys.
double backward_error(const Problem& p, const Saved& s) {
  const auto [to_query, to_key, to_value] = gradients(p, s);
  const Tensor q = last_head(p.query), k = last_head(p.key), v = last_head(p.value), g = last_head(s.grad);
  const Tensor level = (g * last_head(s.output)).sum(-1, true);
  const Tensor rows = some_scores(p, q, k).softmax(-1);
  const Tensor row_slopes = rows * (some(g).matmul(v.t()) - some(level)) * p.scale();
  double worst = relative_error(some(last_head(to_query)), row_slopes.matmul(k));
  // A column of shares needs the sums of all rows, which the forward pass left.
  const Tensor sums = s.sums.select(0, -1).select(0, -1).cpu().to(kDouble).unsqueeze(1);
  Tensor columns = (q.matmul(some(k).t()) * p.scale() - sums).exp();
  if (p.causal) {
    const Tensor late = some(arange(k.size(0))).unsqueeze(0) > arange(q.size(0)).unsqueeze(1);
    columns = columns.masked_fill(late, 0);
  }
  const Tensor column_slopes = columns * (g.matmul(some(v).t()) - level) * p.scale();
  worst = std::max(worst, relative_error(some(last_head(to_key)), column_slopes.t().matmul(q)));
  return std::max(worst, relative_error(some(last_head(to_value)), columns.t().matmul(g)));
}

}  // namespace

std::vector<BenchCase> attention_cases() {
  std::vector<BenchCase> cases;
  const std::pair<int64_t, int64_t> kWidths[] = {{64, 32}, {128, 16}, {256, 8}},
                                    kSizes[] = {{1024, 16}, {4096, 4}, {16384, 1}};
  for (const auto& [width, heads] : kWidths)
    for (const auto& [full_length, full_batch] : kSizes)
      for (const bool causal : {false, true}) {
        const std::string name = "B" + std::to_string(full_batch) + "H" + std::to_string(heads) + "S" +
                                 std::to_string(full_length) + "D" + std::to_string(width) + (causal ? "c" : "");
        const int64_t length = tiny_cases ? full_length / 64 : full_length, batch = tiny_cases ? 1 : full_batch;
        const auto problem = [=, width = width, heads = heads] {
          return drawn(batch, tiny_cases ? 2 : heads, length, width, causal);
        };
        const double flops = 4.0 * static_cast<double>(full_batch * heads * width) *
                             std::pow(static_cast<double>(full_length), 2) * (causal ? 0.5 : 1);
        cases.push_back(
            {"sdpa_fwd_bf16_" + name, 0, flops, 1e-2, false, [=] {
               const Problem p = problem();
               return Prepared{
                   [=] { scaled_dot_product_attention(p.query, p.key, p.value, std::nullopt, 0.0, p.causal); },
                   [=] { return forward_error(p); }};
             }});
        cases.push_back({"sdpa_bwd_bf16_" + name, 0, flops * 2.5, 1.5e-2, false, [=] {
                           const Problem p = problem();
                           Saved s;
                           std::tie(s.output, s.sums, s.state) =
                               _fused_attention(p.query, p.key, p.value, std::nullopt, 0.0, p.causal, p.scale());
                           s.grad = randn(s.output.sizes(), TensorOptions().device(Device("cuda:0"))).to(kBFloat16);
                           return Prepared{[=] { gradients(p, s); }, [=] { return backward_error(p, s); }};
                         }});
      }
  return cases;
}
