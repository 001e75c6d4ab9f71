// The steps of all ranks of a mesh work together: trainer/plan/check_ranks.h.
#include "trainer/plan/check_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graph/text.h"
#include "tests/support/expect_error.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

struct Layout {
  models::ModelSpec spec = TinyGpt2();
  int64_t data = 2, tensor = 1, zero = 0;
  bool sequence = false;
  int64_t accumulate = 1;
  bool evaluate = true;
  amp::AmpOptions amp = {};
};

CompiledStep CompiledOf(const Layout& layout) {
  CompileOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.accumulate = layout.accumulate;
  options.mesh = Mesh({DataAxis(layout.data), TensorAxis(layout.tensor)});
  options.zero = layout.zero;
  options.sequence_parallel = layout.sequence;
  options.evaluate = layout.evaluate;
  options.amp = layout.amp;
  return Compile(*models::MakeModel(layout.spec), options);
}

RanksCheck Check(const Layout& layout) {
  return CheckRanks(*models::MakeModel(layout.spec), CompiledOf(layout));
}

// What the programs' texts say: lines that begin a collective, or reduce over a split vocabulary,
// each for every group of the axis.
int64_t CollectivesIn(const CompiledStep& compiled) {
  const Mesh& mesh = compiled.options.mesh;
  int64_t count = 0;
  for (const auto& program : compiled.programs) {
    std::istringstream text(graph::ToText(*program));
    for (std::string line; std::getline(text, line);) {
      for (const MeshAxis& axis : mesh.axes()) {
        if (line.find(fmt::format("axis=\"{}\"", axis.name)) == line.npos) continue;
        const bool starts = line.find("_start(") != line.npos;
        const bool loss = line.find("linear_cross_entropy(") != line.npos ||
                          line.find("linear_cross_entropy_train(") != line.npos;
        if (starts || loss) count += mesh.size() / axis.ranks;
      }
    }
  }
  return count;
}

// Heads of keys that two ranks can share.
models::ModelSpec SmallLlama() { return models::LlamaSpec({2, 32, 2, 2, 16, 80, 96, 16, false}); }

TEST(CheckRanks, CountsEveryCollectiveOfEveryLayout) {
  for (const models::ModelSpec& spec : {TinyGpt2(), SmallLlama()}) {
    for (int64_t zero = 0; zero <= 3; ++zero) {
      for (const auto& [tensor, sequence] : {std::pair(1, false), {2, false}, {2, true}}) {
        SCOPED_TRACE(fmt::format("{}, tensor {}, ZeRO {}, sequence {}", spec.family, tensor, zero,
                                 sequence));
        const CompiledStep compiled = CompiledOf(
            {.spec = spec, .tensor = tensor, .zero = zero, .sequence = sequence, .accumulate = 3});
        const RanksCheck check = CheckRanks(*models::MakeModel(spec), compiled);
        EXPECT_EQ(check.ranks, 2 * tensor);
        EXPECT_EQ(check.proof.collectives, CollectivesIn(compiled));
        EXPECT_GT(check.proof.collectives, 0);
        EXPECT_LE(check.proof.programs, std::ssize(compiled.programs));
      }
    }
  }
}

// Of L blocks. A block sums the results of attention and feed-forward layers in the forward pass,
// and the gradients of what they read in the backward pass. The embedding has one sum, and so has
// the gradient of what the head reads; the loss reduces by itself; the norm of gradients has one
// more. Two groups of tensor ranks make these. Two groups of data ranks sum the loss and one bucket
// of gradients.
TEST(CheckRanks, CountsByFormula) {
  for (models::ModelSpec spec : {TinyGpt2(), SmallLlama()}) {
    for (const int layers : {2, 3, 5}) {
      spec.layers = layers;
      const auto collectives = [&](int64_t data, int64_t tensor) {
        return Check({.spec = spec, .data = data, .tensor = tensor, .evaluate = false})
            .proof.collectives;
      };
      EXPECT_EQ(collectives(4, 1), 2);
      EXPECT_EQ(collectives(1, 2), 4 * layers + 4);
      EXPECT_EQ(collectives(2, 2), 2 * (4 * layers + 4) + 2 * 2);
    }
  }
}

// Maxima over both axes, one after the other, of one tensor.
TEST(CheckRanks, AwaitsMaximaOfScales) {
  const models::ModelSpec spec = models::LlamaSpec({2, 32, 2, 2, 16, 64, 96, 16, false});
  Layout layout{.spec = spec, .tensor = 2, .zero = 1};
  layout.amp.dtype = graph::DType::kBFloat16;
  layout.amp.fp8.enabled = true;
  layout.amp.fp8.window = 4;
  const CompiledStep compiled = CompiledOf(layout);
  const parallel::CallList train = *RankCallsOf(compiled).lists[0];
  EXPECT_EQ(std::ranges::count(train.calls, "fp8_largest.pending", &parallel::RankCall::tensor), 4);
  EXPECT_EQ(CheckRanks(*models::MakeModel(spec), compiled).proof.collectives,
            CollectivesIn(compiled));
}

TEST(CheckRanks, SaysWhatItProved) {
  const RanksCheck check = Check({.data = 4, .evaluate = true});
  EXPECT_EQ(check.Text(),
            "checked 4 ranks: 3 collectives in 2 programs meet in an order that cannot deadlock; "
            "arenas are sound");
  EXPECT_EQ(check.Json(), (nlohmann::ordered_json{
                              {"ranks", 4}, {"collectives", 3}, {"pairs", 0}, {"programs", 2}}));
  EXPECT_EQ(Check({.data = 1}).Text(), "checked 1 rank: it waits for no other; its arena is sound");
  EXPECT_THAT(UserErrorOf([] { RequireCheckable(65); }), testing::HasSubstr("at most 64"));
}

// Any call of any rank that is missing, doubled or swapped with another one is refused.
TEST(CheckRanks, RefusesEveryChangeOfOneRank) {
  const Layout layouts[] = {
      {.data = 4, .zero = 3, .accumulate = 2},
      {.tensor = 2, .zero = 1, .sequence = true},
  };
  std::mt19937 random(7);
  const auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };
  for (const Layout& layout : layouts) {
    const CompiledStep compiled = CompiledOf(layout);
    const Mesh& mesh = compiled.options.mesh;
    const std::vector<parallel::RankCalls> ranks(mesh.size(), RankCallsOf(compiled));
    ASSERT_EQ(parallel::ProveCalls(mesh, ranks).problem, "");
    for (int change = 0; change < 600; ++change) {
      const size_t rank = below(ranks.size()), of = below(ranks[0].lists.size());
      parallel::CallList list = *ranks[0].lists[of];
      std::vector<parallel::RankCall>& calls = list.calls;
      if (calls.size() < 2) continue;
      const size_t at = below(calls.size());
      switch (change % 3) {
        case 0:
          calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 1:
          calls.insert(calls.begin() + static_cast<std::ptrdiff_t>(at), calls[at]);
          break;
        default:
          std::swap(calls[at], calls[(at + 1 + below(calls.size() - 1)) % calls.size()]);
      }
      std::vector<parallel::RankCalls> changed = ranks;
      changed[rank].lists[of] = std::make_shared<const parallel::CallList>(list);
      const std::string problem = parallel::ProveCalls(mesh, changed).problem;
      EXPECT_THAT(problem, testing::HasSubstr(fmt::format("rank {}", rank)));
      EXPECT_THAT(problem, testing::HasSubstr("in program '" + list.program + "'"));
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
