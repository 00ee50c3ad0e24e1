// einsum: the letters of each operand become a common set of dims; operands are contracted two at a time as batched
// matrix products.
#include "ops/common.h"

#include <map>

namespace facula::meaning {
namespace {

constexpr int kLetters = 52;

int letter_index(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}

// One operand: which subscript each dim carries. Subscripts are letters first, then the dims of the ellipsis.
struct Term {
  Tensor tensor;
  std::vector<int> subscripts;
};

struct Parsed {
  std::vector<std::vector<int>> inputs;  // -1 stands for the ellipsis
  std::vector<int> output;
  bool has_output = false;
};

std::vector<int> parse_term(std::string_view text, std::string_view equation) {
  std::vector<int> out;
  bool ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '.') {
      FACULA_CHECK(text.substr(i, 3) == "..." && !ellipsis, ValueError, "einsum: found '.' in '", equation,
                   "' that is not part of one ellipsis ...");
      ellipsis = true;
      out.push_back(-1);
      i += 2;
      continue;
    }
    int letter = letter_index(text[i]);
    FACULA_CHECK(letter >= 0, ValueError, "einsum: invalid subscript '", text[i], "' in '", equation,
                 "', subscripts must be in [a-zA-Z]");
    out.push_back(letter);
  }
  return out;
}

Parsed parse(std::string_view equation) {
  Parsed p;
  auto arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  for (size_t start = 0;;) {
    size_t comma = left.find(',', start);
    p.inputs.push_back(
        parse_term(left.substr(start, comma == std::string_view::npos ? comma : comma - start), equation));
    if (comma == std::string_view::npos) break;
    start = comma + 1;
  }
  if (arrow != std::string_view::npos) {
    p.has_output = true;
    p.output = parse_term(equation.substr(arrow + 2), equation);
  }
  return p;
}

// Sums and permutes a term so that its dims are exactly `wanted`, in that order (absent ones have size 1).
Tensor aligned(const Term& term, const std::vector<int>& wanted) {
  DimVector order;
  std::vector<int> present;
  for (int s : wanted)
    for (size_t d = 0; d < term.subscripts.size(); ++d)
      if (term.subscripts[d] == s) {
        order.push_back(static_cast<int64_t>(d));
        present.push_back(s);
      }
  Tensor t = term.tensor.permute(order);
  for (size_t k = 0; k < wanted.size(); ++k)
    if (k >= present.size() || present[k] != wanted[k]) {
      t = t.unsqueeze(static_cast<int64_t>(k));
      present.insert(present.begin() + static_cast<std::ptrdiff_t>(k), wanted[k]);
    }
  return t;
}

bool has(const std::vector<int>& list, int s) { return std::find(list.begin(), list.end(), s) != list.end(); }

// Removes subscripts that nobody needs any more by summing over them.
void sum_unneeded(Term& term, const std::vector<int>& needed) {
  DimVector dims;
  std::vector<int> kept;
  for (size_t d = 0; d < term.subscripts.size(); ++d) {
    if (has(needed, term.subscripts[d])) kept.push_back(term.subscripts[d]);
    else dims.push_back(static_cast<int64_t>(d));
  }
  if (dims.empty()) return;
  term.tensor = term.tensor.sum(OptionalIntArrayRef(IntArrayRef(dims)), false, term.tensor.scalar_type());
  term.subscripts = kept;
}

// Contracts two terms; `needed` are the subscripts that later terms or the output use.
Term contract(Term a, Term b, const std::vector<int>& needed) {
  std::vector<int> for_a = needed, for_b = needed;
  for_a.insert(for_a.end(), b.subscripts.begin(), b.subscripts.end());
  for_b.insert(for_b.end(), a.subscripts.begin(), a.subscripts.end());
  sum_unneeded(a, for_a);
  sum_unneeded(b, for_b);
  std::vector<int> batch, left, right, inner;
  auto size_in = [](const Term& t, int s) {
    for (size_t d = 0; d < t.subscripts.size(); ++d)
      if (t.subscripts[d] == s) return t.tensor.size(static_cast<int64_t>(d));
    return int64_t{1};
  };
  for (int s : a.subscripts) {
    if (!has(b.subscripts, s)) left.push_back(s);
    else if (has(needed, s)) batch.push_back(s);
    else inner.push_back(s);
  }
  for (int s : b.subscripts)
    if (!has(a.subscripts, s)) right.push_back(s);
  auto joined = [](std::initializer_list<const std::vector<int>*> parts) {
    std::vector<int> out;
    for (auto* p : parts) out.insert(out.end(), p->begin(), p->end());
    return out;
  };
  // Sizes of 1 stretch along shared subscripts: expand to the joint size first.
  auto joint = [&](int s) { return size_in(a, s) == 1 ? size_in(b, s) : size_in(a, s); };
  auto prepare = [&](const Term& t, const std::vector<int>& order) {
    Tensor x = aligned(t, order);
    DimVector sizes;
    for (int s : order) sizes.push_back(joint(s));
    return x.expand(sizes);
  };
  auto count = [&](const std::vector<int>& list) {
    int64_t n = 1;
    for (int s : list) n *= joint(s);
    return n;
  };
  Tensor x = prepare(a, joined({&batch, &left, &inner})).reshape({count(batch), count(left), count(inner)});
  Tensor y = prepare(b, joined({&batch, &inner, &right})).reshape({count(batch), count(inner), count(right)});
  std::vector<int> result = joined({&batch, &left, &right});
  DimVector sizes;
  for (int s : result) sizes.push_back(joint(s));
  return {facula::bmm(x, y).reshape(sizes), result};
}

}  // namespace

