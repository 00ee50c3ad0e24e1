// Devices as PyTorch means them: which one a tensor lands on, what follows the current device and what follows its inputs, copies
// between devices, and what may not be mixed. The software GPU has two devices; a machine with one skips what needs two.
#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace facula {
namespace {

using ::testing::HasSubstr;

const Device kFirst("cuda:0"), kSecond("cuda:1");

#define NEEDS_TWO_DEVICES() \
  if (cuda::device_count() < 2) GTEST_SKIP() << "this machine has " << cuda::device_count() << " GPU"

TensorOptions on(const Device& device) { return TensorOptions().device(device); }

std::vector<float> values(const Tensor& tensor) {
  const Tensor host = tensor.cpu().contiguous();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

TEST(TwoDevices, TensorsFollowTheCurrentDeviceAndOpsFollowTheirInputs) {
  NEEDS_TWO_DEVICES();
  const Device current("cuda");
  const Tensor x = tensor({1.0f, 2.0f}, on(kFirst)), y = tensor({1.0f, 2.0f}).cuda();
  EXPECT_EQ(x.device(), kFirst);
  EXPECT_EQ(y.device(), kFirst);
  {
    const cuda::CUDAGuard guard(DeviceIndex{1});
    const Tensor a = tensor({1.0f, 2.0f}, on(current)), b = tensor({1.0f, 2.0f}).cuda();
    const Tensor b2 = tensor({1.0f, 2.0f}).to(current);
    EXPECT_EQ(a.device(), kSecond);
    EXPECT_EQ(b.device(), kSecond);
    EXPECT_EQ(b2.device(), kSecond);
    EXPECT_EQ((a + b).device(), kSecond);
    EXPECT_EQ((x + y).device(), kFirst);
    EXPECT_EQ(values(a + b2), (std::vector<float>{2, 4}));
    EXPECT_EQ(values(x + y), (std::vector<float>{2, 4}));
    for (const Tensor& each : {randn({2}, on(kSecond)), randn({2}).to(kSecond)}) EXPECT_EQ(each.device(), kSecond);
    EXPECT_EQ(cuda::current_device(), 1);
  }
  EXPECT_EQ(cuda::current_device(), 0);
  EXPECT_EQ(tensor({1.0f}, on(current)).device(), kFirst);
}

TEST(TwoDevices, TheCurrentDeviceBelongsToTheThread) {
  NEEDS_TWO_DEVICES();
  const cuda::CUDAGuard guard(DeviceIndex{1});
  Device elsewhere("cpu");
  std::thread([&] { elsewhere = ones({3}, on(Device("cuda"))).device(); }).join();
  EXPECT_EQ(elsewhere, kFirst);
  EXPECT_EQ(ones({3}, on(Device("cuda"))).device(), kSecond);
}

TEST(TwoDevices, CopiesKeepValuesLayoutAndOrder) {
  NEEDS_TWO_DEVICES();
  const Tensor host = arange(0, 60, kFloat).reshape({3, 4, 5});
  Tensor first = host.to(kFirst);
  first = first * 2;
  const Tensor second = first.to(kSecond);
  first.add_(1000);  // queued after the copy, which must not see it
  EXPECT_EQ(second.device(), kSecond);
  EXPECT_TRUE(second.cpu().equal(host * 2));
  // Views, in both directions.
  const Tensor turned = second.permute({2, 0, 1});
  EXPECT_TRUE(turned.to(kFirst).cpu().equal((host * 2).permute({2, 0, 1})));
  Tensor target = zeros({5, 3, 4}, on(kFirst));
  target.permute({1, 2, 0}).copy_(second);
  EXPECT_TRUE(target.cpu().equal((host * 2).permute({2, 0, 1})));
  // Another dtype on the way.
  Tensor whole = zeros({3, 4, 5}, TensorOptions().dtype(kInt).device(kSecond));
  whole.copy_(host.to(kFirst));
  EXPECT_TRUE(whole.cpu().equal(host.to(kInt)));
  // There and back again, with no copy where nothing moves.
  EXPECT_TRUE(second.to(kFirst).to(kSecond).cpu().equal(host * 2));
  EXPECT_TRUE(second.to(kSecond).is_same(second));
}

TEST(TwoDevices, MixedInputsAreRefused) {
  NEEDS_TWO_DEVICES();
  const Tensor a = ones({3}, on(kFirst)), b = ones({3}, on(kSecond));
  for (const auto& call :
       {std::function<Tensor()>([&] { return a + b; }), std::function<Tensor()>([&] { return a * ones({3}); }),
        std::function<Tensor()>([&] { return matmul(a, b); }),
        std::function<Tensor()>([&] { return where(a > 0, a, b); })}) {
    try {
      call();
      ADD_FAILURE() << "tensors of different devices were taken";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.type_name()), "DeviceError") << error.what();
      EXPECT_THAT(error.what(), HasSubstr("cuda:0"));
    }
  }
  // A number without dimensions may come from the CPU, and never from another GPU.
  EXPECT_EQ(values(a + tensor(2.0f)), (std::vector<float>{3, 3, 3}));
  EXPECT_THROW(a + tensor(2.0f, on(kSecond)), Error);
}

