// What shows a person how training goes: progress lines, curves, tables, and the bytes of event files.
#include "report/event_file.h"
#include "report/png.h"
#include "report/text_width.h"

#include <facula/nn/module.h>
#include <facula/nn/summary.h>
#include <facula/plot.h>
#include <facula/progress.h>
#include <facula/tensorboard.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

namespace facula {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgressState half_way() {
  ProgressState state;
  state.label = "train";
  state.done = 50;
  state.total = 100;
  state.seconds = 75;
  state.rate = 2;
  state.values = {{"loss", 1.23456}, {"lr", 0.0001}};
  return state;
}

TEST(Progress, TheLineSaysEverything) {
  EXPECT_EQ(progress_line(half_way(), 120, false),
            "train  50% |####################....................| 50/100  01:15 < 00:25  2.00 it/s  loss 1.2346  lr "
            "1.00e-04");
  ProgressState state = half_way();
  state.total = -1;
  EXPECT_EQ(progress_line(state, 80, false), "train 50 it  01:15  2.00 it/s  loss 1.2346  lr 1.00e-04");
  state = ProgressState();
  state.total = 0;
  EXPECT_THAT(progress_line(state, 80, false), HasSubstr("100%"));
  state.rate = 0.25;
  state.seconds = 3725;
  EXPECT_THAT(progress_line(state, 80, false), HasSubstr("1:02:05  4.00 s/it"));
  state.rate = 12345;
  EXPECT_THAT(progress_line(state, 80, false), HasSubstr("12.3k it/s"));
}

TEST(Progress, NoLineIsWiderThanTheTerminal) {
  ProgressState state = half_way();
  for (const char* label :
       {"train", "学習 エポック", "e\u0301poque", "\U0001F525 hot", "line\nbreak\tand\x1b[31mcolor", "\xff\xfe"}) {
    state.label = label;
    for (const bool utf8 : {true, false})
      for (int columns = 1; columns < 140; ++columns) {
        const std::string line = progress_line(state, columns, utf8);
        EXPECT_LE(display_width(line), columns) << label;
        for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << label;
        for (const char c : line) EXPECT_TRUE(utf8 || static_cast<unsigned char>(c) < 0x80) << label;
      }
  }
  for (int done = 0; done <= 100; ++done) {
    state.label = "";
    state.done = done;
    EXPECT_LE(display_width(progress_line(state, 100)), 100);
  }
}

TEST(Progress, WidthOfText) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("学習"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("\U0001F525"), 2);
  EXPECT_EQ(display_width("\u2588\u258F"), 2);
  EXPECT_EQ(report::cut_to_width("学習x", 3), "学");
  EXPECT_EQ(report::cut_to_width("e\u0301x", 1), "e\u0301");
  EXPECT_EQ(report::fit_to_width("学習", 3), "学 ");
  EXPECT_EQ(report::printable("a\tb\x1b"
                              "c"),
            "a b c");
}

