#include "docs/examples/bigram.h"

#include "docs/examples/squared_relu.h"
#include "models/family.h"
#include "models/language_model.h"
#include "models/language_settings.h"
#include "models/layers.h"

namespace plimsoll::models {

using graph::Scope;
using graph::Value;

namespace {

constexpr double kEps = 1e-5, kInitStd = 0.02;

}  // namespace

// Float32, one device, no word about memory: passes see to the rest. Scopes give the names:
// block.0.mlp.fc.weight.
Model::Outputs Bigram::Forward(Layers& g, Head head) const {
  const Settings& s = settings();
  const int64_t width = s.Int("width");
  const Value tokens = g.Tokens("tokens");
  const Value table = EmbeddingTable(g, "embed.token", s.Int("vocab"), width, kInitStd);
  Value x = Embedding(g, "embed", tokens, table);
  for (int64_t layer = 0; layer < s.Int("layers"); ++layer) {
    const Scope block(g.builder(), "block." + std::to_string(layer));
    Value m = RmsNorm(g, "norm", x, kEps);
    {
      const Scope mlp(g.builder(), "mlp");
      m = Linear(g, "fc", m, s.Int("ffn_width"), {.init_std = kInitStd});
      m = ops::SquaredRelu(g.builder(), m);
      m = Linear(g, "proj", m, width, {.init_std = kInitStd});
    }
    x = Add(g, "residual", x, m);
  }
  x = RmsNorm(g, "norm", HeadRows(g, x, head), kEps);
  return LanguageModelHead(g, x, table, head);
}

// How tensor parallelism may cut the parameters.
std::vector<Sharding> Bigram::sharding() const {
  return {
      {"embed.token.weight", Sharding::kVocabulary},
      {"block.*.mlp.fc.weight", Sharding::kRows},
      {"block.*.mlp.fc.bias", Sharding::kRows},
      {"block.*.mlp.proj.weight", Sharding::kColumns},
  };
}

// What files call them.
CheckpointTable Bigram::checkpoint_table() const {
  return {
      .prefix = "",
      .entries =
          {
              {"embed.token.weight", {{"table.weight"}}},
              {"block.*.norm.weight", {{"layers.*.norm.weight"}}},
              {"block.*.mlp.fc.weight", {{"layers.*.up.weight"}}},
              {"block.*.mlp.fc.bias", {{"layers.*.up.bias"}}},
              {"block.*.mlp.proj.weight", {{"layers.*.down.weight"}}},
              {"block.*.mlp.proj.bias", {{"layers.*.down.bias"}}},
              {"norm.weight", {{"norm.weight"}}},
          },
      .ignored = {},
  };
}

// It reads texts of any length.
std::optional<TextSizes> Bigram::text_sizes() const {
  return TextSizes{.vocab = settings().Int("vocab"), .max_sequence = int64_t{1} << 30};
}

namespace {

// What a run file says of it. Rows of one name mean the same in all families.
const FamilyRegistration kFamily({
    .name = "bigram",
    .settings = {LanguageSetting("layers"), LanguageSetting("width"),
                 LanguageSetting("ffn_width", "4 `width`"), LanguageSetting("vocab"),
                 LanguageSetting("sequence")},
    .complete = [](Settings& s) { s.Derive("ffn_width", 4 * s.Int("width")); },
    .make = [](const Settings& s) { return std::make_unique<Bigram>(s); },
});

}  // namespace
}  // namespace plimsoll::models
