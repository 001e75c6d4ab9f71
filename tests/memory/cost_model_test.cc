#include "memory/cost_model.h"

#include <gtest/gtest.h>

#include <string>

#include "base/axes.h"
#include "graph/text.h"
#include "memory/block_options.h"
#include "memory/step_use.h"

namespace plimsoll::memory {
namespace {

using graph::Program;
using graph::Retention;

// One product of `rows` rows.
Program Product(int rows, const std::string& dtype = "f32") {
  const std::string r = std::to_string(rows);
  return graph::ParseProgram("program p\n  tensor %x: " + dtype + "[" + r +
                             ",64] input persistent\n  tensor %w: " + dtype +
                             "[32,64] parameter persistent\nforward\n  %y: " + dtype + "[" + r +
                             ",32] = linear(%x, %w, _)\n");
}

double Seconds(const CostModel& model, const Program& program) {
  return model.ProgramSeconds(program);
}

void Measure(CostModel& model, const Program& program, double seconds) {
  const Program::Call call = program.CallOf(program.nodes()[0]);
  model.Add({SignatureOf(call.get()), KindOf(call.get()), model.Ideal(call.get()), seconds});
}

TEST(CostModel, NamesCallsByOpAttributesAndTypes) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[2,8] input persistent
      tensor %rng: i32[2] input persistent
    forward
      %y: f32[2,8] = dropout(%x, %rng) {key=7, p=0.1}
      %z: f32[2,8] = dropout(%x, %rng) {key=8, p=0.2}
      %a: f32[2,8] = dropout(%x, %rng) {key=8, p=0.0}
    )");
  const auto name = [&](int n) { return SignatureOf(program.CallOf(program.nodes()[n]).get()); };
  EXPECT_EQ(name(0), "dropout f32[2,8] i32[2] -> f32[2,8] p=real");
  EXPECT_EQ(name(1), name(0));  // the draws differ, the work doesn't
  EXPECT_EQ(name(2), "dropout f32[2,8] i32[2] -> f32[2,8] p=0");
  EXPECT_EQ(KindOf(program.CallOf(program.nodes()[0]).get()), "dropout f32 i32");
}

TEST(CostModel, TakesWhatWasMeasured) {
  CostModel model;
  Measure(model, Product(100), 0.25);
  Measure(model, Product(200), 0.75);
  EXPECT_EQ(Seconds(model, Product(100)), 0.25);
  EXPECT_EQ(Seconds(model, Product(200)), 0.75);
  Measure(model, Product(100), 0.5);
  EXPECT_EQ(Seconds(model, Product(100)), 0.5);
}

TEST(CostModel, ScalesFromTheNearestPointOfTheKind) {
  CostModel model;
  const auto ideal = [&](const Program& p) { return model.Ideal(p.CallOf(p.nodes()[0]).get()); };
  const double small = ideal(Product(1 << 10)), large = ideal(Product(1 << 20));
  Measure(model, Product(1 << 10), 3 * small);
  Measure(model, Product(1 << 20), 5 * large);
  EXPECT_DOUBLE_EQ(Seconds(model, Product(1 << 11)), 3 * ideal(Product(1 << 11)));
  EXPECT_DOUBLE_EQ(Seconds(model, Product(1 << 19)), 5 * ideal(Product(1 << 19)));
  EXPECT_DOUBLE_EQ(Seconds(model, Product(1 << 5)), 3 * ideal(Product(1 << 5)));
  EXPECT_DOUBLE_EQ(Seconds(model, Product(1 << 22)), 5 * ideal(Product(1 << 22)));
  // Another dtype is another kind: nothing is known about it.
  EXPECT_DOUBLE_EQ(Seconds(model, Product(1 << 11, "bf16")), ideal(Product(1 << 11, "bf16")));
}

TEST(CostModel, BuiltInRatesAreBoundByWorkOrBytes) {
  const CostModel one(1), four(4);
  const Program product = Product(1 << 16);
  EXPECT_GT(Seconds(one, product), 3.9 * Seconds(four, product) - 1e-5);
  EXPECT_GT(Seconds(one, Product(1 << 17)), 1.9 * Seconds(one, product));
  EXPECT_FALSE(one.measured());
  const Program view = graph::ParseProgram(R"(
    program p
      tensor %x: f32[2,8] input persistent
    forward
      %y: f32[16] view %x+0 = view(%x) {shape="16"}
    )");
  EXPECT_EQ(Seconds(one, view), 0);
}

