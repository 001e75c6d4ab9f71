// What ranks call is read from their programs, and proved to meet: parallel/prove_calls.h.
#include "parallel/rank_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "parallel/prove_calls.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using Kind = RankCall::Kind;
using testing::HasSubstr;
using testing::StartsWith;

// Sums along both axes, in two halves and in one.
constexpr std::string_view kSums = R"(program train
  tensor %x: f32[4,8] input persistent
  tensor %targets: i32[4] input persistent
  tensor %scale: f32[] input persistent
  tensor %w: f32[16,8] parameter persistent
forward
  %a: f32[4,8] = all_reduce_start(%x) {axis="data"} @block.0
  %b: f32[2,8] = reduce_scatter_start(%x) {axis="tensor", d0=2, d1=8, rank=2}
  %a.done: f32[4,8] view %a+0 = all_reduce_done(%a) @block.0
  %b.done: f32[2,8] view %b+0 = reduce_scatter_done(%b, %x)
  %loss: f32[], _ = linear_cross_entropy(%a.done, %w, %targets, %scale, _) {axis="tensor"} @head
)";

std::vector<std::string> TextsOf(const CallList& list) {
  std::vector<std::string> texts;
  for (const RankCall& call : list.calls) texts.push_back(Text(call));
  return texts;
}

TEST(RankCalls, AreTheCollectivesOfAProgramInTheirOrder) {
  const CallList list = CallsOf(graph::Parse(std::string(kSums)));
  EXPECT_EQ(list.program, "train");
  EXPECT_THAT(
      TextsOf(list),
      testing::ElementsAre(
          R"(all_reduce_start of %a @block.0: f32[4,8] → f32[4,8] {axis="data"})",
          R"(reduce_scatter_start of %b: f32[4,8] → f32[2,8] {axis="tensor", d0=2, d1=8, rank=2})",
          "all_reduce_done of %a @block.0: f32[4,8] → f32[4,8]",
          "reduce_scatter_done of %b: f32[2,8], f32[4,8] → f32[2,8]",
          "linear_cross_entropy of %loss @head: f32[4,8], f32[16,8], i32[4], f32[], _ → f32[], _ "
          R"({axis="tensor"})"));
}

using Calls = std::vector<RankCall>;

RankCalls RankOf(Calls calls, int64_t times = 2) {
  RankCalls rank;
  rank.lists = {std::make_shared<const CallList>(CallList{"train", std::move(calls)})};
  rank.order = {{.list = 0, .times = times}};
  return rank;
}

// Four ranks, data × tensor, of which one has other calls.
class OneOfFour : public testing::Test {
 protected:
  CallProof Prove(int changed, const Calls& calls) {
    std::vector<RankCalls> ranks(4, RankOf(calls_));
    ranks[changed] = RankOf(calls);
    return ProveCalls(mesh_, ranks);
  }
  void ExpectNamed(const Calls& calls, const std::vector<std::string>& parts) {
    const std::string problem = Prove(3, calls).problem;
    EXPECT_THAT(problem, StartsWith("rank 3 in program 'train': "));
    for (const std::string& part : parts) EXPECT_THAT(problem, HasSubstr(part));
  }

  const Mesh mesh_{{DataAxis(2), TensorAxis(2)}};
  const Calls calls_ = CallsOf(graph::Parse(std::string(kSums))).calls;
};

TEST_F(OneOfFour, MeetsWithEqualCalls) {
  const CallProof proof = Prove(3, calls_);
  EXPECT_EQ(proof.problem, "");
  EXPECT_EQ(proof.collectives, 6);  // three, each in two groups
  EXPECT_EQ(proof.pairs, 0);
  EXPECT_EQ(proof.programs, 1);
}

TEST_F(OneOfFour, IsNamedWhereACallIsMissing) {
  Calls calls = calls_;
  calls.erase(calls.begin());
  ExpectNamed(calls, {"'train': reduce_scatter_start of %b", "where rank 1 has all_reduce_start"});
  calls = calls_;
  calls.pop_back();
  ExpectNamed(calls, {"'train': no more calls", "linear_cross_entropy of %loss @head"});
}

