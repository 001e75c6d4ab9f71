#include "memory/kind_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "gpu/peak_rates.h"
#include "graph/text.h"
#include "memory/device_rates.h"
#include "memory/h200_rates.h"
#include "memory/portable_rates.h"

namespace plimsoll::memory {
namespace {

using graph::Program;

RateKind KindOfLast(const Program& program) {
  return RateKindOf(program.CallOf(program.nodes().back()).get());
}

double SecondsOfLast(const Program& program, std::string_view gpu = "NVIDIA H200") {
  return DeviceRates::Gpu(gpu).Seconds(program.CallOf(program.nodes().back()).get());
}

// A convolution of `images` images, or volumes, that keeps their size.
Program Convolution(const std::string& space, int channels, int kernel, int stride = 1,
                    int images = 4) {
  const std::string side = space == "image" ? "16,16" : "16,16,16";
  const std::string out = stride == 1 ? side : space == "image" ? "8,8" : "8,8,8";
  const std::string k = std::to_string(kernel), b = std::to_string(images),
                    c = std::to_string(channels), s = std::to_string(stride),
                    p = std::to_string(kernel / 2);
  const bool volume = space == "volume";
  const std::string taps = volume ? k + "," + k + "," + k : k + "," + k;
  return graph::ParseProgram(
      "program p\n  tensor %x: f16[" + b + "," + side + "," + c +
      "] input persistent\n  tensor %w: f16[64," + taps + "," + c +
      "] parameter persistent\nforward\n  %y: f16[" + b + "," + out +
      ",64] = conv(%x, %w, _) {dilation_" + (volume ? "d=1, dilation_" : "") +
      "h=1, dilation_w=1, groups=1, pad_" + (volume ? "d=" + p + ", pad_" : "") + "h=" + p +
      ", pad_w=" + p + ", stride_" + (volume ? "d=" + s + ", stride_" : "") + "h=" + s +
      ", stride_w=" + s + "}\n");
}

TEST(RateKind, TellsConvolutionsApart) {
  EXPECT_EQ(KindOfLast(Convolution("image", 64, 3)), (RateKind{"conv", "half", "image"}));
  EXPECT_EQ(KindOfLast(Convolution("image", 64, 1)).form, "image 1");
  EXPECT_EQ(KindOfLast(Convolution("image", 64, 3, 2)).form, "image strided");
  EXPECT_EQ(KindOfLast(Convolution("image", 64, 1, 2)).form, "image 1 strided");
  EXPECT_EQ(KindOfLast(Convolution("image", 8, 3)).form, "image of few channels");
  EXPECT_EQ(KindOfLast(Convolution("volume", 64, 3)).form, "volume");
  EXPECT_EQ(KindOfLast(Convolution("volume", 64, 3, 2)).form, "volume strided");
}

TEST(RateKind, TellsNumbersAndHeadsApart) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[64,64] input persistent
      tensor %w: f32[64,64] parameter persistent
      tensor %q: bf16[2,64,576] input persistent
    forward
      %y: f32[64,64] = linear(%x, %w, _)
      %z: f32[64,64] = linear(%x, %w, _) {tf32=true}
      %a: bf16[2,64,192] = attention(%q, _, _, _) {causal=true, dropout=0.0, heads=2, kv_heads=2}
    )");
  const auto kind = [&](size_t node) {
    return RateKindOf(program.CallOf(program.nodes()[node]).get());
  };
  EXPECT_EQ(kind(0), (RateKind{"linear", "fp32", "small"}));
  EXPECT_EQ(kind(1), (RateKind{"linear", "tf32", "small"}));
  EXPECT_EQ(kind(2), (RateKind{"attention", "half", "heads of 128 causal"}));
}

// Tiles are computed as a whole, and keys that heads share are read by each.
TEST(KernelWork, IsOfWholeTiles) {
  const auto growth = [](const Program& program) {
    const Program::Call call = program.CallOf(program.nodes().back());
    return KernelWork(call.get()).flops / graph::CostOf(call.get()).flops;
  };
  EXPECT_EQ(growth(Convolution("image", 64, 3)), 1);
  EXPECT_EQ(growth(Convolution("image", 16, 3)), 2);
  const Program attention = graph::ParseProgram(R"(
    program p
      tensor %q: bf16[2,192,384] input persistent
    forward
      %a: bf16[2,192,256] = attention(%q, _, _, _) {causal=true, dropout=0.0, heads=4, kv_heads=1}
    )");
  EXPECT_NEAR(growth(attention), 16.0 / 9, 1e-9);
  const Program::Call call = attention.CallOf(attention.nodes()[0]);
  EXPECT_NEAR(KernelWork(call.get()).bytes / graph::CostOf(call.get()).bytes, 2, 1e-9);
}