TEST(CostModel, TheGpuIsFasterInSixteenBits) {
  const CostModel gpu(DeviceRates::Gpu());
  const double low = Seconds(gpu, Product(1 << 20, "bf16"));
  EXPECT_LT(low, Seconds(gpu, Product(1 << 20)));
  EXPECT_LT(low, Seconds(CostModel(16), Product(1 << 20, "bf16")));
  EXPECT_GT(low, 1e-6);  // a launch
}

// A product of square matrices of 8,192 rows.
Program SquareProduct(const std::string& type) {
  const std::string matrix = type + "[8192,8192] input persistent\n";
  return graph::ParseProgram("program p\n  tensor %x: " + matrix + "  tensor %w: " + matrix +
                             "forward\n  %y: " + type + "[8192,8192] = linear(%x, %w, _)\n");
}

// The rates of another GPU are scaled by the ratio of both peaks, FLOPs and bytes each by their
// own; a launch takes as long.
TEST(CostModel, RatesOfOtherGpusAreScaled) {
  const CostModel h200(DeviceRates::Gpu()), t4(DeviceRates::Gpu("NVIDIA T4")),
      a100(DeviceRates::Gpu("NVIDIA A100 80 GB"));
  const auto ratio = [&](const CostModel& gpu, const Program& program) {
    return Seconds(gpu, program) / Seconds(h200, program);
  };
  // Nearly all of it is FLOPs.
  EXPECT_NEAR(ratio(t4, SquareProduct("bf16")), 989.0 / 65, 0.05 * 989 / 65);
  EXPECT_NEAR(ratio(a100, SquareProduct("bf16")), 989.0 / 312, 0.05 * 989 / 312);
  EXPECT_NEAR(ratio(t4, SquareProduct("f32")), 67 / 8.1, 0.05 * 67 / 8.1);
  const Program sum = graph::ParseProgram(R"(
    program p
      tensor %x: f32[16777216] input persistent
    forward
      %y: f32[16777216] = add(%x, %x)
    )");
  EXPECT_NEAR(ratio(t4, sum), 4.8 / 0.32, 0.05 * 4.8 / 0.32);
  EXPECT_EQ(ratio(CostModel(DeviceRates::Gpu("a card of next year")), sum), 1);
  EXPECT_GT(t4.rates().CopySeconds(1e9), 3.9 * h200.rates().CopySeconds(1e9));
}

// The data sheets of some cards give TF32 no more FLOPs than float32.
TEST(CostModel, Tf32IsNotSlowerThanFloat32) {
  const auto seconds = [](const std::string& call, const std::string& tf32, const char* gpu,
                          ComputeCapability capability) {
    const Program program = graph::ParseProgram(
        "program p\n  tensor %x: f32[32,32,32,128] input persistent\n"
        "  tensor %k: f32[128,3,3,128] parameter persistent\n"
        "  tensor %q: f32[8,1024,2304] input persistent\nforward\n  %y: " +
        call + tf32 + "}\n");
    return Seconds(CostModel(DeviceRates::Gpu(gpu, capability)), program);
  };
  const std::string conv =
      "f32[32,32,32,128] = conv(%x, %k, _) {dilation_h=1, dilation_w=1, groups=1, pad_h=1, "
      "pad_w=1, stride_h=1, stride_w=1";
  const std::string attention =
      "f32[8,1024,768] = attention(%q, _, _, _) {causal=true, dropout=0.0, heads=12, kv_heads=12";
  const std::string tf32 = ", tf32=true";
  const char* const rtx3090 = "NVIDIA GeForce RTX 3090";
  const char* const a6000 = "NVIDIA RTX A6000";
  EXPECT_LT(seconds(conv, tf32, rtx3090, {8, 6}), 0.5 * seconds(conv, "", rtx3090, {8, 6}));
  EXPECT_LE(seconds(attention, tf32, a6000, {8, 6}), seconds(attention, "", a6000, {8, 6}));
  EXPECT_EQ(seconds(conv, tf32, "NVIDIA T4", {7, 5}), seconds(conv, "", "NVIDIA T4", {7, 5}));
}

// Before 8.0, attention in 16 bits has no kernels for tensor cores.
TEST(CostModel, AttentionBefore80IsThatOfFloat32) {
  const auto seconds = [](const std::string& type, ComputeCapability capability) {
    const Program program = graph::ParseProgram(
        "program p\n  tensor %q: " + type +
        "[8,1024,2304] input persistent\nforward\n  %y: " + type +
        "[8,1024,768] = attention(%q, _, _, _) {causal=true, dropout=0.0, heads=12, "
        "kv_heads=12}\n");
    return Seconds(CostModel(DeviceRates::Gpu("NVIDIA T4", capability)), program);
  };
  EXPECT_GT(seconds("f16", {7, 5}), 5 * seconds("f16", {8, 0}));
  EXPECT_NEAR(seconds("f16", {7, 5}) / seconds("f32", {7, 5}), 1, 0.3);
}