TEST_F(OneOfFour, IsNamedWhereACallIsDoubled) {
  Calls calls = calls_;
  calls.insert(calls.begin(), calls[0]);
  ExpectNamed(calls, {"'train': all_reduce_start of %a", "has reduce_scatter_start of %b"});
}

TEST_F(OneOfFour, IsNamedWhereCallsAreSwapped) {
  Calls calls = calls_;
  std::swap(calls[0], calls[1]);  // of two axes
  ExpectNamed(calls, {"'train': reduce_scatter_start of %b", "where rank 1 has all_reduce_start"});
  calls = calls_;
  std::swap(calls[1], calls[4]);  // of one axis
  ExpectNamed(calls, {"'train': linear_cross_entropy", "where rank 1 has reduce_scatter_start"});
}

TEST_F(OneOfFour, IsNamedWhereTypesOrAttributesDiffer) {
  Calls calls = calls_;
  calls[0].types = "bf16[4,8] → bf16[4,8]";
  ExpectNamed(calls, {"bf16[4,8]", "f32[4,8] → f32[4,8]"});
  calls = calls_;
  calls[0].details = R"({axis="data", reduction="max"})";
  ExpectNamed(calls, {R"(reduction="max")"});
  calls = calls_;
  calls[0].stream = kTensorAxis;
  calls[0].details = R"({axis="tensor"})";
  ExpectNamed(calls, {R"({axis="tensor"}, where rank 1 has)", R"({axis="data"})"});
}

TEST_F(OneOfFour, RunsItsProgramsAsOftenAsTheOthers) {
  std::vector<RankCalls> ranks(4, RankOf(calls_, 3));
  EXPECT_EQ(ProveCalls(mesh_, ranks).problem, "");
  ranks[3] = RankOf(calls_, 4);
  EXPECT_EQ(ProveCalls(mesh_, ranks).problem, "rank 3 is in program 'train' 4 times, and rank 1 3");
  ranks[3] = RankOf(calls_, 3);
  ranks[3].order.push_back({.list = 0});
  EXPECT_EQ(ProveCalls(mesh_, ranks).problem, "rank 3 runs 2 lists of calls, and rank 1 1");
}

// What all ranks do wrong alike.
TEST_F(OneOfFour, AwaitsWhatItStarts) {
  const auto problem = [&](const Calls& calls) {
    return ProveCalls(mesh_, std::vector<RankCalls>(4, RankOf(calls))).problem;
  };
  Calls calls = calls_;
  calls.erase(calls.begin() + 2);
  EXPECT_THAT(problem(calls), HasSubstr("all_reduce_start of %a @block.0"));
  EXPECT_THAT(problem(calls), HasSubstr("whose end is never awaited"));
  calls = calls_;
  calls.insert(calls.begin() + 2, calls[2]);
  EXPECT_THAT(problem(calls), HasSubstr("all_reduce_done of %a"));
  EXPECT_THAT(problem(calls), HasSubstr("which nothing started"));
  calls = calls_;
  calls.insert(calls.begin(), calls[0]);
  EXPECT_THAT(problem(calls), HasSubstr("which starts again before its end"));
}

// Ranks with programs of their own along an axis: stages, of which all reduce along it.
constexpr std::string_view kStages = "stages";
const Mesh kTwoStages({{.name = std::string(kStages), .ranks = 2}});

RankCall SumOfStages(const std::string& tensor = "norm") {
  return {.op = "all_reduce_start",
          .tensor = tensor,
          .scope = "",
          .types = "f32[] → f32[]",
          .details = R"({axis="stages"})",
          .stream = std::string(kStages)};
}

RankCall DoneOf(RankCall call) {
  call.kind = call.transfer() ? Kind::kTransferDone : Kind::kCollectiveDone;
  return call;
}

