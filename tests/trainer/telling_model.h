// A small language model that declares metrics of every kind, and their expected values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/layers.h"
#include "models/model.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/loss/confusion.h"
#include "ops/reductions/reduce.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

// A model that sees one token, through a table and two blocks of a feed-forward network.
class Telling final : public models::Model {
 public:
  static constexpr int64_t kVocab = 7, kWidth = 8, kBlocks = 2;

  explicit Telling(bool tells = true) : Model("telling"), tells_(tells) {}

  std::vector<models::Sharding> sharding() const override {
    return {{"block.*.fc.weight", models::Sharding::kRows},
            {"block.*.fc.bias", models::Sharding::kRows},
            {"block.*.proj.weight", models::Sharding::kColumns}};
  }
  models::CheckpointTable checkpoint_table() const override { return {}; }

 protected:
  Outputs Forward(models::Layers& g, models::Head head) const override {
    using graph::Value;
    const Value table = EmbeddingTable(g, "embed", kVocab, kWidth, 0.5);
    Value x = Embedding(g, "x", g.Tokens("tokens"), table);
    for (int64_t layer = 0; layer < kBlocks; ++layer) {
      const graph::Scope block(g.builder(), "block." + std::to_string(layer));
      const Value m =
          Gelu(g, Linear(g, "fc", x, 2 * kWidth, {.init_std = 0.5}), models::Activation::kGeluTanh);
      x = Add(g, "residual", x, Linear(g, "proj", m, kWidth, {.init_std = 0.5}));
    }
    Outputs outputs = LanguageModelHead(g, x, table, head);
    if (!tells_ || head == models::Head::kLogits) return outputs;
    const Value logits = ops::Linear(g.builder(), x, table, graph::kNoTensor, "logits");
    const ops::Confusion said = ops::Confuse(g.builder(), logits, g.Tokens("targets"), "said");
    const Value right = ops::Cast(g.builder(), said.right, graph::DType::kFloat32);
    outputs.metrics = {
        {"accuracy", said.right, said.rows, true},
        {"confusion", said.counts},
        {"share", ops::ScaleBy(g.builder(), right, g.TokenWeight()), graph::kNoTensor, true},
        {"again", outputs.loss},
        {"table", table, right},
        {"stream", x},  // which the backward pass reads and policies drop
        {"squares", ops::SquaredNorm(g.builder(), table)}};  // in float32, of a parameter
    return outputs;
  }

 private:
  bool tells_;
};

// Computes the model's results for each token independently of the programs.
class TellingReference {
 public:
  explicit TellingReference(Session& session) {
    constexpr int64_t kWidth = Telling::kWidth, kInner = 2 * kWidth;
    table_ = session.ReadParameter("embed.weight");
    for (int64_t token = 0; token < Telling::kVocab; ++token) {
      std::vector<double> x(table_.begin() + token * kWidth, table_.begin() + (token + 1) * kWidth);
      for (int64_t layer = 0; layer < Telling::kBlocks; ++layer) {
        const std::string block = "block." + std::to_string(layer) + ".";
        const auto in = session.ReadParameter(block + "fc.weight"),
                   in_bias = session.ReadParameter(block + "fc.bias"),
                   out = session.ReadParameter(block + "proj.weight"),
                   out_bias = session.ReadParameter(block + "proj.bias");
        std::vector<double> y = x;
        for (int64_t i = 0; i < kWidth; ++i) y[i] += out_bias[i];
        for (int64_t k = 0; k < kInner; ++k) {
          double h = in_bias[k];
          for (int64_t i = 0; i < kWidth; ++i) h += in[k * kWidth + i] * x[i];
          h *= 0.5 * (1 + std::tanh(0.7978845608 * (h + 0.044715 * h * h * h)));
          for (int64_t i = 0; i < kWidth; ++i) y[i] += out[i * kInner + k] * h;
        }
        x = y;
      }
      std::vector<double> logits(Telling::kVocab, 0.0);
      for (int64_t v = 0; v < Telling::kVocab; ++v) {
        for (int64_t i = 0; i < kWidth; ++i) logits[v] += table_[v * kWidth + i] * x[i];
      }
      said_.push_back(std::ranges::max_element(logits) - logits.begin());
      streams_.push_back(x);
    }
  }

  const std::vector<float>& table() const { return table_; }
  int64_t Said(int32_t token) const { return said_[static_cast<size_t>(token)]; }
  const std::vector<double>& Stream(int32_t token) const {
    return streams_[static_cast<size_t>(token)];
  }

 private:
  std::vector<float> table_;
  std::vector<int64_t> said_;
  std::vector<std::vector<double>> streams_;
};

// The expected metrics of batches, each of some tokens and targets.
struct Told {
  double right = 0, rows = 0;
  std::vector<double> confusion = std::vector<double>(Telling::kVocab * Telling::kVocab, 0.0);
  std::vector<double> stream;

  void Add(const TellingReference& reference, std::span<const int32_t> tokens,
           std::span<const int32_t> targets) {
    stream.resize(tokens.size() * Telling::kWidth, 0.0);
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (int64_t k = 0; k < Telling::kWidth; ++k) {
        stream[i * Telling::kWidth + k] += reference.Stream(tokens[i])[k];
      }
      if (targets[i] < 0) continue;
      const int64_t said = reference.Said(tokens[i]);
      ++confusion[targets[i] * Telling::kVocab + said];
      right += said == targets[i];
      ++rows;
    }
  }
};

// Tokens and targets of a micro-batch; every fifth target is ignored.
inline std::pair<std::vector<int32_t>, std::vector<int32_t>> TellingBatch(int64_t number,
                                                                          size_t size) {
  std::vector<int32_t> tokens, targets;
  uint32_t random = static_cast<uint32_t>(number) * 7919 + 12345;
  const auto draw = [&] {
    random = random * 1664525 + 1013904223;
    return static_cast<int32_t>((random >> 16) % Telling::kVocab);
  };
  for (size_t i = 0; i < size; ++i) {
    tokens.push_back(draw());
    targets.push_back(draw());
    if (i % 5 == 3) targets.back() = -100;
  }
  return {tokens, targets};
}

}  // namespace plimsoll::trainer