TEST(Progress, CountsAndIsQuietWithoutATerminal) {
  ::testing::internal::CaptureStderr();
  {
    Progress bar(3, "quiet");
    bar.step();
    bar.step({{"loss", 0.5}}, 2);
    EXPECT_EQ(bar.state().done, 3);
    EXPECT_EQ(bar.state().values[0].second, 0.5);
    std::vector<int> seen;
    const std::vector<int> numbers = {1, 2, 3};
    for (const int number : progress(numbers)) seen.push_back(number);
    EXPECT_EQ(seen, numbers);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  {
    ProgressOptions options;
    options.shown = true;
    options.interval = 0;
    Progress bar(2, "shown", options);
    bar.step();
    bar.print("a line");
  }
  const std::string drawn = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(drawn, HasSubstr("shown"));
  EXPECT_THAT(drawn, HasSubstr("\r\x1b[Ka line\n"));
  EXPECT_EQ(drawn.back(), '\n');
}

TEST(Plot, CurvesBecomePictures) {
  PlotOptions options;
  options.title = "A <title> & more";
  LossCurve curve(options);
  for (int i = 0; i < 10000; ++i) curve.add("train", i, 4.0 / (1 + i * 0.01));
  curve.add("valid", 0, 4);
  curve.add("valid", 5000, std::numeric_limits<double>::quiet_NaN());
  curve.add("valid", 10000, 1);
  const std::string svg = curve.svg();
  EXPECT_THAT(svg, HasSubstr("A &lt;title&gt; &amp; more"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_LT(svg.size(), 100000u);  // many points in one column of pixels are thinned out
  const std::string png = curve.png();
  EXPECT_EQ(png.substr(0, 8), std::string("\x89PNG\r\n\x1a\n", 8));
  EXPECT_LT(png.size(), 300000u);
  const std::string path = (std::filesystem::temp_directory_path() / "facula-curve.svg").string();
  curve.save(path);
  EXPECT_EQ(std::filesystem::file_size(path), svg.size());
  std::filesystem::remove(path);
  EXPECT_THROW(curve.save("curve.gif"), ValueError);
}

TEST(Plot, OddCurvesDoNotFail) {
  for (const bool log_y : {false, true}) {
    PlotOptions options;
    options.log_y = log_y;
    for (const std::vector<double>& values : {std::vector<double>{},
                                              {1},
                                              {0, 0, 0},
                                              {-1, -2},
                                              {1e300, -1e300},
                                              {1e-300, 1e300},
                                              {INFINITY, NAN},
                                              {5, 5 + 1e-15}}) {
      LossCurve curve(options);
      for (size_t i = 0; i < values.size(); ++i) curve.add("x", static_cast<double>(i), values[i]);
      EXPECT_THAT(curve.svg(), Not(HasSubstr("nan")));
      EXPECT_FALSE(curve.png().empty());
    }
  }
}

TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(report::crc32c("123456789"), 0xE3069283u);            // the standard's check value
  EXPECT_EQ(report::crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(report::crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(report::crc32c(""), 0u);
}

TEST(EventFile, MessagesAreProtocolBuffers) {
  report::Message inner, outer;
  inner.varint(1, 300).single(2, 1.0f);
  outer.message(3, inner).number(1, 1.0).varint(2, static_cast<uint64_t>(-1)).numbers(4, {2.0});
  EXPECT_EQ(inner.text(), std::string("\x08\xac\x02\x15\x00\x00\x80\x3f", 8));
  EXPECT_EQ(outer.text(), std::string("\x1a\x08", 2) + inner.text() + std::string("\x09\0\0\0\0\0\0\xf0\x3f", 9) +
                              std::string("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11) +
                              std::string("\x22\x08\0\0\0\0\0\0\0\x40", 10));
}

TEST(EventFile, WritersCheckWhatTheyAreGiven) {
  const std::string folder = (std::filesystem::temp_directory_path() / "facula-events").string();
  {
    tensorboard::SummaryWriter writer(folder + "/a/b");
    writer.add_scalar("loss", 1.5, 1);
    writer.add_histogram("empty", zeros({0}));
    EXPECT_THROW(writer.add_image("image", zeros({2, 4, 4})), ShapeError);
    EXPECT_THROW(writer.add_image("image", zeros({1, 4, 4}, kLong)), DTypeError);
    EXPECT_THROW(writer.add_scalar("\xff", 1), ValueError);
    writer.flush();
    EXPECT_GT(std::filesystem::file_size(writer.path()), 60u);
    writer.close();
    EXPECT_THROW(writer.add_scalar("loss", 1.5, 2), Error);
  }
  EXPECT_THROW(tensorboard::SummaryWriter("/proc/no/such"), Error);
  std::filesystem::remove_all(folder);
}

struct Inner : nn::Module {
  Inner() : nn::Module("Inner") {
    register_parameter("weight", zeros({10, 3}));
    register_buffer("mean", zeros({3}));
  }
};
struct Outer : nn::Module {
  Outer() : nn::Module("Outer") {
    auto inner = register_module("inner", std::make_shared<Inner>());
    register_module("second", std::make_shared<Inner>());
    register_parameter("tied", inner->parameters()[0]);
    register_parameter("frozen", zeros({1000}), false);
  }
};

TEST(Summary, CountsEachTensorOnce) {
  Outer model;
  const nn::ModuleSize size = nn::module_size(model);
  EXPECT_EQ(size.parameters, 1060);
  EXPECT_EQ(size.trainable, 60);
  EXPECT_EQ(size.buffers, 6);
  EXPECT_EQ(size.bytes, 4 * 1066);
  EXPECT_EQ(nn::summary(model),
            "module    type   tensors                      parameters\n"
            "--------------------------------------------------------\n"
            "(all)     Outer  tied [10, 3], frozen [1000]       1,030\n"
            "  inner   Inner  weight [10, 3], mean [3]     0 (shared)\n"
            "  second  Inner  weight [10, 3], mean [3]             30\n"
            "--------------------------------------------------------\n"
            "parameters: 1,060 (trainable: 60)\n"
            "numbers in buffers: 6\n"
            "memory: 4.2 KiB\n");
}

}  // namespace
}  // namespace facula