TEST(CostModel, EightBitProductsHaveRatesOfTheirOwn) {
  const auto product = [](const std::string& acc, const std::string& type) {
    return graph::ParseProgram(R"(program p
      tensor %x: e5m2[8192,8192] input persistent
      tensor %w: e4m3[8192,8192] input persistent
      tensor %one: f32[] input persistent
      tensor %sum: f32[8192,8192] gradient persistent
    forward
      %y: )" + type + "[8192,8192] = scaled_linear(%x, %w, %one, %one, _, " +
                               acc + ") {dtype=\"" + type + "\"}\n");
  };
  const Program made = product("_", "bf16"), added = product("%sum", "f32");
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const auto rate = [&](const char* gpu, const Program& program) {
    return flops / Seconds(CostModel(DeviceRates::Gpu(gpu)), program);
  };
  const double low = rate("NVIDIA H200", SquareProduct("bf16"));
  EXPECT_GT(rate("NVIDIA H200", made), 1.3 * low);
  EXPECT_LT(rate("NVIDIA H200", made), 1979e12);
  EXPECT_LT(rate("NVIDIA H200", added), rate("NVIDIA H200", made));  // which reads and writes more
  EXPECT_NEAR(rate("NVIDIA L40S", made) / rate("NVIDIA H200", made), 733.0 / 1979, 0.06);
  // Without units for them, at most as fast as 16 bits could be.
  EXPECT_LT(rate("NVIDIA A100 80 GB", made), 312e12);
  EXPECT_GT(rate("NVIDIA A100 80 GB", made), 0.4 * 312e12);
  EXPECT_NEAR(Seconds(CostModel(DeviceRates::Cpu(1)), made), flops / 150e9, 1e-3);

  const Program codes = graph::ParseProgram(R"(
    program p
      tensor %x: bf16[8192,8192] input persistent
      tensor %l: f32[] input persistent
    forward
      %c: e4m3[8192,8192], %t: e4m3[8192,8192], %s: f32[], _ = quantize(%x, %l, _) {dtype="e4m3"}
    )");
  const double bytes = 4.0 * 8192 * 8192 + 8;  // a read, two writes, the scalars
  EXPECT_LT(bytes / Seconds(CostModel(DeviceRates::Gpu()), codes), 4.8e12);
  EXPECT_NEAR(Seconds(CostModel(DeviceRates::Cpu(1)), codes), bytes / 2e9, 1e-4);

  EXPECT_TRUE(DeviceRates::Gpu().multiplies_codes());
  EXPECT_TRUE(DeviceRates::Gpu("a card of next year").multiplies_codes());
  EXPECT_FALSE(DeviceRates::Gpu("NVIDIA A100 80 GB").multiplies_codes());
  EXPECT_TRUE(DeviceRates::Cpu(1).multiplies_codes());
}

// By what passes over links; work beside those of data ranks becomes slower.
TEST(CostModel, CollectivesOfGpusTakeTheirTime) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[16777216] input persistent
      tensor %y: f32[16777216] input persistent
      tensor %z: f32[4194304] input persistent
    forward
      %a: f32[16777216] = all_reduce_start(%x) {axis="data"}
      %sum: f32[16777216] view %a+0 = all_reduce_done(%a)
      %b: f32[8388608] = reduce_scatter_start(%y) {axis="tensor", d0=8388608, rank=1}
      %part: f32[8388608] view %b+0 = reduce_scatter_done(%b, %y)
      %c: f32[16777216] = all_gather_start(%z) {axis="data", d0=16777216, rank=1}
      %whole: f32[16777216] view %c+0 = all_gather_done(%c, %z)
    )");
  CostModel h200(DeviceRates::Gpu()), a100(DeviceRates::Gpu("NVIDIA A100 80 GB"));
  const Mesh mesh({DataAxis(4), TensorAxis(2)});
  h200.SetMesh(mesh);
  a100.SetMesh(mesh);
  const double bytes = 4 * 16777216.0, call = 10e-6;
  const std::vector<double> seconds = h200.NodeSeconds(program);
  EXPECT_NEAR(seconds[0], 0.5 * (call + 2 * 0.75 * bytes / 259e9), 1e-9);
  EXPECT_NEAR(seconds[2], call + 0.5 * bytes / 189e9, 1e-9);
  EXPECT_NEAR(seconds[4], 0.9 * (call + 0.75 * bytes / 371e9), 1e-9);  // by copy engines
  EXPECT_EQ(seconds[1] + seconds[3] + seconds[5], 0);
  EXPECT_NEAR(a100.ProgramSeconds(program), 1.5 * h200.ProgramSeconds(program), 1e-9);  // NVLink 3
}