TEST(FindRate, TakesTheFormThenTheOp) {
  const MeasuredRate table[] = {{{"add", "half", ""}, 1e-6, 1, 1},
                                {{"conv", "half", ""}, 1e-6, 1, 1},
                                {{"conv", "half", "image"}, 2e-6, 1, 1}};
  const auto find = [&](const RateKind& kind) {
    return FindRate(table, kind, graph::CostClass::kProducts);
  };
  EXPECT_EQ(find({"conv", "half", "image"}), &table[2]);
  EXPECT_EQ(find({"conv", "half", "volume"}), &table[1]);
  EXPECT_EQ(find({"conv", "half", ""}), &table[1]);
  EXPECT_EQ(find({"conv", "tf32", "image"}), nullptr);
  EXPECT_EQ(find({"matmul", "half", ""}), nullptr);
  // Bytes of other numbers move as fast.
  constexpr auto kBandwidth = graph::CostClass::kBandwidth;
  EXPECT_EQ(FindRate(table, {"add", "fp32", ""}, kBandwidth), &table[0]);
  EXPECT_EQ(FindRate(table, {"adamw", "half", ""}, kBandwidth), nullptr);
  EXPECT_EQ(FindRate({}, {"add", "half", ""}, kBandwidth), nullptr);
}

// Rates above the data sheet would be of no device.
void ExpectSortedAndPossible(std::span<const MeasuredRate> rates) {
  ASSERT_FALSE(rates.empty());
  EXPECT_TRUE(std::ranges::is_sorted(rates, {}, &MeasuredRate::kind));
  const gpu::PeakRates& peak = *gpu::FindPeakRates("NVIDIA H200");
  for (const MeasuredRate& rate : rates) {
    const std::string name = std::string(rate.kind.op) + " " + std::string(rate.kind.numbers);
    EXPECT_GE(rate.start, 0) << name;
    EXPECT_LT(rate.start, 100e-6) << name;
    EXPECT_GT(rate.bytes, 0) << name;
    EXPECT_GT(rate.flops, 0) << name;
    if (rate.kind.op.starts_with("linear") && rate.kind.numbers == "half") {
      EXPECT_LT(rate.flops, 1.1 * peak.half) << name;
    }
  }
}

TEST(H200Rates, AreSortedAndPossible) { ExpectSortedAndPossible(H200Rates()); }

TEST(PortableRates, AreSortedAndPossible) { ExpectSortedAndPossible(PortableRates()); }

// Attention in 16 bits has kernels for Hopper alone; convolutions and float32 have none.
TEST(PortableRates, AreOfKernelsThatDiffer) {
  const auto ratio = [](const Program& program) {
    const Program::Call call = program.CallOf(program.nodes().back());
    return DeviceRates::Gpu("NVIDIA H200", {8, 0}).Seconds(call.get()) /
           DeviceRates::Gpu("NVIDIA H200").Seconds(call.get());
  };
  const auto attention = [](const std::string& type) {
    return graph::ParseProgram("program p\n  tensor %x: " + type +
                               "[8,1024,2304] input persistent\nforward\n  %a: " + type +
                               "[8,1024,768] = attention(%x, _, _, _) {causal=true, dropout=0.0, "
                               "heads=12, kv_heads=12}\n");
  };
  EXPECT_GT(ratio(attention("bf16")), 1);
  EXPECT_EQ(ratio(attention("f32")), 1);
  EXPECT_EQ(ratio(Convolution("image", 64, 3)), 1);
}

TEST(H200Rates, MoreWorkTakesLonger) {
  for (const char* space : {"image", "volume"}) {
    double before = 0;
    for (int images = 1; images <= 1024; images *= 4) {
      const double seconds = SecondsOfLast(Convolution(space, 64, 3, 1, images));
      EXPECT_GT(seconds, before) << space << " " << images;
      EXPECT_LT(seconds, before == 0 ? 1 : 4.01 * before);  // a larger call is as fast, or faster
      before = seconds;
    }
  }
  EXPECT_LT(SecondsOfLast(Convolution("image", 64, 1, 1, 1024)),
            SecondsOfLast(Convolution("image", 64, 3, 1, 1024)));
}

TEST(H200Rates, OtherCardsAreSlowerByTheirDataSheets) {
  const Program conv = Convolution("image", 64, 3, 1, 1024);
  const double ratio = SecondsOfLast(conv, "NVIDIA T4") / SecondsOfLast(conv);
  EXPECT_GT(ratio, 12);  // a launch takes as long
  EXPECT_LT(ratio, 989.0 / 65);
}

// An op that none has measured gets low rates of its class.
TEST(H200Rates, UnmeasuredOpsAreTakenToBeSlow) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[16777216] input persistent
    forward
      %y: f32[16777216], %z: f32[7] = test_mix(%x) {n=16777216}
    )");
  const double bytes = 2 * 4 * 16777216.0;
  EXPECT_EQ(FindRate(H200Rates(), KindOfLast(program), graph::CostClass::kBandwidth), nullptr);
  EXPECT_GT(SecondsOfLast(program), bytes / 4e12);
  EXPECT_LT(SecondsOfLast(program), bytes / 2e12);
}

}  // namespace
}  // namespace plimsoll::memory