TEST(TwoDevices, InPlaceAndOutStayWhereTheyAre) {
  NEEDS_TWO_DEVICES();
  Tensor a = ones({4}, on(kSecond));
  a.mul_(3).add_(a);
  EXPECT_EQ(a.device(), kSecond);
  EXPECT_EQ(values(a), (std::vector<float>{6, 6, 6, 6}));
  Tensor out = empty({0}, on(kSecond));
  add_out(out, a, a);
  EXPECT_EQ(values(out), (std::vector<float>{12, 12, 12, 12}));
  Tensor wrong = empty({0}, on(kFirst));
  EXPECT_THROW(add_out(wrong, a, a), Error);
}

TEST(TwoDevices, EachHasItsOwnRandomStream) {
  NEEDS_TWO_DEVICES();
  manual_seed(7);
  const Tensor a = randn({100}, on(kFirst)), b = randn({100}, on(kSecond));
  EXPECT_TRUE(a.cpu().equal(b.cpu())) << "the same seed gives the same numbers on every device";
  EXPECT_FALSE(randn({100}, on(kFirst)).cpu().equal(a.cpu()));
  manual_seed(7);
  EXPECT_TRUE(randn({100}, on(kSecond)).cpu().equal(b.cpu()));
  EXPECT_TRUE(randn({100}).equal(b.cpu())) << "and on the CPU";
}

TEST(TwoDevices, GradientsStayOnTheDeviceOfTheirTensor) {
  NEEDS_TWO_DEVICES();
  const Tensor a = tensor({1.0f, 2.0f}, on(kFirst)).requires_grad_();
  const Tensor b = tensor({3.0f, 4.0f}, on(kSecond)).requires_grad_();
  ((a.to(kSecond) * b).sum()).backward();
  EXPECT_EQ(a.grad().device(), kFirst);
  EXPECT_EQ(b.grad().device(), kSecond);
  EXPECT_EQ(values(a.grad()), (std::vector<float>{3, 4}));
  EXPECT_EQ(values(b.grad()), (std::vector<float>{1, 2}));
}

TEST(Devices, AWrongIndexIsNamed) {
  const auto many = std::to_string(cuda::device_count() + 5);
  try {
    ones({2}, on(Device("cuda:" + many)));
    ADD_FAILURE() << "a device that is not there was taken";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.type_name()), "DeviceError");
    EXPECT_THAT(error.what(), HasSubstr("cuda:" + many));
  }
}

TEST(Devices, PrintingShowsTheDevice) {
  const Tensor a = tensor({1.0f, 2.0f}, on(kFirst));
  std::ostringstream out;
  out << a;
  EXPECT_THAT(out.str(), HasSubstr("CUDAFloatType{2}"));
}

}  // namespace
}  // namespace facula