RankCall Transfer(Kind kind, int64_t peer, int64_t micro_batch, bool blocks = true) {
  return {.kind = kind,
          .op = "",
          .tensor = kind == Kind::kSend ? "out" : "in",
          .scope = "",
          .types = "f32[4,8]",
          .details = "",
          .stream = "down",
          .blocks = blocks,
          .peer = peer,
          .micro_batch = micro_batch};
}

CallProof ProveStages(const Calls& first, const Calls& second) {
  const RankCalls ranks[] = {RankOf(first), RankOf(second)};
  return ProveCalls(kTwoStages, ranks, kStages);
}

TEST(RankCallsOfStages, MeetSendWithReceive) {
  Calls first, second;
  for (int64_t i = 0; i < 3; ++i) {
    first.push_back(Transfer(Kind::kSend, 1, i));
    second.push_back(Transfer(Kind::kReceive, 0, i));
  }
  for (Calls* calls : {&first, &second}) {
    calls->push_back(SumOfStages());
    calls->push_back(DoneOf(SumOfStages()));
  }
  const CallProof proof = ProveStages(first, second);
  EXPECT_EQ(proof.problem, "");
  EXPECT_EQ(proof.pairs, 3);
  EXPECT_EQ(proof.collectives, 1);
}

TEST(RankCallsOfStages, NamesASendWithoutReceive) {
  EXPECT_EQ(ProveStages({Transfer(Kind::kSend, 1, 0)}, {}).problem,
            "deadlock: rank 0 in program 'train': send of %out (f32[4,8], micro-batch 0, slot 0) "
            "to rank 1, waits for rank 1; rank 1 has ended");
  // Also where the sender does not block, and where it awaits nothing.
  const RankCall send = Transfer(Kind::kSend, 1, 0, false);
  EXPECT_THAT(ProveStages({send, DoneOf(send)}, {}).problem, HasSubstr("rank 1 has ended"));
  EXPECT_THAT(ProveStages({send}, {Transfer(Kind::kReceive, 0, 0)}).problem,
              HasSubstr("rank 0 in program 'train': send of %out"));
}

TEST(RankCallsOfStages, NamesReceivesThatAreMissingDoubledOrSwapped) {
  const Calls sends = {Transfer(Kind::kSend, 1, 0), Transfer(Kind::kSend, 1, 1)};
  const Calls receives = {Transfer(Kind::kReceive, 0, 0), Transfer(Kind::kReceive, 0, 1)};
  EXPECT_EQ(ProveStages(sends, receives).problem, "");
  const std::string swapped = ProveStages(sends, {receives[1], receives[0]}).problem;
  EXPECT_THAT(swapped, HasSubstr("receive of %in (f32[4,8], micro-batch 1, slot 0) from rank 0"));
  EXPECT_THAT(swapped, HasSubstr("it meets rank 0 in program 'train': send of %out (f32[4,8], "
                                 "micro-batch 0"));
  EXPECT_THAT(ProveStages(sends, {receives[1]}).problem, HasSubstr("micro-batch 1"));
  EXPECT_THAT(ProveStages(sends, {receives[0], receives[0], receives[1]}).problem,
              HasSubstr("micro-batch 0"));
}

TEST(RankCallsOfStages, NamesTransfersOfAnotherType) {
  RankCall receive = Transfer(Kind::kReceive, 0, 0);
  receive.types = "bf16[4,8]";
  EXPECT_THAT(ProveStages({Transfer(Kind::kSend, 1, 0)}, {receive}).problem,
              HasSubstr("bf16[4,8]"));
}

