// A language model of attention alone, without feed-forward layers (Elhage et al. 2021, "A
// Mathematical Framework for Transformer Circuits"): the shortest family, one file. Run files call
// it "attention_only".
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "models/family.h"
#include "models/language_settings.h"
#include "models/layers.h"

namespace plimsoll::models {
namespace {

using graph::Scope;
using graph::Value;

constexpr double kEps = 1e-5, kInitStd = 0.02, kTheta = 10000;

class AttentionOnly final : public Model {
 public:
  explicit AttentionOnly(Settings settings) : Model("attention_only", std::move(settings)) {}

  // With this the model continues texts: `plimsoll generate`.
  std::optional<TextSizes> text_sizes() const override {
    return TextSizes{.vocab = settings().Int("vocab"), .max_sequence = settings().Int("sequence")};
  }

 protected:
  Outputs Forward(Layers& g, Head head) const override;
};

// B batch, T sequence, D width: tokens [B,T] become x [B,T,D], then a loss or logits.
Model::Outputs AttentionOnly::Forward(Layers& g, Head head) const {
  const int64_t width = settings().Int("width"), heads = settings().Int("heads");
  const Value tokens = g.Tokens("tokens");
  const Value table = EmbeddingTable(g, "embed", settings().Int("vocab"), width, kInitStd);
  Value x = Embedding(g, "embed", tokens, table);
  for (int64_t layer = 0; layer < settings().Int("layers"); ++layer) {
    const Scope block(g.builder(), "block." + std::to_string(layer));
    Value a = RmsNorm(g, "norm", x, kEps);
    a = Linear(g, "qkv", a, 3 * width, {.bias = false, .init_std = kInitStd});
    a = Rotary(g, a, {.heads = heads, .kv_heads = heads}, kTheta, std::nullopt);
    a = Attention(g, a, {.heads = heads, .kv_heads = heads});
    a = Linear(g, "proj", a, width, {.bias = false, .init_std = kInitStd});
    x = Add(g, "residual", x, a);
  }
  x = RmsNorm(g, "norm", HeadRows(g, x, head), kEps);
  return LanguageModelHead(g, x, table, head);
}

const FamilyRegistration kFamily({
    .name = "attention_only",
    .settings = {LanguageSetting("layers"), LanguageSetting("width"), LanguageSetting("heads"),
                 LanguageSetting("vocab"), LanguageSetting("sequence")},
    .complete =
        [](Settings& s) {
          if (s.Int("width") % (2 * s.Int("heads")) == 0) return;
          throw SettingError("heads", "must divide model.width into heads of an even width");
        },
    .make = [](const Settings& s) { return std::make_unique<AttentionOnly>(s); },
});

}  // namespace
}  // namespace plimsoll::models