Tensor einsum(std::string_view equation, TensorList tensors, OptionalIntArrayRef path) {
  FACULA_CHECK(!tensors.empty(), ValueError, "einsum: must provide at least one operand");
  Parsed parsed = parse(equation);
  FACULA_CHECK(parsed.inputs.size() == tensors.size(), ValueError, "einsum: '", equation, "' names ",
               parsed.inputs.size(), " operands, but ", tensors.size(), " were given");

  // How many dims the ellipsis stands for: the most that any operand has left.
  int64_t ellipsis_rank = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto letters = static_cast<int64_t>(
        std::count_if(parsed.inputs[i].begin(), parsed.inputs[i].end(), [](int s) { return s >= 0; }));
    bool has_ellipsis = has(parsed.inputs[i], -1);
    FACULA_CHECK(has_ellipsis ? letters <= tensors[i].dim() : letters == tensors[i].dim(), ShapeError,
                 "einsum: the number of subscripts in the equation (", letters,
                 ") does not match the number of dimensions (", tensors[i].dim(), ") for operand ", i,
                 has_ellipsis ? "" : " and no ellipsis was given");
    if (has_ellipsis) ellipsis_rank = std::max(ellipsis_rank, tensors[i].dim() - letters);
  }

  std::map<int, int64_t> sizes;
  std::vector<int> counts(static_cast<size_t>(kLetters), 0);
  std::vector<Term> terms;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Term term{tensors[i], {}};
    auto letters = static_cast<int64_t>(
        std::count_if(parsed.inputs[i].begin(), parsed.inputs[i].end(), [](int s) { return s >= 0; }));
    int64_t covered = tensors[i].dim() - letters;
    for (int s : parsed.inputs[i]) {
      if (s >= 0) {
        term.subscripts.push_back(s);
        ++counts[static_cast<size_t>(s)];
      } else {
        for (int64_t k = 0; k < covered; ++k)
          term.subscripts.push_back(kLetters + static_cast<int>(ellipsis_rank - covered + k));
      }
    }
    // A letter that stands twice takes the diagonal.
    for (size_t d = 0; d < term.subscripts.size(); ++d)
      for (size_t e = d + 1; e < term.subscripts.size();) {
        if (term.subscripts[d] != term.subscripts[e]) {
          ++e;
          continue;
        }
        auto x = static_cast<int64_t>(d), y = static_cast<int64_t>(e);
        FACULA_CHECK(term.tensor.size(x) == term.tensor.size(y), ShapeError,
                     "einsum: a subscript is repeated for operand ", i, " but the sizes don't match, ",
                     term.tensor.size(y), " != ", term.tensor.size(x));
        term.tensor = term.tensor.diagonal(0, x, y).movedim(-1, x);
        term.subscripts.erase(term.subscripts.begin() + static_cast<std::ptrdiff_t>(e));
      }
    for (size_t d = 0; d < term.subscripts.size(); ++d) {
      int64_t n = term.tensor.size(static_cast<int64_t>(d));
      auto [at, fresh] = sizes.emplace(term.subscripts[d], n);
      FACULA_CHECK(fresh || at->second == n || at->second == 1 || n == 1, ShapeError, "einsum: operand ", i,
                   " has size ", n, " for a subscript of '", equation, "' that has size ", at->second,
                   " elsewhere; sizes must be equal or 1");
      if (at->second == 1) at->second = n;
    }
    terms.push_back(std::move(term));
  }

  std::vector<int> output;
  auto add_ellipsis = [&] {
    for (int64_t k = 0; k < ellipsis_rank; ++k) output.push_back(kLetters + static_cast<int>(k));
  };
  if (parsed.has_output) {
    for (int s : parsed.output) {
      if (s < 0) {
        add_ellipsis();
        continue;
      }
      FACULA_CHECK(sizes.count(s), ValueError, "einsum: an output subscript of '", equation,
                   "' does not appear in the equation for any input operand");
      FACULA_CHECK(!has(output, s), ValueError, "einsum: an output subscript of '", equation,
                   "' appears more than once in the output");
      output.push_back(s);
    }
  } else {
    add_ellipsis();
    for (int s = 0; s < kLetters; ++s)
      if (counts[static_cast<size_t>(s)] == 1) output.push_back(s);
  }

  // Left to right, or along the caller's path of pairs.
  size_t step = 0;
  while (terms.size() > 1) {
    size_t i = 0, j = 1;
    if (path && (*path).size() >= 2 * (step + 1)) {
      i = static_cast<size_t>((*path)[2 * step]);
      j = static_cast<size_t>((*path)[2 * step + 1]);
      if (i > j) std::swap(i, j);
      FACULA_CHECK(i != j && j < terms.size(), ValueError, "einsum: path step ", step, " contracts operands ", i,
                   " and ", j, " of ", terms.size());
    }
    ++step;
    Term b = terms[j], a = terms[i];
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<int> needed = output;
    for (const Term& t : terms) needed.insert(needed.end(), t.subscripts.begin(), t.subscripts.end());
    terms.insert(terms.begin() + static_cast<std::ptrdiff_t>(path ? terms.size() : 0), contract(a, b, needed));
  }
  Term last = terms[0];
  sum_unneeded(last, output);
  return aligned(last, output);
}

}  // namespace facula::meaning