// Each waits for what the other sends later.
TEST(RankCallsOfStages, NamesACycle) {
  const auto problem = [](Kind before, Kind after) {
    const auto calls = [&](int64_t peer) {
      Calls both = {Transfer(before, peer, 0), Transfer(after, peer, 0)};
      both[0].stream =
          before == Kind::kSend ? (peer == 1 ? "down" : "up") : (peer == 1 ? "up" : "down");
      both[1].stream =
          after == Kind::kSend ? (peer == 1 ? "down" : "up") : (peer == 1 ? "up" : "down");
      return both;
    };
    return ProveStages(calls(1), calls(0)).problem;
  };
  EXPECT_EQ(problem(Kind::kReceive, Kind::kSend),
            "deadlock: rank 0 in program 'train': receive of %in (f32[4,8], micro-batch 0, slot 0) "
            "from rank 1, waits for rank 1; rank 1 in program 'train': receive of %in (f32[4,8], "
            "micro-batch 0, slot 0) from rank 0, waits for rank 0");
  // Without buffers.
  EXPECT_THAT(problem(Kind::kSend, Kind::kSend), StartsWith("deadlock: rank 0"));
  EXPECT_THAT(problem(Kind::kSend, Kind::kReceive), StartsWith("deadlock: rank 0"));
}

// Sends that don't block meet, whatever comes first.
TEST(RankCallsOfStages, GoOnUntilTheDone) {
  const auto calls = [](int64_t peer) {
    RankCall send = Transfer(Kind::kSend, peer, 0, false);
    RankCall receive = Transfer(Kind::kReceive, peer, 0);
    send.stream = peer == 1 ? "down" : "up";
    receive.stream = peer == 1 ? "up" : "down";
    return Calls{send, receive, DoneOf(send)};
  };
  const CallProof proof = ProveStages(calls(1), calls(0));
  EXPECT_EQ(proof.problem, "");
  EXPECT_EQ(proof.pairs, 2);
}

// Data ranks of a stage have equal calls, of peers that are equally far.
TEST(RankCallsOfStages, AreAlikeOnDataRanks) {
  const Mesh mesh({PipelineAxis(2), DataAxis(2)});
  std::vector<RankCalls> ranks;
  for (const int64_t rank : {0, 1}) {
    const RankCall send = Transfer(Kind::kSend, rank + 2, 0, false);
    ranks.push_back(RankOf({send, DoneOf(send)}));
  }
  for (const int64_t rank : {2, 3})
    ranks.push_back(RankOf({Transfer(Kind::kReceive, rank - 2, 0)}));
  EXPECT_EQ(ProveCalls(mesh, ranks, kPipelineAxis).problem, "");
  std::swap(ranks[2], ranks[3]);
  EXPECT_THAT(ProveCalls(mesh, ranks, kPipelineAxis).problem, HasSubstr("receive of %in"));
}

// The first and the last of three stages, which share a table; the second one has none.
TEST(RankCallsOfStages, SumTheGradientsOfTheirEnds) {
  const Mesh mesh({PipelineAxis(3, /*ends_share=*/true)});
  RankCall sum = SumOfStages("table.grad");
  sum.stream = kEndsAxis;
  const auto prove = [&](const Calls& last) {
    const RankCalls ranks[] = {RankOf({sum, DoneOf(sum)}), RankOf({}), RankOf(last)};
    return ProveCalls(mesh, ranks, kPipelineAxis);
  };
  EXPECT_EQ(prove({sum, DoneOf(sum)}).problem, "");
  EXPECT_EQ(prove({sum, DoneOf(sum)}).collectives, 1);
  EXPECT_THAT(prove({}).problem, HasSubstr("waits for rank 2; rank 2 has ended"));
}

TEST(RankCallsOfStages, ReduceAlongTheirAxisInEqualOrder) {
  const RankCall norm = SumOfStages(), loss = SumOfStages("loss");
  const Calls one = {norm, DoneOf(norm), loss, DoneOf(loss)};
  EXPECT_EQ(ProveStages(one, one).collectives, 2);
  const std::string problem = ProveStages(one, {loss, DoneOf(loss), norm, DoneOf(norm)}).problem;
  EXPECT_THAT(problem, HasSubstr("rank 1 in program 'train': all_reduce_start of %loss"));
  EXPECT_THAT(problem, HasSubstr("it meets rank 0 in program 'train': all_reduce_start of %norm"));
}

}  // namespace
}  // namespace plimsoll::parallel
