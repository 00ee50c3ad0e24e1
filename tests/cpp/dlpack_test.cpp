// DLPack: round trips of every dtype, what foreign structures may look like, who deletes what and how often.
#include <facula/dlpack.h>
#include <facula/facula.h>

#include "cpp/expect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace facula {
namespace {

using facula_test::expect_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A structure as another library would make it, which counts its deletions.
struct Foreign {
  std::vector<float> data = {0, 1, 2, 3, 4, 5};
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
  int deleted = 0;
  DLManagedTensor managed{};

  Foreign() {
    managed.dl_tensor = {data.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), strides.data(), 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* m) { ++static_cast<Foreign*>(m->manager_ctx)->deleted; };
  }
};

TEST(DLPack, RoundTripOfEveryDtype) {
  for (int k = 0; k < kNumScalarTypes; ++k) {
    auto dtype = static_cast<ScalarType>(k);
    Tensor x = zeros({2, 3}, dtype).t();
    DLManagedTensor* managed = toDLPack(x);
    EXPECT_EQ(managed->dl_tensor.dtype.bits, elementSize(dtype) * 8);
    EXPECT_EQ(managed->dl_tensor.dtype.lanes, 1);
    Tensor y = fromDLPack(managed);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_EQ(y.data_ptr(), x.data_ptr());
    EXPECT_THAT(y.sizes().vec(), ElementsAre(3, 2));
    EXPECT_THAT(y.strides().vec(), ElementsAre(1, 3));
  }
}

TEST(DLPack, TheExportKeepsTheMemory) {
  Tensor x = arange(6).reshape({2, 3});
  DLManagedTensor* managed = toDLPack(x[1]);
  EXPECT_EQ(managed->dl_tensor.data, x[1].data_ptr());
  EXPECT_EQ(managed->dl_tensor.byte_offset, 0u);
  x = Tensor();
  EXPECT_EQ(static_cast<int64_t*>(managed->dl_tensor.data)[2], 5);
  managed->deleter(managed);
  DLManagedTensor* scalar = toDLPack(scalar_tensor(1.5));
  EXPECT_EQ(scalar->dl_tensor.ndim, 0);
  EXPECT_EQ(fromDLPack(scalar).item<double>(), 1.5);
  DLManagedTensor* none = toDLPack(empty({0, 3}));
  EXPECT_EQ(fromDLPack(none).numel(), 0);
  expect_error<DeviceError>([] { toDLPack(zeros({2}, kMeta)); }, "has no memory to share");
  expect_error<ValueError>([] { toDLPack(Tensor()); }, "undefined");
}

TEST(DLPack, LentMemoryStaysWhereItIs) {
  Tensor x = arange(6);
  DLManagedTensor* managed = toDLPack(x.view({2, 3}));
  const auto* data = static_cast<int64_t*>(managed->dl_tensor.data);
  // Neither resize_ nor an `out` that is too small moves it, and both leave the tensor as it was.
  expect_error<ValueError>([&] { x.resize_({100000}); }, "is lent to somebody");
  expect_error<ValueError>([&] { add_out(x, ones({100000}, kLong), ones({100000}, kLong)); }, "clone the tensor");
  EXPECT_THAT(x.sizes().vec(), ElementsAre(6));
  EXPECT_EQ(x.resize_({4}).data_ptr(), data);  // fits
  EXPECT_THAT(x.resize_({2, 3}).sizes().vec(), ElementsAre(2, 3));
  // A tensor that takes other memory leaves this to its reader.
  x.set_(zeros({5}, kLong));
  EXPECT_EQ(data[5], 5);
  managed->deleter(managed);

  Tensor y = arange(6);
  managed = toDLPack(y);
  DLManagedTensor* other = toDLPack(y);
  managed->deleter(managed);
  expect_error<ValueError>([&] { y.resize_({100000}); }, "is lent to somebody");
  other->deleter(other);
  EXPECT_EQ(y.resize_({100000})[5].item<int64_t>(), 5);

  Tensor nothing = empty({0});
  managed = toDLPack(nothing);
  EXPECT_EQ(nothing.resize_({3}).numel(), 3);
  managed->deleter(managed);
}

TEST(DLPack, ImportDeletesOnce) {
  Foreign f;
  {
    Tensor x = fromDLPack(&f.managed);
    EXPECT_EQ(x[1][2].item<float>(), 5);
    Tensor view = x[0];
    x = Tensor();
    EXPECT_EQ(f.deleted, 0);
  }
  EXPECT_EQ(f.deleted, 1);
}

TEST(DLPack, StridesAndOffsets) {
  Foreign f;
  f.managed.dl_tensor.strides = nullptr;
  f.managed.dl_tensor.byte_offset = 4;
  f.shape = {1, 5};
  f.managed.dl_tensor.shape = f.shape.data();
  Tensor x = fromDLPack(&f.managed);
  EXPECT_THAT(x.strides().vec(), ElementsAre(5, 1));
  EXPECT_EQ(x[0][0].item<float>(), 1);
  x = Tensor();
  f.managed.deleter = nullptr;
  EXPECT_EQ(fromDLPack(&f.managed).numel(), 5);
  EXPECT_EQ(f.deleted, 1);
}

TEST(DLPack, RefusesWhatATensorCannotBe) {
  auto refused = [](auto change, const std::string& text) {
    Foreign f;
    change(f);
    try {
      fromDLPack(&f.managed);
      ADD_FAILURE() << "no error; expected: " << text;
    } catch (const Error& e) {
      EXPECT_THAT(std::string(e.what()), HasSubstr(text));
    }
    EXPECT_EQ(f.deleted, 0);  // it still belongs to the caller
  };
  refused([](Foreign& f) { f.managed.dl_tensor.device.device_type = kDLMetal; }, "device type 8 is not supported");
  refused([](Foreign& f) { f.managed.dl_tensor.dtype.lanes = 4; }, "4 lanes");
  refused([](Foreign& f) { f.managed.dl_tensor.dtype.bits = 4; }, "code 2 and 4 bits is not supported");
  refused([](Foreign& f) { f.managed.dl_tensor.dtype.code = kDLOpaqueHandle; }, "code 3");
  refused([](Foreign& f) { f.strides[0] = -3; }, "Negative strides");
  refused([](Foreign& f) { f.shape[0] = -2; }, "negative dimension");
  refused([](Foreign& f) { f.managed.dl_tensor.ndim = 65; }, "65 dimensions");
  refused([](Foreign& f) { f.managed.dl_tensor.data = nullptr; }, "data pointer is null");
  refused([](Foreign& f) { f.managed.dl_tensor.shape = nullptr; }, "shape pointer is null");
  expect_error<ValueError>([] { fromDLPack(nullptr); }, "pointer is null");
}

TEST(DLPack, Versioned) {
  Tensor x = arange(4);
  DLManagedTensorVersioned* managed = toDLPackVersioned(x);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, 0u);
  managed->version.major = 2;
  expect_error<NotSupportedError>([&] { fromDLPackVersioned(managed); }, "DLPack version 2.");
  managed->version.major = 1;
  managed->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  expect_error<NotSupportedError>([&] { fromDLPackVersioned(managed); }, "read-only");
  managed->flags = 0;
  Tensor y = fromDLPackVersioned(managed);
  EXPECT_EQ(y.data_ptr(), x.data_ptr());
}

}  // namespace
}  // namespace facula
