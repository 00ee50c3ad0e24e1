// Page-locked memory over the pretended driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_heap.h"

namespace facula::gpu {
namespace {

using fake::fake_driver;
using fake::kStreamA;
using fake::kStreamB;
using ::testing::HasSubstr;

class PinnedTest : public fake::HeapTest {
 protected:
  void TearDown() override {
    fake_driver().finish_all();
    empty_pinned_cache();
    EXPECT_EQ(pinned_stats().reserved_bytes.current, 0);
    EXPECT_EQ(pinned_stats().allocation.current, 0);
    EXPECT_EQ(fake_driver().host_used(), 0u);
    HeapTest::TearDown();
  }
};

TEST_F(PinnedTest, SizesHaveClasses) {
  const auto reserved_for = [](size_t bytes) {
    empty_pinned_cache();
    void* data = allocate_pinned(bytes, "test");
    const int64_t reserved = pinned_stats().reserved_bytes.current;
    free_pinned(data);
    return static_cast<size_t>(reserved);
  };
  EXPECT_EQ(reserved_for(1), 4096u);
  EXPECT_EQ(reserved_for(5000), 8192u);
  EXPECT_EQ(reserved_for(600 * 1024), kMiB);
  EXPECT_EQ(reserved_for(kMiB), kMiB);
  EXPECT_EQ(reserved_for(kMiB + 1), kMiB + kMiB / 4);
  EXPECT_EQ(reserved_for(5 * kMiB), 5 * kMiB);
  EXPECT_EQ(reserved_for(5 * kMiB + 1), 6 * kMiB);
  EXPECT_EQ(reserved_for(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(allocate_pinned(0, "test"), nullptr);
}

TEST_F(PinnedTest, BlocksAreReusedAndKnownByAddress) {
  char* first = static_cast<char*>(allocate_pinned(6000, "test"));
  EXPECT_TRUE(is_pinned(first));
  EXPECT_TRUE(is_pinned(first + 5999));
  EXPECT_FALSE(is_pinned(first + 8192));
  EXPECT_FALSE(is_pinned(nullptr));
  int local = 0;
  EXPECT_FALSE(is_pinned(&local));
  free_pinned(first);
  EXPECT_FALSE(is_pinned(first));
  void* again = allocate_pinned(8000, "test");
  EXPECT_EQ(again, first);
  free_pinned(again);
  free_pinned(&local);  // not ours: nothing happens
}

TEST_F(PinnedTest, CopiesUnderWayAreWaitedFor) {
  char* data = static_cast<char*>(allocate_pinned(6000, "test"));
  fake_driver().enqueue(kStreamA);
  fake_driver().enqueue(kStreamB);
  record_pinned_use(data + 100, {0, 1, kStreamA});
  record_pinned_use(data + 100, {1, 1, kStreamB});
  record_pinned_use("elsewhere", {0, 1, kStreamA});
  free_pinned(data);
  void* other = allocate_pinned(6000, "test");
  EXPECT_NE(other, data);
  fake_driver().finish(kStreamA);
  void* third = allocate_pinned(6000, "test");
  EXPECT_NE(third, data);
  fake_driver().finish(kStreamB);
  void* again = allocate_pinned(6000, "test");
  EXPECT_EQ(again, data);
  for (void* one : {other, third, again}) free_pinned(one);
}

TEST_F(PinnedTest, EventsAreLeftAloneDuringACapture) {
  void* data = allocate_pinned(6000, "test");
  fake_driver().enqueue(kStreamA);
  record_pinned_use(data, {0, 1, kStreamA});
  active_captures = 1;
  fake_driver().capturing = true;
  free_pinned(data);
  void* other = allocate_pinned(6000, "test");
  EXPECT_NE(other, data);
  empty_pinned_cache();
  fake_driver().capturing = false;
  active_captures = 0;
  fake_driver().finish(kStreamA);
  void* again = allocate_pinned(6000, "test");
  EXPECT_EQ(again, data);
  free_pinned(again);
  free_pinned(other);
}

TEST_F(PinnedTest, OutOfMemoryFreesTheCacheFirst) {
  void* cached = allocate_pinned(700 * kMiB, "test");
  fake_driver().enqueue(kStreamA);
  record_pinned_use(cached, {0, 1, kStreamA});
  free_pinned(cached);
  void* data = allocate_pinned(600 * kMiB, "test");
  try {
    allocate_pinned(500 * kMiB, "pin_memory");
    FAIL() << "there is no such memory";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pin_memory: 500.00 MiB of page-locked host memory"));
  }
  EXPECT_THROW(allocate_pinned(SIZE_MAX, "pin_memory"), OutOfMemoryError);
  free_pinned(data);
}

TEST_F(PinnedTest, AfterALossFreeingIsHarmless) {
  void* used = allocate_pinned(6000, "test");
  void* plain = allocate_pinned(6000, "test");
  record_pinned_use(used, {0, 1, kStreamA});
  fake_driver().lost = true;
  free_pinned(used);
  free_pinned(plain);
  EXPECT_THROW(allocate_pinned(50000, "test"), DeviceError);
  fake_driver().lost = false;
}

}  // namespace
}  // namespace facula::gpu
