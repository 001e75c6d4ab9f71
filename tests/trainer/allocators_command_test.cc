// memory.allocator, memory.summary and the memory timeline of a run, as users see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class AllocatorsCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string words;
    for (int i = 0; i < 300; ++i) words += "Word " + std::to_string(i) + " of the text.\n";
    const std::string text = folder_.Write("text", words);
    WriteFile(yaml_,
              "model: {family: gpt2, layers: 2, width: 32, heads: 2, sequence: 32, dropout: 0.1}\n"
              "data: {train: " +
                  text +
                  ", format: text, tokenizer: byte, eval_fraction: 0.1}\n"
                  "train: {steps: 5, micro_batch: 4, accumulate: 2, eval_every: 2, threads: 2}\n"
                  "run: {dir: " +
                  run_ + ", overwrite: true}\n");
  }

  Outcome Train(const std::vector<std::string>& sets) const {
    return RunPlimsoll(WithSets({"train", yaml_}, sets));
  }

  // The rows of all steps and evaluations, as written.
  std::vector<json> Rows() const { return JsonLines(ReadFile(run_ + "/metrics.jsonl")); }
  static std::vector<double> Losses(const std::vector<json>& rows) {
    std::vector<double> losses;
    for (const json& row : rows) {
      losses.push_back(row.contains("loss") ? row.at("loss") : row.at("eval_loss"));
    }
    return losses;
  }

  const TempFolder folder_;
  const std::string yaml_ = folder_ / "run.yaml";
  const std::string run_ = folder_ / "run";
};

TEST_F(AllocatorsCommand, CachingTrainsToTheSameBits) {
  const Outcome planned = ExpectExit(0, Train({}));
  const std::vector<double> losses = Losses(Rows());
  EXPECT_EQ(json::parse(ReadFile(run_ + "/plan.json")).at("allocator"), "planned");
  EXPECT_FALSE(Rows()[1].contains("reserved_bytes"));

  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{},
                                             {"memory.empty_cache_every=1"},
                                             {"debug.poison=true"},
                                             {"memory.preallocate=true", "memory.budget=32MiB"}}) {
    std::vector<std::string> sets = {"memory.allocator=caching", "memory.summary=full"};
    sets.insert(sets.end(), more.begin(), more.end());
    const Outcome outcome = ExpectExit(0, Train(sets));
    ExpectText(outcome.out,
               {"memory.allocator: caching", " reserved, ", "Memory summary, allocator caching"});
    const std::vector<json> rows = Rows();
    EXPECT_EQ(Losses(rows), losses);
    const json plan = json::parse(ReadFile(run_ + "/plan.json"));
    EXPECT_EQ(plan.at("allocator"), "caching");
    for (const json& row : rows) {
      if (!row.contains("loss")) continue;
      EXPECT_EQ(row.at("allocator"), "caching");
      EXPECT_GE(row.at("reserved_bytes"), plan.at("max_live_bytes"));
      if (more.empty()) {
        EXPECT_EQ(row.at("reserved_bytes"), plan.at("caching").at("reserved_bytes"));
      }
    }
    if (more.size() == 2) {
      EXPECT_EQ(rows[1].at("reserved_bytes"), 32 << 20);
    }
  }
}

TEST_F(AllocatorsCommand, TheSummaryComesAtTheEnd) {
  const Outcome outcome = ExpectExit(0, Train({"memory.summary=full"}));
  const size_t summary = outcome.out.find("Memory summary, allocator planned");
  ASSERT_NE(summary, std::string::npos) << outcome.out;
  EXPECT_GT(summary, outcome.out.find("step 4/5"));
  EXPECT_LT(outcome.out.find("arena "), outcome.out.find("step 0/5"));  // the plan in one line
  const std::string text = outcome.out.substr(summary);
  for (const char* part : {"parameters", "optimizer state", "op kinds by bytes at the peak",
                           "ms a step", "block.*.", "caching, replayed"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(Train({"memory.summary=true", "memory.summary_order=time"}).out,
              HasSubstr("op kinds by time"));
  for (const char* less : {"memory.summary=short", "memory.summary=false"}) {
    EXPECT_THAT(Train({less}).out, Not(HasSubstr("Memory summary")));
  }
}

// Of two temporaries with common bytes, one dies before the other is born, and at each node the
// bytes of all live tensors add up to the number in the timeline and the plan.
TEST_F(AllocatorsCommand, TheTimelineIsConsistent) {
  ExpectExit(0, Train({}));
  const json timeline = json::parse(ReadFile(run_ + "/memory_timeline.json"));
  const json plan = json::parse(ReadFile(run_ + "/plan.json"));
  EXPECT_EQ(timeline.at("arena_bytes"), plan.at("arena_bytes"));
  int64_t persistent = 0;
  for (const json& tensor : timeline.at("persistent")) {
    EXPECT_EQ(tensor.at("offset"), persistent);  // one after the other
    persistent += tensor.at("bytes").get<int64_t>();
  }
  EXPECT_EQ(timeline.at("persistent_bytes"), persistent);
  ASSERT_EQ(timeline.at("programs").size(), plan.at("programs").size());

  struct Buffer {
    int64_t begin, end;
    int birth, death;
  };
  for (size_t p = 0; p < plan.at("programs").size(); ++p) {
    const json& program = timeline.at("programs")[p];
    EXPECT_EQ(program.at("name"), plan.at("programs")[p].at("name"));
    const size_t nodes = program.at("nodes").size();
    EXPECT_EQ(nodes, plan.at("programs")[p].at("nodes"));
    std::vector<int64_t> live(nodes, persistent);
    std::vector<Buffer> buffers;
    for (const json& buffer : program.at("buffers")) {
      const int64_t offset = buffer.at("offset"), bytes = buffer.at("bytes");
      const Buffer b = {offset, offset + bytes, buffer.at("birth"), buffer.at("death")};
      EXPECT_GE(b.begin, persistent);
      EXPECT_LE(b.end, timeline.at("arena_bytes").get<int64_t>());
      for (int n = b.birth; n <= b.death; ++n) live[n] += bytes;
      for (const Buffer& other : buffers) {
        const bool together = b.birth <= other.death && other.birth <= b.death;
        EXPECT_FALSE(together && b.begin < other.end && other.begin < b.end)
            << buffer.at("name") << " overlaps another";
      }
      buffers.push_back(b);
    }
    EXPECT_EQ(program.at("live_bytes").get<std::vector<int64_t>>(), live);
    EXPECT_EQ(*std::max_element(live.begin(), live.end()),
              plan.at("programs")[p].at("max_live_bytes").get<int64_t>());
  }
}

TEST_F(AllocatorsCommand, SettingsThatDontGoTogether) {
  ExpectExit(2, Train({"memory.allocator=caching", "debug.check_arena=true"}),
             {"debug.check_arena"});
  ExpectExit(2, Train({"memory.allocator=caching", "memory.preallocate=true"}), {"memory.budget"});
}

}  // namespace
}  // namespace plimsoll
