#include "docs/examples/bigram.h"

#include "docs/examples/squared_relu.h"
#include "models/layers.h"

namespace plimsoll::models {

using graph::Scope;
using graph::Value;

// Float32, one device, no word about memory: passes see to the rest. Scopes give the names:
// block.0.mlp.fc.weight.
Model::Outputs Bigram::Forward(Layers& g, Head head) const {
  const ModelSpec& s = spec();
  const Value tokens = g.Tokens("tokens");
  const Value table = EmbeddingTable(g, "embed.token", s.vocab, s.width, s.init_std);
  Value x = Embedding(g, "embed", tokens, table);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const Scope block(g.builder(), "block." + std::to_string(layer));
    Value m = RmsNorm(g, "norm", x, s.norm_eps);
    {
      const Scope mlp(g.builder(), "mlp");
      m = Linear(g, "fc", m, s.ffn_width, {.init_std = s.init_std});
      m = ops::SquaredRelu(g.builder(), m);
      m = Linear(g, "proj", m, s.width, {.init_std = s.init_std});
    }
    x = Add(g, "residual", x, m);
  }
  x = RmsNorm(g, "norm", HeadRows(g, x, head), s.norm_eps);
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

}  // namespace plimsoll::models
