// What a tensor says of itself and how one reaches its elements: options, dtypes, devices, scalars, operators and
// assignment through temporaries. Handles and memory are in tensor_test.cpp.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/tensor_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <vector>

namespace facula {
namespace {

using namespace indexing;
using facula_test::numbers;
using facula_test::Shape;
using facula_test::Values;
using facula_test::values_of;
using testing::HasSubstr;

// ---- options, dtypes, devices

TEST(Options, KeepWhatWasSet) {
  TensorOptions o;
  EXPECT_FALSE(o.has_dtype() || o.has_device() || o.has_memory_format());
  EXPECT_EQ(o.dtype(), kFloat);
  EXPECT_EQ(o.device(), Device(kCPU));
  TensorOptions p = o.dtype(kLong).device(kMeta).memory_format(MemoryFormat::ChannelsLast);
  EXPECT_EQ(p.dtype(), kLong);
  EXPECT_EQ(p.device(), Device(kMeta));
  EXPECT_EQ(p.memory_format_opt(), MemoryFormat::ChannelsLast);
  EXPECT_FALSE(o.has_dtype()) << "setters leave the original alone";
  EXPECT_EQ(p.dtype(std::nullopt).dtype(), kFloat);
  EXPECT_EQ(o.merge_in(p), p);
  EXPECT_EQ(p.merge_in(kInt).dtype(), kInt);
  EXPECT_EQ(p.merge_in(kInt).device(), Device(kMeta));
  EXPECT_EQ(dtype(kByte).device(kCPU).dtype(), kByte);
  EXPECT_EQ(device("cpu").dtype(kByte), dtype(kByte).device(kCPU));
  Tensor x = zeros({2}, dtype(kShort));
  EXPECT_EQ(x.options().dtype(), kShort);
  EXPECT_EQ(zeros({2}, x.options()).scalar_type(), kShort);
  std::ostringstream text;
  text << p;
  EXPECT_THAT(text.str(), HasSubstr("Long"));
}

class DefaultDtype : public testing::Test {
 protected:
  void TearDown() override { set_default_dtype(kFloat); }
};

TEST_F(DefaultDtype, DecidesFactoriesAndLiterals) {
  for (ScalarType t : {kDouble, kHalf, kBFloat16, kFloat}) {
    set_default_dtype(t);
    EXPECT_EQ(get_default_dtype(), t);
    EXPECT_EQ(zeros({1}).scalar_type(), t);
    EXPECT_EQ(rand({1}).scalar_type(), t);
    EXPECT_EQ(tensor({1.0, 2.0}).scalar_type(), t);
    EXPECT_EQ(tensor(1.0f).scalar_type(), t);
    EXPECT_EQ(tensor({1, 2}).scalar_type(), kLong);
    EXPECT_EQ(tensor({true}).scalar_type(), kBool);
    EXPECT_EQ(arange(3).scalar_type(), kLong);
    EXPECT_EQ(arange(3.0).scalar_type(), t);
    EXPECT_EQ(full({1}, 1.5).scalar_type(), t);
    EXPECT_EQ(full({1}, 1).scalar_type(), kLong);
    EXPECT_EQ(full({1}, true).scalar_type(), kBool);
    EXPECT_EQ(TensorOptions().dtype(), t);
  }
  EXPECT_RAISES(set_default_dtype(kLong), DTypeError, "only floating-point types");
  EXPECT_RAISES(set_default_dtype(kComplexFloat), DTypeError, "only floating-point types");
  EXPECT_EQ(get_default_dtype(), kFloat);
}

TEST(DTypes, NamesSizesKinds) {
  struct Expected {
    ScalarType type;
    const char* name;
    const char* python;
    size_t bytes;
    char kind;  // bool, signed, unsigned, float, complex
  };
  const Expected all[] = {{kByte, "Byte", "uint8", 1, 'u'},
                          {kChar, "Char", "int8", 1, 's'},
                          {kShort, "Short", "int16", 2, 's'},
                          {kInt, "Int", "int32", 4, 's'},
                          {kLong, "Long", "int64", 8, 's'},
                          {kHalf, "Half", "float16", 2, 'f'},
                          {kFloat, "Float", "float32", 4, 'f'},
                          {kDouble, "Double", "float64", 8, 'f'},
                          {kComplexHalf, "ComplexHalf", "complex32", 4, 'c'},
                          {kComplexFloat, "ComplexFloat", "complex64", 8, 'c'},
                          {kComplexDouble, "ComplexDouble", "complex128", 16, 'c'},
                          {kBool, "Bool", "bool", 1, 'b'},
                          {kBFloat16, "BFloat16", "bfloat16", 2, 'f'},
                          {kFloat8_e5m2, "Float8_e5m2", "float8_e5m2", 1, 'f'},
                          {kFloat8_e4m3fn, "Float8_e4m3fn", "float8_e4m3fn", 1, 'f'},
                          {kUInt16, "UInt16", "uint16", 2, 'u'},
                          {kUInt32, "UInt32", "uint32", 4, 'u'},
                          {kUInt64, "UInt64", "uint64", 8, 'u'}};
  EXPECT_EQ(std::size(all), static_cast<size_t>(kNumScalarTypes));
  for (const Expected& e : all) {
    EXPECT_STREQ(toString(e.type), e.name);
    EXPECT_STREQ(dtype_name(e.type), e.python);
    EXPECT_EQ(elementSize(e.type), e.bytes) << e.name;
    EXPECT_EQ(isFloatingType(e.type), e.kind == 'f') << e.name;
    EXPECT_EQ(isComplexType(e.type), e.kind == 'c') << e.name;
    EXPECT_EQ(isIntegralType(e.type, false), e.kind == 's' || e.kind == 'u') << e.name;
    EXPECT_EQ(isIntegralType(e.type, true), e.kind == 's' || e.kind == 'u' || e.kind == 'b') << e.name;
    EXPECT_EQ(isSignedType(e.type), e.kind == 's' || e.kind == 'f' || e.kind == 'c') << e.name;
    std::ostringstream text;
    text << e.type;
    EXPECT_EQ(text.str(), e.name);
    Tensor x = zeros({3}, e.type);
    EXPECT_EQ(x.nbytes(), 3 * e.bytes);
    EXPECT_EQ(x.is_floating_point(), e.kind == 'f');
    EXPECT_EQ(x.is_complex(), e.kind == 'c');
    EXPECT_EQ(values_of((x.is_complex() ? real(x) : x).fill_(1)), (Values{1, 1, 1})) << e.name;
  }
}

TEST(Devices, ParseTheirText) {
  EXPECT_EQ(Device("cpu"), Device(kCPU));
  EXPECT_EQ(Device("cpu:0"), Device(kCPU, 0));
  EXPECT_EQ(Device("cuda"), Device(kCUDA));
  EXPECT_EQ(Device("cuda:1"), Device(kCUDA, 1));
  EXPECT_EQ(Device(std::string("cuda:12")).index(), 12);
  EXPECT_EQ(Device("meta").type(), kMeta);
  EXPECT_FALSE(Device("cuda").has_index());
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:01", "cuda:300", ":1", "CPU", "cpu:1:2", " cpu"})
    EXPECT_THROW(Device{text}, DeviceError) << '"' << text << '"';
  EXPECT_EQ(Device("cuda:1").str(), "cuda:1");
  EXPECT_EQ(Device(kCPU).str(), "cpu");
  std::ostringstream out;
  out << Device("cuda:3") << ' ' << kCPU;
  EXPECT_EQ(out.str(), "cuda:3 cpu");
  EXPECT_THROW(zeros({2}, Device(kCUDA)), DeviceError);
  EXPECT_THROW(zeros({2}).cuda(), DeviceError);
  Tensor x = zeros({2});
  EXPECT_TRUE(x.cpu().is_same(x));
}

TEST(MetaTensors, HaveShapesWithoutValues) {
  Tensor x = empty({1 << 20, 1 << 20}, device(kMeta));
  EXPECT_TRUE(x.is_meta());
  EXPECT_EQ(x.data_ptr(), nullptr);
  Tensor y = (x + 1).t().sum(0, true);
  EXPECT_EQ(y.sizes(), (Shape{1, 1 << 20}));
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(matmul(x, x).sizes(), x.sizes());
  EXPECT_EQ(x.gt(0).scalar_type(), kBool);
  EXPECT_EQ((x + ones({})).sizes(), x.sizes()) << "a number on the cpu goes with any device";
  EXPECT_THROW(x + ones({1 << 20}), DeviceError);
  EXPECT_THROW(x.item(), Error);
  EXPECT_THROW(empty({}, device(kMeta)).item(), NotSupportedError);
  EXPECT_THROW(x.cpu(), Error);
  EXPECT_EQ(zeros({2, 3}).to(kMeta).sizes(), (Shape{2, 3}));
  x.add_(1);
  EXPECT_EQ(x._version(), 1);
}

// ---- elements and scalars

TEST(Elements, AreReadByItemAccessorAndPointer) {
  Tensor x = numbers({2, 3, 4});
  auto a = x.accessor<float, 3>();
  EXPECT_EQ(a[1][2][3], 23);
  EXPECT_EQ(a.size(1), 3);
  EXPECT_EQ(a.stride(0), 12);
  a[0][1][2] = 100;
  EXPECT_EQ(x[0][1][2].item<float>(), 100);
  Tensor permuted = x.permute({2, 0, 1});
  auto t = permuted.accessor<float, 3>();
  EXPECT_EQ(t[2][0][1], 100);
  EXPECT_THROW((x.accessor<float, 2>()), ShapeError);
  EXPECT_THROW((x.accessor<double, 3>()), DTypeError);
  EXPECT_RAISES(x.data_ptr<int>(), DTypeError, "expected scalar type Int but found Float");
  EXPECT_EQ(x.const_data_ptr<float>()[23], 23);
  EXPECT_RAISES(x.item(), ValueError, "24 elements");
  EXPECT_EQ(tensor({{{5}}}).item<int>(), 5);
}

TEST(Elements, ItemConvertsEveryDtype) {
  for (int t = 0; t < kNumScalarTypes; ++t) {
    ScalarType dtype = static_cast<ScalarType>(t);
    Tensor one = ones({1}, dtype);
    EXPECT_EQ(one.item<double>(), 1) << toString(dtype);
    EXPECT_EQ(one.item<int>(), 1) << toString(dtype);
    EXPECT_EQ(one.item<bool>(), true) << toString(dtype);
    EXPECT_EQ(one.item<Half>(), Half(1.0f)) << toString(dtype);
    EXPECT_EQ(one.item<complex<float>>(), complex<float>(1, 0)) << toString(dtype);
    EXPECT_EQ(one.item().isFloatingPoint(), isFloatingType(dtype)) << toString(dtype);
    EXPECT_EQ(one.item().isBoolean(), dtype == kBool) << toString(dtype);
    EXPECT_EQ(one.item().isComplex(), isComplexType(dtype)) << toString(dtype);
  }
  uint64_t large = 18446744073709551615u;
  EXPECT_EQ(tensor({large}, kUInt64).item<uint64_t>(), large);
  EXPECT_EQ(tensor({std::numeric_limits<int64_t>::min()}).item<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST(Scalars, RefuseWhatDoesNotFit) {
  EXPECT_EQ(Scalar(127).to<int8_t>(), 127);
  EXPECT_EQ(Scalar(-128).to<int8_t>(), -128);
  EXPECT_RAISES(Scalar(128).to<int8_t>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(-129).toChar(), ValueError, "int8_t");
  EXPECT_RAISES(Scalar(256).toByte(), ValueError, "uint8_t");
  EXPECT_EQ(Scalar(-1).to<uint8_t>(), 255) << "negative numbers wrap";
  EXPECT_EQ(Scalar(-200).to<uint8_t>(), 56);
  EXPECT_RAISES(Scalar(-256).to<uint8_t>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(127.9).toChar(), ValueError, "int8_t");
  EXPECT_EQ(Scalar(-127.9).toChar(), -127);
  EXPECT_RAISES(Scalar(40000).toShort(), ValueError, "int16_t");
  EXPECT_RAISES(Scalar(int64_t{1} << 31).toInt(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(1e300).toFloat(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(-1e300).to<float>(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(70000.0).toHalf(), ValueError, "without overflow");
  EXPECT_EQ(Scalar(65504.0).toHalf(), Half(65504.0f));
  EXPECT_TRUE(std::isinf(Scalar(std::numeric_limits<double>::infinity()).toFloat()));
  EXPECT_TRUE(std::isnan(Scalar(std::nan("")).toFloat()));
  EXPECT_RAISES(Scalar(1e19).toLong(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(std::nan("")).toLong(), ValueError, "without overflow");
  EXPECT_RAISES(Scalar(18446744073709551615u).toLong(), ValueError, "without overflow");
  EXPECT_EQ(Scalar(18446744073709551615u).toUInt64(), 18446744073709551615u);
  EXPECT_EQ(Scalar(18446744073709551615u).toDouble(), 18446744073709551616.0);
  EXPECT_EQ(Scalar(2.9).toInt(), 2);
  EXPECT_EQ(Scalar(-2.9).toLong(), -2);
  EXPECT_RAISES(Scalar(complex<double>(1, 2)).toDouble(), ValueError, "(1,2)");
  EXPECT_EQ(Scalar(complex<double>(3, 0)).toDouble(), 3);
  EXPECT_EQ(Scalar(complex<double>(1, 2)).toComplexFloat(), complex<float>(1, 2));
  EXPECT_RAISES(Scalar(complex<double>(1e300, 2)).toComplexFloat(), ValueError, "without overflow");
}

TEST(Scalars, KnowTheirKind) {
  EXPECT_EQ(Scalar(true).type(), kBool);
  EXPECT_EQ(Scalar(1).type(), kLong);
  EXPECT_EQ(Scalar(1u).type(), kLong);
  EXPECT_EQ(Scalar(1.0f).type(), kDouble);
  EXPECT_EQ(Scalar(Half(1.0f)).type(), kDouble);
  EXPECT_EQ(Scalar(complex<float>(1, 2)).type(), kComplexDouble);
  EXPECT_EQ(Scalar().toLong(), 0);
  EXPECT_TRUE(Scalar(7).equal_int(7));
  EXPECT_TRUE(Scalar(7.0).equal_int(7));
  EXPECT_FALSE(Scalar(7.5).equal_int(7));
  EXPECT_EQ(-Scalar(3), Scalar(-3));
  EXPECT_EQ(Scalar(complex<double>(1, 2)).conj(), Scalar(complex<double>(1, -2)));
  EXPECT_EQ(Scalar(2.5).str(), "2.5");
  EXPECT_EQ(Scalar(false).toBool(), false);
  EXPECT_EQ(Scalar(0.1).toBool(), true);
}

TEST(TensorData, TakesNestedListsAndArrays) {
  Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(x.sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.scalar_type(), kLong);
  EXPECT_EQ(values_of(x), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({{{1.5}}, {{2.5}}}).sizes(), (Shape{2, 1, 1}));
  EXPECT_EQ(tensor(3).dim(), 0);
  EXPECT_EQ(values_of(tensor(std::vector<int16_t>{1, 2}, kDouble)), (Values{1, 2}));
  EXPECT_EQ(tensor(std::vector<int>{1, 2}).scalar_type(), kLong);
  EXPECT_EQ(tensor(std::vector<double>{1, 2}).scalar_type(), kFloat);
  EXPECT_EQ(tensor(std::vector<uint8_t>{1, 2}).scalar_type(), kByte);
  EXPECT_EQ(values_of(tensor(std::vector<bool>{true, false})), (Values{1, 0}));
  EXPECT_EQ(tensor({complex<float>(1, 2)}).scalar_type(), kComplexFloat);
  EXPECT_THROW(tensor({{1, 2}, {3}}), ShapeError);
}

// ---- operators and assignment

TEST(Operators, WithNumbersOnEitherSide) {
  Tensor x = tensor({1.0, 2.0, 4.0}), i = tensor({1, 2, 5});
  EXPECT_EQ(values_of(x + 1), (Values{2, 3, 5}));
  EXPECT_EQ(values_of(1 + x), (Values{2, 3, 5}));
  EXPECT_EQ(values_of(x - 1), (Values{0, 1, 3}));
  EXPECT_EQ(values_of(10 - x), (Values{9, 8, 6}));
  EXPECT_EQ(values_of(x * 2), (Values{2, 4, 8}));
  EXPECT_EQ(values_of(2 * x), (Values{2, 4, 8}));
  EXPECT_EQ(values_of(x / 2), (Values{0.5, 1, 2}));
  EXPECT_EQ(values_of(2 / x), (Values{2, 1, 0.5}));
  EXPECT_EQ(values_of(i % 3), (Values{1, 2, 2}));
  EXPECT_EQ(values_of(7 % i), (Values{0, 1, 2}));
  EXPECT_EQ(values_of(i & 4), (Values{0, 0, 4}));
  EXPECT_EQ(values_of(4 | i), (Values{5, 6, 5}));
  EXPECT_EQ(values_of(i ^ 1), (Values{0, 3, 4}));
  EXPECT_EQ(values_of(i << 2), (Values{4, 8, 20}));
  EXPECT_EQ(values_of(64 >> i), (Values{32, 16, 2}));
  EXPECT_EQ(values_of(x < 2), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(2 < x), (Values{0, 0, 1}));
  EXPECT_EQ(values_of(2 <= x), (Values{0, 1, 1}));
  EXPECT_EQ(values_of(2 > x), (Values{1, 0, 0}));
  EXPECT_EQ(values_of(2 >= x), (Values{1, 1, 0}));
  EXPECT_EQ(values_of(x == 2), (Values{0, 1, 0}));
  EXPECT_EQ(values_of(2 != x), (Values{1, 0, 1}));
  EXPECT_EQ(values_of(-x), (Values{-1, -2, -4}));
  EXPECT_EQ(values_of(~i), (Values{-2, -3, -6}));
  EXPECT_EQ(values_of(x + i), (Values{2, 4, 9}));
  EXPECT_EQ((1.5 + i).scalar_type(), kFloat);
  EXPECT_EQ((2 / i).scalar_type(), kFloat);
  EXPECT_EQ(values_of(2 / i), (Values{2, 1, 2.0f / 5.0f}));
  x += 1;
  x -= tensor({1.0, 1.0, 1.0});
  x *= 3;
  x /= 2;
  EXPECT_EQ(values_of(x), (Values{1.5, 3, 6}));
  i &= tensor({3, 3, 3});
  i |= tensor({8, 0, 0});
  i ^= tensor({1, 1, 1});
  EXPECT_EQ(values_of(i), (Values{8, 3, 0}));
  EXPECT_THROW(i += 1.5, DTypeError);
}

TEST(Assignment, ThroughTemporariesWritesElements) {
  Tensor x = zeros({3, 4}), y = numbers({4});
  x[0] = y;
  x[1] = 5;
  x[2][1] = 7.5;
  x.index({2, Slice(2, None)}) = y.slice(0, 2, 4);
  EXPECT_EQ(values_of(x), (Values{0, 1, 2, 3, 5, 5, 5, 5, 0, 7.5, 2, 3}));
  x.select(1, 0) = x.select(1, 1);
  EXPECT_EQ(values_of(x.select(1, 0)), (Values{1, 5, 7.5}));
  x.index({Slice(), 3}) = -1;
  EXPECT_EQ(values_of(x.select(1, 3)), (Values{-1, -1, -1}));
  x[0] += 10;
  EXPECT_EQ(values_of(x[0]), (Values{11, 11, 12, 9}));
  x[1] = ones({}, kLong);
  EXPECT_EQ(values_of(x[1]), (Values{1, 1, 1, 1})) << "values broadcast and convert";
  EXPECT_THROW(x[0] = ones({5}), ShapeError);
  Tensor before = x[0];
  Tensor handle = x[0];
  handle = y;  // a named handle is rebound
  EXPECT_EQ(values_of(before), (Values{11, 11, 12, 9}));
  EXPECT_TRUE(handle.is_same(y));
  // What index gives with tensors is a copy: assigning to it leaves x alone, as in libtorch.
  x.index({tensor({0})}) = 99;
  EXPECT_EQ(values_of(x[0]), (Values{11, 11, 12, 9}));
  x.index_put_({tensor({0})}, 99);
  EXPECT_EQ(values_of(x[0]), (Values{99, 99, 99, 99}));
}

TEST(Borrowed, ArraysCompareAndCheckTheirRange) {
  std::vector<int64_t> v{1, 2, 3};
  IntArrayRef a(v);
  EXPECT_TRUE(a == v && v == a && a == IntArrayRef({1, 2, 3}) && a.equals({1, 2, 3}));
  EXPECT_TRUE(a != IntArrayRef({1, 2}) && a != (Shape{1, 2, 4}));
  EXPECT_EQ(a.slice(1), (Shape{2, 3}));
  EXPECT_EQ(a.slice(1, 1), (Shape{2}));
  EXPECT_EQ(a.slice(3).size(), 0u);
  EXPECT_EQ(a.at(2), 3);
  EXPECT_THROW(a.at(3), IndexError);
  EXPECT_THROW(a.slice(4), IndexError);
  EXPECT_THROW(a.slice(1, 3), IndexError);
  EXPECT_EQ(a.vec(), v);
  EXPECT_EQ(a.front() + a.back(), 4);
  std::ostringstream text;
  text << a << IntArrayRef();
  EXPECT_EQ(text.str(), "[1, 2, 3][]");
}

}  // namespace
}  // namespace facula
