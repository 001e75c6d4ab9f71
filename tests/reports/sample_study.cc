#include "tests/reports/sample_study.h"

#include <cmath>
#include <string>
#include <vector>

#include "reports/timeline_views.h"

namespace plimsoll::reports {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMiB = 1 << 20;

// A program of `blocks` blocks that keeps `kept` bytes of each for the backward pass.
ordered_json Timeline(int blocks, int64_t kept) {
  ordered_json nodes = ordered_json::array(), buffers = ordered_json::array();
  const int count = 4 * blocks;
  std::vector<int64_t> live(count, 600 * kMiB);
  int64_t offset = 600 * kMiB;
  auto buffer = [&](const std::string& name, const char* role, int birth, int death,
                    int64_t bytes) {
    buffers.push_back({{"name", name},
                       {"type", "f32[16,1024]"},
                       {"role", role},
                       {"op", "linear"},
                       {"scope", "block"},
                       {"place", "device"},
                       {"offset", offset},
                       {"bytes", bytes},
                       {"birth", birth},
                       {"death", death}});
    for (int n = birth; n <= death; ++n) live[n] += bytes;
  };
  for (int n = 0; n < count; ++n) {
    const bool forward = n < 2 * blocks;
    const int block = forward ? n / 2 : (count - 1 - n) / 2;
    nodes.push_back({{"op", n % 2 == 0 ? "linear" : "gelu"},
                     {"scope", "block." + std::to_string(block)},
                     {"phase", forward      ? "forward"
                               : n % 2 == 0 ? "recompute"
                                            : "backward"}});
  }
  for (int block = 0; block < blocks; ++block) {
    buffer("block." + std::to_string(block) + ".out", "activation", 2 * block,
           count - 1 - 2 * block, kept);
    offset += kept;
    buffer("block." + std::to_string(block) + ".scratch", "workspace", 2 * block, 2 * block, kept);
  }
  auto persistent = [](const char* name, const char* role, int64_t from, int64_t bytes) {
    return ordered_json{{"name", name},      {"type", "f32[1024]"}, {"role", role},
                        {"place", "device"}, {"offset", from},      {"bytes", bytes}};
  };
  ordered_json timeline = {{"arena_bytes", offset + kept},
                           {"persistent",
                            {persistent("w", "parameter", 0, 200 * kMiB),
                             persistent("w.m", "optimizer_state", 200 * kMiB, 400 * kMiB)}}};
  timeline["programs"].push_back({{"name", "train"},
                                  {"nodes", nodes},
                                  {"buffers", buffers},
                                  {"live_bytes", live},
                                  {"host_live_bytes", std::vector<int64_t>(count, 0)}});
  return timeline;
}

ordered_json Row(const std::string& name, const std::string& group, int64_t kept, double step_ms) {
  const ordered_json stack = MemoryStack(Timeline(12, kept));
  ordered_json steps = ordered_json::array(), losses = ordered_json::array();
  for (int step = 0; step < 60; ++step) {
    steps.push_back(step);
    losses.push_back(3 + 8 * std::exp(-step / 15.0) + 0.3 * std::sin(7.0 * step + step_ms));
  }
  return {{"name", name},
          {"group", group},
          {"step_ms", step_ms},
          {"step_ms_low", step_ms * 0.97},
          {"step_ms_high", step_ms * 1.04},
          {"tokens_per_s", 8192e3 / step_ms},
          {"mfu", 40.0 / step_ms},
          {"loss", losses.back()},
          {"peak_bytes", stack["programs"][0]["peak"]["bytes"]},
          {"bytes_by_role",
           {{"parameter", 200 * kMiB}, {"optimizer_state", 400 * kMiB}, {"activation", 12 * kept}}},
          {"timeline", stack},
          {"curve", {{"step", steps}, {"loss", losses}}}};
}

}  // namespace