TEST(CostModel, RatesSayWhoseTheyAre) {
  EXPECT_EQ(DeviceRates::Gpu().Origin(), "of an NVIDIA H200");
  EXPECT_EQ(DeviceRates::Gpu("Tesla T4").Origin(),
            "of an NVIDIA H200, scaled to the data sheet of an NVIDIA T4, never measured there");
  EXPECT_EQ(DeviceRates::Gpu("NVIDIA GB10").Origin(),
            "of an NVIDIA H200; none of the NVIDIA GB10 are known");
  EXPECT_EQ(DeviceRates::Gpu("NVIDIA GeForce RTX 4090", {8, 9}).Origin(),
            "of an NVIDIA H200 without Hopper's kernels, scaled to the data sheet of an NVIDIA "
            "GeForce RTX 4090, never measured there");
  EXPECT_EQ(DeviceRates::Cpu(2).Origin(), "");
}

// x goes to the host and comes back while products run.
Program RoundTrip(int rows) {
  const std::string r = std::to_string(rows);
  return graph::ParseProgram(R"(
    program p
      tensor %x: f32[16777216] input persistent
      tensor %a: f32[)" + r + R"(,4096] input persistent
      tensor %w: f32[4096,4096] parameter persistent
    forward
      %away: f32[16777216] host = copy_start(%x)
      %y: f32[)" + r + R"(,4096] = linear(%a, %w, _)
      %there: f32[16777216] host view %away+0 = copy_done(%away, %x)
      %back: f32[16777216] = copy_start(%there)
      %z: f32[)" + r + R"(,4096] = linear(%y, %w, _)
      %here: f32[16777216] view %back+0 = copy_done(%back, %there)
    )");
}

TEST(CostModel, CopiesOfTheGpuHideBehindOps) {
  const CostModel gpu(DeviceRates::Gpu());
  const double copy = gpu.rates().CopySeconds(4 * 16777216.0);
  const Program idle = RoundTrip(1);
  const std::vector<double> waits = gpu.NodeSeconds(idle);
  EXPECT_NEAR(gpu.ProgramSeconds(idle), 2 * copy, 1e-9);  // to the host, and only then back
  EXPECT_EQ(waits[0], 0);
  EXPECT_NEAR(waits[2], copy - waits[1], 1e-9);
  const Program busy = RoundTrip(1 << 16);
  const std::vector<double> hidden = gpu.NodeSeconds(busy);
  EXPECT_EQ(hidden[2], 0);
  EXPECT_EQ(hidden[5], 0);
  EXPECT_NEAR(gpu.ProgramSeconds(busy), hidden[1] + hidden[4], 1e-9);
  // On the CPU copies are work like any other.
  EXPECT_GT(CostModel(1).NodeSeconds(busy)[0], 0);
}

// Both ways at once each is slower, for as long as both are busy.
TEST(CostModel, CopiesTakeTheMeasuredLink) {
  CostModel gpu(DeviceRates::Gpu());
  const double built_in = gpu.rates().CopySeconds(1e9);
  EXPECT_EQ(gpu.rates().CopySeconds(1e9, graph::Place::kDevice, 1e-3), built_in);
  EXPECT_FALSE(gpu.rates().link().measured);
  gpu.SetLink({50e9, 40e9, 25e9, 20e9, true});
  const DeviceRates& rates = gpu.rates();
  EXPECT_NEAR(rates.CopySeconds(1e9, graph::Place::kDevice), 20e-3, 1e-5);
  EXPECT_NEAR(rates.CopySeconds(1e9, graph::Place::kHost), 25e-3, 1e-5);
  EXPECT_NEAR(rates.CopySeconds(1e9, graph::Place::kDevice, 1), 40e-3, 1e-5);
  EXPECT_NEAR(rates.CopySeconds(1e9, graph::Place::kHost, 10e-3), 10e-3 + 20e-3, 1e-5);

  const Program there_and_back = graph::ParseProgram(R"(
    program p
      tensor %x: f32[250000000] input persistent
      tensor %y: f32[250000000] input persistent host
    forward
      %away: f32[250000000] host = copy_start(%x)
      %back: f32[250000000] = copy_start(%y)
      %there: f32[250000000] host view %away+0 = copy_done(%away, %x)
      %here: f32[250000000] view %back+0 = copy_done(%back, %y)
    )");
  // To the host for 25 ms; meanwhile 625e6 bytes come at 25e9, and then the others at 50e9.
  EXPECT_NEAR(gpu.ProgramSeconds(there_and_back), 25e-3 + 7.5e-3, 1e-5);
}

