// Random index expressions on random tensors and views, against a reference that goes through the entries one by one;
// and invalid expressions, which must raise and leave everything as it was.
#include <facula/facula.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpp/seed.h"

namespace facula {
namespace {

using namespace indexing;
using Shape = std::vector<int64_t>;

// One part of an expression after masks and ellipses have been written out.
struct Item {
  enum Kind { Fixed, Range, NewAxis, Advanced } kind;
  int64_t dim = -1;             // of the source; -1 for none
  std::vector<int64_t> values;  // positions: of Range in order, of Advanced in row-major order of `shape`
  Shape shape;                  // of Advanced
};

int64_t count_of(const Shape& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

// Calls f(index) for every index of a shape, row-major.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  const int64_t n = count_of(shape);
  Shape at(shape.size(), 0);
  for (int64_t k = 0; k < n; ++k) {
    f(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

int64_t broadcast_position(const Shape& shape, const Shape& at, size_t first, size_t count) {
  int64_t position = 0;
  for (size_t j = 0; j < shape.size(); ++j) {
    const int64_t i = shape[j] == 1 ? 0 : at[first + count - shape.size() + j];
    position = position * shape[j] + i;
  }
  return position;
}

struct Expected {
  bool valid = true;
  Shape shape;
  std::vector<int64_t> offsets;  // in the storage of the source
};

Expected evaluate(const Tensor& x, std::vector<Item> items) {
  Expected e;
  int64_t base = x.storage_offset();
  for (const Item& i : items)
    if (i.kind == Item::Fixed) base += i.values[0] * x.stride(i.dim);
  std::erase_if(items, [](const Item& i) { return i.kind == Item::Fixed; });
  Shape common;
  int first = -1, last = -1, many = 0;
  for (size_t k = 0; k < items.size(); ++k) {
    if (items[k].kind != Item::Advanced) continue;
    if (first < 0) first = static_cast<int>(k);
    last = static_cast<int>(k);
    ++many;
    const Shape& s = items[k].shape;
    while (common.size() < s.size()) common.insert(common.begin(), 1);
    for (size_t j = 0; j < s.size(); ++j) {
      int64_t& c = common[common.size() - s.size() + j];
      if (c == 1) c = s[j];
      else if (s[j] != 1 && s[j] != c) e.valid = false;
    }
  }
  if (!e.valid) return e;
  const bool together = many > 0 && last - first + 1 == many;
  // Which axis of the result each item, and the common shape of the advanced ones, begins at.
  std::vector<size_t> axis(items.size(), 0);
  size_t common_axis = 0;
  if (many > 0 && !together) e.shape = common;
  for (size_t k = 0; k < items.size(); ++k) {
    if (items[k].kind == Item::Advanced) {
      if (together && static_cast<int>(k) == first) {
        common_axis = e.shape.size();
        e.shape.insert(e.shape.end(), common.begin(), common.end());
      }
      continue;
    }
    axis[k] = e.shape.size();
    e.shape.push_back(items[k].kind == Item::NewAxis ? 1 : static_cast<int64_t>(items[k].values.size()));
  }
  for_each_index(e.shape, [&](const Shape& at) {
    int64_t offset = base;
    for (size_t k = 0; k < items.size(); ++k) {
      const Item& i = items[k];
      if (i.dim < 0) continue;
      const int64_t position =
          i.kind == Item::Range
              ? i.values[static_cast<size_t>(at[axis[k]])]
              : i.values[static_cast<size_t>(broadcast_position(i.shape, at, common_axis, common.size()))];
      offset += position * x.stride(i.dim);
    }
    e.offsets.push_back(offset);
  });
  return e;
}

class IndexProperty : public testing::Test {
 protected:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return draw(1, 100) <= percent; }

  static Tensor long_tensor(const std::vector<int64_t>& values, const Shape& shape) {
    Tensor t = empty(shape, kLong);
    std::copy(values.begin(), values.end(), t.data_ptr<int64_t>());
    return t;
  }

  ScalarType draw_dtype() {
    constexpr ScalarType kTypes[] = {kLong,     kFloat, kDouble,        kByte,         kHalf,
                                     kBFloat16, kShort, kComplexDouble, kComplexFloat, kInt};
    return kTypes[draw(0, 9)];
  }

  // A tensor or a view, over a storage of small whole numbers.
  Tensor draw_source() {
    const int64_t dims = draw(0, 4);
    Shape shape;
    for (int64_t d = 0; d < dims; ++d) shape.push_back(chance(4) ? 0 : draw(1, 4));
    Shape wide = shape;
    if (chance(40))
      for (int64_t& s : wide) s = 2 * s + 1;
    base_ = facula::remainder(arange(count_of(wide), kLong), 101).to(draw_dtype());
    Tensor x = base_.view(wide);
    if (wide != shape)
      for (int64_t d = 0; d < dims; ++d)
        x = x.slice(d, draw(0, 1), std::nullopt, 2).slice(d, 0, shape[static_cast<size_t>(d)]);
    if (dims >= 2 && chance(30)) x = x.transpose(draw(0, dims - 1), draw(0, dims - 1));
    return x;
  }

  // Entries of the storage that x shows, as numbers.
  std::vector<double> storage_values() const {
    const Tensor d = (base_.is_complex() ? facula::real(base_) : base_).to(kDouble).contiguous();
    return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
  }

  void add_tensor(std::vector<TensorIndex>& expression, std::vector<Item>& items, int64_t dim, int64_t size) {
    Shape shape;
    const int64_t dims = draw(0, static_cast<int64_t>(common_.size()));
    for (size_t j = common_.size() - static_cast<size_t>(dims); j < common_.size(); ++j)
      shape.push_back(chance(25) ? 1 : common_[j]);
    std::vector<int64_t> values(static_cast<size_t>(count_of(shape)));
    for (int64_t& v : values) v = draw(-size, size - 1);
    Tensor t = long_tensor(values, shape);
    if (chance(20)) t = t.to(kInt);
    if (shape.size() == 2 && chance(30)) t = t.t().contiguous().t();
    text_ += "tensor" + to_text(IntArrayRef(shape)) + ", ";
    expression.push_back(t);
    for (int64_t& v : values) v = v < 0 ? v + size : v;
    if (shape.empty()) items.push_back({Item::Fixed, dim, values, {}});
    else items.push_back({Item::Advanced, dim, values, shape});
  }

  void add_mask(std::vector<TensorIndex>& expression, std::vector<Item>& items, const Tensor& x, int64_t dim,
                int64_t dims) {
    Shape shape;
    for (int64_t d = dim; d < dim + dims; ++d) shape.push_back(x.size(d));
    Tensor mask = empty(shape, kBool);
    std::vector<std::vector<int64_t>> columns(static_cast<size_t>(dims));
    const int percent = static_cast<int>(draw(0, 100));
    int64_t flat = 0;
    for_each_index(shape, [&](const Shape& at) {
      const bool on = chance(percent);
      mask.data_ptr<bool>()[flat++] = on;
      for (size_t j = 0; on && j < columns.size(); ++j) columns[j].push_back(at[j]);
    });
    text_ += "mask" + to_text(IntArrayRef(shape)) + ", ";
    expression.push_back(chance(20) ? mask.to(kByte) : mask);
    for (size_t j = 0; j < columns.size(); ++j) {
      const int64_t n = static_cast<int64_t>(columns[j].size());
      items.push_back({Item::Advanced, dim + static_cast<int64_t>(j), columns[j], {n}});
    }
  }

  void add_range(std::vector<TensorIndex>& expression, std::vector<Item>& items, int64_t dim, int64_t size,
                 bool whole) {
    int64_t start = 0, stop = size, step = 1;
    if (whole) {
      if (expression_takes_rest_) expression.push_back(Slice());
    } else {
      start = draw(-size - 2, size + 2);
      stop = draw(-size - 2, size + 2);
      step = draw(1, 3);
      expression.push_back(Slice(start, stop, step));
    }
    text_ += "slice " + std::to_string(start) + ":" + std::to_string(stop) + ":" + std::to_string(step) + ", ";
    auto clamped = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
    Item item{Item::Range, dim, {}, {}};
    for (int64_t i = clamped(start); i < clamped(stop); i += step) item.values.push_back(i);
    items.push_back(item);
  }

  std::vector<Item> draw_expression(const Tensor& x, std::vector<TensorIndex>& expression) {
    std::vector<Item> items;
    text_ = "x" + to_text(x.sizes()) + " strides " + to_text(x.strides()) + ": ";
    common_.clear();
    for (int64_t d = draw(0, 3); d > 0; --d) common_.push_back(chance(5) ? 0 : draw(1, 3));
    // An ellipsis takes dims [rest, rest_end).
    const bool ellipsis = chance(30);
    const int64_t rest = draw(0, x.dim()), rest_end = ellipsis ? draw(rest, x.dim()) : rest;
    const int64_t stop = chance(70) ? x.dim() : draw(rest_end, x.dim());
    bool done_rest = false;
    for (int64_t d = 0; d < x.dim() || !done_rest;) {
      if (d == rest && !done_rest) {
        done_rest = true;
        if (ellipsis) {
          if (chance(50)) expression.push_back("...");
          else expression.push_back(Ellipsis);
          text_ += "..., ";
          expression_takes_rest_ = false;
          for (; d < rest_end; ++d) add_range(expression, items, d, x.size(d), true);
          continue;
        }
        if (d == x.dim()) break;
      }
      if (d >= x.dim()) break;
      if (chance(10)) {
        text_ += "None, ";
        expression.push_back(None);
        items.push_back({Item::NewAxis, -1, {}, {}});
      }
      if (chance(4)) {
        const bool on = chance(70);
        text_ += on ? "true, " : "false, ";
        if (chance(50)) expression.push_back(on);
        else expression.push_back(full({}, on, kBool));
        items.push_back({Item::Advanced, -1, std::vector<int64_t>(on ? 1 : 0, 0), {on ? 1 : 0}});
      }
      // Dims behind the last part of the expression are taken whole; with an ellipsis every dim has its part.
      if (d >= stop && !ellipsis) {
        expression_takes_rest_ = false;
        for (; d < x.dim(); ++d) add_range(expression, items, d, x.size(d), true);
        break;
      }
      const int64_t size = x.size(d), kind = draw(0, 9);
      expression_takes_rest_ = true;
      if (kind <= 1 && size > 0) {
        const int64_t i = draw(-size, size - 1);
        text_ += std::to_string(i) + ", ";
        expression.push_back(i);
        items.push_back({Item::Fixed, d, {i < 0 ? i + size : i}, {}});
        ++d;
      } else if (kind <= 5 && size > 0) {
        add_tensor(expression, items, d++, size);
      } else if (kind == 6) {
        const int64_t limit = d < rest ? rest : x.dim();
        const int64_t dims = std::min<int64_t>(draw(1, 2), limit - d);
        add_mask(expression, items, x, d, dims);
        d += dims;
      } else {
        add_range(expression, items, d, size, kind == 7);
        ++d;
      }
    }
    return items;
  }

  static std::vector<double> values_of(const Tensor& t) {
    const Tensor d = (t.is_complex() ? facula::real(t) : t).to(kDouble).contiguous();
    return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
  }

  std::mt19937_64 random_{facula_test::test_seed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, facula_test::seed_text()};
  Tensor base_;
  Shape common_;
  std::string text_;
  bool expression_takes_rest_ = true;
};

constexpr int kRounds = 4000;

TEST_F(IndexProperty, ReadsWhatTheReferenceReads) {
  int advanced = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Tensor x = draw_source();
    std::vector<TensorIndex> expression;
    const std::vector<Item> items = draw_expression(x, expression);
    SCOPED_TRACE(text_);
    const Expected want = evaluate(x, items);
    if (!want.valid) {
      EXPECT_THROW(x.index(expression), IndexError);
      continue;
    }
    const Tensor got = x.index(expression);
    ASSERT_EQ(got.sizes(), want.shape) << to_text(got.sizes()) << " " << to_text(IntArrayRef(want.shape));
    ASSERT_EQ(got.scalar_type(), x.scalar_type());
    const std::vector<double> all = storage_values(), have = values_of(got);
    for (size_t k = 0; k < have.size(); ++k)
      ASSERT_EQ(have[k], all[static_cast<size_t>(want.offsets[k])]) << "entry " << k;
    const bool basic = std::none_of(items.begin(), items.end(), [](const Item& i) { return i.kind == Item::Advanced; });
    EXPECT_EQ(got.is_alias_of(x), basic);
    advanced += !basic;
  }
  EXPECT_GT(advanced, kRounds / 4);
}

TEST_F(IndexProperty, WritesWhatTheReferenceWrites) {
  for (int round = 0; round < kRounds; ++round) {
    Tensor x = draw_source();
    std::vector<TensorIndex> expression;
    const std::vector<Item> items = draw_expression(x, expression);
    SCOPED_TRACE(text_);
    const Expected want = evaluate(x, items);
    std::vector<double> all = storage_values();
    if (!want.valid) {
      EXPECT_THROW(x.index_put_(expression, 1), IndexError);
      EXPECT_EQ(storage_values(), all);
      continue;
    }
    const int64_t version = x._version();
    if (chance(25)) {
      x.index_put_(expression, 77);
      for (int64_t o : want.offsets) all[static_cast<size_t>(o)] = 77;
    } else {
      Shape shape(want.shape.end() - draw(0, static_cast<int64_t>(want.shape.size())), want.shape.end());
      for (int64_t& s : shape)
        if (chance(20)) s = 1;
      if (chance(10)) shape.insert(shape.begin(), 1);
      Tensor values = facula::remainder(arange(count_of(shape), kLong) + 3, 97).view(shape).to(x.scalar_type());
      if (shape.size() >= 2 && chance(30)) values = values.transpose(0, 1).contiguous().transpose(0, 1);
      const std::vector<double> numbers = values_of(values);
      Shape trimmed = shape;
      while (trimmed.size() > want.shape.size()) trimmed.erase(trimmed.begin());
      size_t k = 0;
      for_each_index(want.shape, [&](const Shape& at) {
        all[static_cast<size_t>(want.offsets[k++])] =
            numbers[static_cast<size_t>(broadcast_position(trimmed, at, 0, want.shape.size()))];
      });
      text_ += " = values " + to_text(IntArrayRef(shape));
      SCOPED_TRACE(text_);
      x.index_put_(expression, values);
    }
    ASSERT_EQ(storage_values(), all);
    EXPECT_GT(x._version(), version);
  }
}

TEST_F(IndexProperty, InvalidExpressionsRaiseAndChangeNothing) {
  int tried = 0;
  for (int round = 0; round < kRounds; ++round) {
    Tensor x = draw_source();
    std::vector<TensorIndex> expression;
    const std::vector<Item> items = draw_expression(x, expression);
    const Expected want = evaluate(x, items);
    if (!want.valid) continue;
    const int64_t kind = draw(0, 7);
    // Parts that speak of a dim, for an expression that takes all dims but by an ellipsis.
    const bool ellipsis = std::any_of(expression.begin(), expression.end(),
                                      [](const TensorIndex& i) { return i.kind() == TensorIndex::Kind::Rest; });
    if (kind == 0) {
      for (int64_t d = 0; d <= x.dim(); ++d) expression.push_back(Slice());
    } else if (kind == 1) {
      if (!ellipsis) expression.push_back("...");
      expression.push_back(Ellipsis);
    } else {
      // Replaces a slice of an existing dim by something that cannot stand there.
      const auto it = std::find_if(expression.begin(), expression.end(),
                                   [](const TensorIndex& i) { return i.kind() == TensorIndex::Kind::Range; });
      if (it == expression.end()) continue;
      // Where other indices are empty, broadcasting leaves no place for which a wrong one would be used.
      const bool none = std::any_of(items.begin(), items.end(),
                                    [](const Item& i) { return i.kind == Item::Advanced && i.values.empty(); });
      if (none && (kind == 3 || kind == 4)) continue;
      if (kind == 2) *it = int64_t{1000};
      else if (kind == 3) *it = long_tensor({0, 1000}, {2});
      else if (kind == 4) *it = long_tensor({-1000}, {1, 1});
      else if (kind == 5) *it = Slice(None, None, draw(-2, 0));
      else if (kind == 6) *it = arange(2, kFloat);
      else *it = full({61}, true, kBool);
    }
    SCOPED_TRACE(text_ + " made invalid, kind " + std::to_string(kind));
    ++tried;
    const std::vector<double> before = storage_values();
    if (kind == 5) {
      EXPECT_THROW(x.index(expression), ValueError);
      EXPECT_THROW(x.index_put_(expression, 1), ValueError);
    } else {
      EXPECT_THROW(x.index(expression), IndexError);
      EXPECT_THROW(x.index_put_(expression, 1), IndexError);
      EXPECT_THROW(x.index_put_(expression, ones({}, x.options())), IndexError);
    }
    ASSERT_EQ(storage_values(), before);
  }
  EXPECT_GT(tried, kRounds / 4);
}

TEST_F(IndexProperty, ValuesOfWrongShapeChangeNothing) {
  for (int round = 0; round < kRounds / 4; ++round) {
    Tensor x = draw_source();
    std::vector<TensorIndex> expression;
    const Expected want = evaluate(x, draw_expression(x, expression));
    if (!want.valid) continue;
    SCOPED_TRACE(text_);
    const std::vector<double> before = storage_values();
    Shape shape = want.shape;
    if (shape.empty()) shape = {2};
    else shape.back() = shape.back() + 2;
    EXPECT_THROW(x.index_put_(expression, ones(shape, x.options())), ShapeError);
    ASSERT_EQ(storage_values(), before);
  }
}

}  // namespace
}  // namespace facula