// As many variants as a study of all techniques has, close together, with wide and one-sided
// spreads.
ordered_json CrowdedStudy() {
  struct Variant {
    const char* name;
    double mib, ms, low, high;
  };
  constexpr Variant kVariants[] = {{"base", 141.0, 170.9, 166.6, 216.2},
                                   {"selective", 108.2, 167.3, 164.2, 170.2},
                                   {"block", 72.1, 204.3, 199.4, 235.3},
                                   {"offload", 72.2, 201.9, 199.8, 262.9},
                                   {"auto, 110 MiB", 109.7, 167.5, 165.8, 169.6},
                                   {"bf16", 92.8, 170.9, 168.7, 227.4},
                                   {"bf16 alone", 86.6, 171.6, 169.4, 183.8},
                                   {"fp16", 99.0, 167.2, 164.7, 176.0},
                                   {"state in bf16", 128.6, 192.2, 172.0, 220.3},
                                   {"state in 8 bits", 122.6, 173.8, 171.3, 176.7},
                                   {"state on the host", 116.3, 167.9, 166.2, 177.0},
                                   {"4 micro-steps", 75.9, 183.7, 181.3, 197.5},
                                   {"all together", 25.0, 233.7, 225.1, 256.3}};
  ordered_json rows = ordered_json::array();
  for (const Variant& variant : kVariants) {
    rows.push_back({{"name", variant.name},
                    {"step_ms", variant.ms},
                    {"step_ms_low", variant.low},
                    {"step_ms_high", variant.high},
                    {"peak_bytes", std::llround(variant.mib * kMiB)},
                    {"budget_bytes", 110 * kMiB}});
    rows.back()["loss"] = 2.8125;
    rows.back()["loss_deviation"] = 0.015625;
    rows.back()["runs"] = 5;
    // One variant was not measured.
    if (rows.size() > 1) rows.back()["joules_per_token"] = variant.ms * 2e-5;
  }
  rows.front()["base"] = true;
  return {{"title", "Thirteen variants"},
          {"columns",
           {{{"key", "name"}, {"label", "variant"}},
            {{"key", "step_ms"}, {"label", "step"}, {"unit", "ms"}},
            {{"key", "joules_per_token"}, {"label", "a token"}, {"unit", "joules"}},
            {{"key", "loss"},
             {"label", "loss"},
             {"unit", "number"},
             {"deviation", "loss_deviation"},
             {"runs", "runs"}}}},
          {"rows", rows}};
}

ordered_json SampleStudy() {
  ordered_json rows = ordered_json::array();
  rows.push_back(Row("none", "fp32", 128 * kMiB, 120.5));
  rows.back()["base"] = true;
  rows.push_back(Row("selective", "fp32", 90 * kMiB, 122.25));
  rows.back()["marks"] = {{"step_ms", "cannot tell: 0.947 to 1.023"}};
  rows.back()["budget_bytes"] = 2048 * kMiB;
  rows.back()["arena_budget_bytes"] = 1900 * kMiB;
  // Of several seeds.
  const ordered_json losses = rows.back()["curve"]["loss"];
  for (const ordered_json& loss : losses) {
    rows.back()["curve"]["low"].push_back(loss.get<double>() - 0.2);
    rows.back()["curve"]["high"].push_back(loss.get<double>() + 0.3);
  }
  rows.push_back(Row("block", "fp32", 40 * kMiB, 141));
  rows.back()["curve"] = rows.front()["curve"];
  rows.push_back(Row("bf16", "bf16", 64 * kMiB, 70));
  rows.push_back(Row("bf16, block", "bf16", 20 * kMiB, 85));
  rows.push_back(Row("bf16, every 2", "bf16", 22 * kMiB, 84.5));
  rows.push_back(Row("</script><b>bold</b> & \"quoted\"", "bf16", 30 * kMiB, 95));
  rows.push_back({{"name", "auto at 1GiB"},
                  {"step_ms", nullptr},
                  {"note", "memory.budget 1.0 GiB: the smallest plan needs 1.2 GiB"}});
  rows.push_back({{"name", "pytorch"},
                  {"group", "other"},
                  {"step_ms", 131},
                  {"peak_bytes", 2600 * kMiB},
                  {"tokens_per_s", 62500}});
  return {{"title", "Techniques, one at a time <GPT-2>"},
          {"subtitle", "20 steps each on a machine of tests"},
          {"facts", ordered_json::array({{"program", "plimsoll"},
                                         {"hardware", "none"},
                                         {"[odd] $5 & 50 % of #1_{x}^2 ~\\|<>", "*a, \"b\"\nc"}})},
          {"columns",
           {{{"key", "name"}, {"label", "variant"}},
            {{"key", "step_ms"}, {"label", "step"}, {"unit", "ms"}},
            {{"key", "peak_bytes"}, {"label", "peak"}, {"unit", "bytes"}},
            {{"key", "tokens_per_s"}, {"label", "tokens/s"}, {"unit", "count"}},
            {{"key", "mfu"}, {"label", "MFU"}, {"unit", "percent"}},
            {{"key", "loss"}, {"label", "loss"}, {"unit", "number"}}}},
          {"rows", rows}};
}

}  // namespace plimsoll::reports