// As long as a copy is under way.
TEST(CostModel, OpsBesideCopiesAreSlower) {
  const CostModel gpu(DeviceRates::Gpu());
  const double slow = gpu.rates().copies_slow();
  ASSERT_GT(slow, 0);
  EXPECT_EQ(CostModel(1).rates().copies_slow(), 0);
  const Program busy = RoundTrip(1 << 16), idle = RoundTrip(1);
  const auto alone = [&](const Program& program, size_t node) {
    return gpu.Seconds(program.CallOf(program.nodes()[node]).get());
  };
  const double copy = gpu.rates().CopySeconds(4 * 16777216.0);
  EXPECT_NEAR(gpu.NodeSeconds(busy)[1], alone(busy, 1) + slow * copy, 1e-12);
  EXPECT_NEAR(gpu.NodeSeconds(idle)[1], alone(idle, 1) * (1 + slow), 1e-12);
}

// A block in which the cost of recomputing `gelu` depends on whether `up` was kept.
TEST(BlockOptions, FollowTheChainRule) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[64,16] input persistent
      tensor %w: f32[64,16] parameter persistent
      tensor %v: f32[16,64] parameter persistent
    forward
      %block.0.up: f32[64,64] = linear(%x, %w, _) @block.0
      %block.0.gelu: f32[64,64] = gelu(%block.0.up) {approximate="tanh"} @block.0
      %block.0.out: f32[64,16] = linear(%block.0.gelu, %v, _) @block.0
      %block.1.up: f32[64,64] = linear(%block.0.out, %w, _) @block.1
    backward
      %read: f32[64,64] = add(%block.0.up, %block.0.gelu)
    )");
  const std::vector<Decision> decisions = {
      {{"block.0.up"}, 0, 0, 1000}, {{"block.0.gelu"}, 1, 0, 1000}, {{"block.0.out"}, 2, 0, 100}};
  const std::vector<double> seconds = {8, 1, 16, 8, 1};
  const std::vector<int> block = {0, 1, 2};
  const std::vector<BlockOption> options =
      FindBlockOptions(program, decisions, block, seconds, {.options = 3, .leaving = false});
  // Not without `out`, which the next block reads. Dropping gelu costs gelu; dropping both costs
  // gelu and the product once.
  ASSERT_EQ(options.size(), 3u);
  constexpr Retention kSave = Retention::kSave, kRecompute = Retention::kRecompute;
  EXPECT_EQ(options[0].fates, (std::vector{kRecompute, kRecompute, kSave}));
  EXPECT_EQ(options[0].kept_bytes, 100);
  EXPECT_EQ(options[0].seconds, 9);
  EXPECT_EQ(options[1].fates, (std::vector{kSave, kRecompute, kSave}));
  EXPECT_EQ(options[1].kept_bytes, 1100);
  EXPECT_EQ(options[1].seconds, 1);
  EXPECT_EQ(options[2].kept_bytes, 2100);
  EXPECT_EQ(options[2].seconds, 0);
}

TEST(BlockOptions, OffloadWhereAllowed) {
  const Program program = graph::ParseProgram(R"(
    program p
      tensor %x: f32[64,16] input persistent
    forward
      %a: f32[64,16] = gelu(%x) {approximate="tanh"}
    backward
      %read: f32[64,16] = add(%a, %x)
    )");
  const std::vector<Decision> decisions = {
      {.tensors = {"a"}, .node = 0, .bytes = 4096, .offload = true, .copy_seconds = 0.25}};
  const std::vector<int> all = {0};
  const std::vector<BlockOption> options =
      FindBlockOptions(program, decisions, all, std::vector<double>{2, 1});
  ASSERT_FALSE(options.empty());
  EXPECT_EQ(options[0].fates[0], Retention::kOffload);
  EXPECT_EQ(options[0].host_bytes, 4096);
  EXPECT_EQ(options[0].kept_bytes, 0);
  EXPECT_EQ(options[0].seconds, 0.5);  // to the host and back
  // Next to other work only the exposed rest counts.
  BlockOptionsLimits limits;
  limits.hidden_seconds = 0.125;
  EXPECT_EQ(FindBlockOptions(program, decisions, all, std::vector<double>{2, 1}, limits)[0].seconds,
            0.25);
}

}  // namespace
}  // namespace plimsoll::memory
