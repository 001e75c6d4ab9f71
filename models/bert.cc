// BERT. Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding", in the variants of transformers: BertForMaskedLM, BertForPreTraining (with the
// next-sentence head) and BertForSequenceClassification.
//
// Inputs: tokens and token_types, i32[B,T]; lengths, i32[B], if texts are padded. Pretraining also
// reads targets, i32[B,T], and next_sentence, i32[B] (negative: no loss). Classification also reads
// the inputs of models/classifier.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/classifier.h"
#include "models/config_keys.h"
#include "models/encoder.h"
#include "models/family.h"
#include "models/language_model.h"
#include "models/language_settings.h"
#include "ops/data_movement/views.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/tokens/embedding.h"
#include "ops/tokens/tokens.h"

namespace plimsoll::models {
namespace {

using formats::JsonObject;
using graph::DType;
using graph::kNoTensor;
using graph::Scope;
using graph::Value;

constexpr const char* kName = "bert";
constexpr const char* kHeadBias = "head.bias";
constexpr int64_t kTokenTypes = 2;

enum class Task { kMaskedLm, kPretraining, kClassification };

Task TaskOf(const Settings& s) {
  const std::string& task = s.Text("task");
  return task == "masked_lm"     ? Task::kMaskedLm
         : task == "pretraining" ? Task::kPretraining
                                 : Task::kClassification;
}

class Bert final : public Model {
 public:
  explicit Bert(const Settings& settings)
      : Model(kName, settings), sizes_(EncoderSizesOf(settings)), task_(TaskOf(settings)) {}

  DropoutRates dropout() const override { return DropoutRatesOf(settings()); }
  void CheckBatch(const Batch& batch) const override {
    const int64_t most = settings().Int("max_sequence");
    if (batch.sequence <= most) return;
    throw UserError(
        fmt::format("model.sequence: {} tokens, but the model has {} positions: "
                    "shorten it or raise model.max_sequence",
                    batch.sequence, most));
  }
  std::vector<Sharding> sharding() const override {
    std::vector<Sharding> rows = EncoderSharding(sizes_.width);
    rows.push_back({"embed.token.weight", Sharding::kVocabulary});
    if (task_ != Task::kClassification) rows.push_back({"head.bias", Sharding::kVocabulary});
    return rows;
  }
  std::vector<std::pair<std::string, int64_t>> shared_sizes() const override {
    auto sizes = EncoderSharedSizes(sizes_);
    sizes.emplace_back("vocab", settings().Int("vocab"));
    return sizes;
  }
  // Every rank embeds the token types of the complete texts.
  bool shares_tokens() const override { return false; }
  CheckpointTable checkpoint_table() const override;
  // Weights for another task lack this task's head.
  Misfit OnMisfit(const ParameterInfo& parameter) const override {
    if (Model::OnMisfit(parameter) == Misfit::kFitted) {
      return parameter.name == kHeadBias ? Misfit::kFittedOrFresh : Misfit::kFitted;
    }
    for (const char* head : {"head.", "pooler.", "classifier.", "next_sentence."}) {
      if (parameter.name.starts_with(head)) return Misfit::kFresh;
    }
    return Misfit::kRefused;
  }
  std::map<std::string, int64_t> input_bounds() const override {
    std::map<std::string, int64_t> bounds;
    if (task_ == Task::kClassification) bounds = LabelBounds(settings());
    bounds["tokens"] = settings().Int("vocab");
    return bounds;
  }
  std::optional<ProblemType> problem_type() const override {
    if (task_ != Task::kClassification) return std::nullopt;
    return ProblemTypeOf(settings());
  }
  int64_t classes() const override {
    return task_ == Task::kClassification ? settings().Int("classes") : 0;
  }
  void WriteConfig(nlohmann::ordered_json& config) const override;

 protected:
  Outputs Forward(Layers& g, Head head) const override {
    const Value lengths = settings().Bool("padded")
                              ? g.Input("lengths", DType::kInt32, {g.batch().batch})
                              : kNoTensor;
    const Value table =
        EmbeddingTable(g, "embed.token", settings().Int("vocab"), sizes_.width, sizes_.init_std);
    const Value x = Encoder(g, Embed(g, table), sizes_, NormPlace::kAfter, lengths);
    switch (task_) {
      case Task::kMaskedLm:
        return MaskedLm(g, x, table, head);
      case Task::kPretraining: {
        Outputs outputs = MaskedLm(g, x, table, head, "masked");
        if (head == Head::kLoss) AddNextSentence(g, Pool(g, x), outputs);
        return outputs;
      }
      case Task::kClassification:
        break;
    }
    const Value pooled = Dropout(g, "pooler.dropout", Pool(g, x), g.dropout().classifier);
    return ClassifierHead(g, "classifier", pooled, head,
                          ClassifierOptionsOf(settings(), {Initializer::kNormal, sizes_.init_std},
                                              {Initializer::kZeros}));
  }

 private:
  Value Embed(Layers& g, Value table) const {
    const Scope scope(g.builder(), "embed");
    const Value position = EmbeddingTable(g, "position", settings().Int("max_sequence"),
                                          sizes_.width, sizes_.init_std);
    const Value types = EmbeddingTable(g, "type", kTokenTypes, sizes_.width, sizes_.init_std);
    Value x = Embedding(g, "tokens", g.Tokens("tokens"), table, position);
    x = Add(g, "sum", x, Embedding(g, "types", g.Tokens("token_types"), types));
    return Dropout(g, "dropout", LayerNorm(g, "norm", x, sizes_.norm_eps), g.dropout().embedding);
  }

  // `scope`: the scope of the loss.
  Outputs MaskedLm(Layers& g, Value x, Value table, Head head, const char* scope = "") const {
    Value bias;
    {
      const Scope in_head(g.builder(), "head");
      x = HeadRows(g, x, head);
      x = Linear(g, "transform", x, sizes_.width, {.init_std = sizes_.init_std});
      x = LayerNorm(g, "norm", Gelu(g, x, sizes_.activation), sizes_.norm_eps);
      bias = g.Parameter("bias", {settings().Int("vocab")}, {Initializer::kZeros});
    }
    const Scope in_scope(g.builder(), scope);
    return LanguageModelHead(g, x, table, head, bias);
  }

  // Applies a linear layer and tanh to the first token.
  Value Pool(Layers& g, Value x) const {
    const Scope scope(g.builder(), "pooler");
    x = ops::SliceTokens(g.builder(), x, 0, 1, "first");
    x = ops::View(g.builder(), x, {g.batch().batch, sizes_.width});
    x = Linear(g, "dense", x, sizes_.width, {.init_std = sizes_.init_std});
    return ops::Tanh(g.builder(), x);
  }

  // Adds the mean loss of predicting whether the second text follows the first (label 0) or not
  // (1).
  void AddNextSentence(Layers& g, Value pooled, Outputs& outputs) const {
    const Scope scope(g.builder(), "next_sentence");
    graph::Builder& builder = g.builder();
    const Value logits = Linear(g, "dense", pooled, 2, {.init_std = sizes_.init_std});
    const Value labels = g.Input("next_sentence", DType::kInt32, {g.batch().batch});
    const Value loss = ops::CrossEntropy(builder, logits, labels, g.SampleWeight(), 0, "loss");
    outputs.loss = ops::Add(builder, outputs.loss, loss, "total");
    const ops::TopK counts = ops::CountTopK(builder, logits, labels, 1, "first");
    outputs.metrics.push_back({.name = "next_sentence_accuracy",
                               .sum = counts.right,
                               .count = counts.rows,
                               .larger_is_better = true});
  }

  EncoderSizes sizes_;
  Task task_;
};

CheckpointTable Bert::checkpoint_table() const {
  CheckpointTable table;
  table.prefix = "bert.";
  table.entries = EncoderEntries({.query = "encoder.layer.*.attention.self.query",
                                  .key = "encoder.layer.*.attention.self.key",
                                  .value = "encoder.layer.*.attention.self.value",
                                  .proj = "encoder.layer.*.attention.output.dense",
                                  .norm_1 = "encoder.layer.*.attention.output.LayerNorm",
                                  .fc = "encoder.layer.*.intermediate.dense",
                                  .fc_out = "encoder.layer.*.output.dense",
                                  .norm_2 = "encoder.layer.*.output.LayerNorm"},
                                 sizes_.width);
  const bool guesses = task_ != Task::kClassification;  // whether the task predicts masked tokens
  const auto add = [&](const std::string& parameter, const std::string& stored,
                       std::vector<std::string> copies = {}) {
    const bool bare = !stored.starts_with("embeddings.") && !stored.starts_with("pooler.");
    table.entries.push_back({.parameter = parameter,
                             .tensors = {{stored}},
                             .bare = bare,
                             .copies = guesses ? std::move(copies) : std::vector<std::string>()});
  };
  const std::string decoder = "cls.predictions.decoder";
  add("embed.token.weight", "embeddings.word_embeddings.weight", {decoder + ".weight"});
  add("embed.position.weight", "embeddings.position_embeddings.weight");
  add("embed.type.weight", "embeddings.token_type_embeddings.weight");
  const auto add_both = [&](const std::string& parameter, const std::string& stored) {
    for (const char* kind : {".weight", ".bias"}) add(parameter + kind, stored + kind);
  };
  add_both("embed.norm", "embeddings.LayerNorm");
  // Ignored tensors are constants and heads of other tasks.
  table.ignored = {"embeddings.position_ids"};
  table.old_ends = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  table.when_copies_differ =
      "a decoder of its own is not supported: tie it, and save the model anew";
  const auto ignore = [&](const std::string& stored) {
    for (const char* kind : {".weight", ".bias"}) table.ignored.push_back(stored + kind);
  };
  if (task_ != Task::kMaskedLm) {
    add_both("pooler.dense", "pooler.dense");
  } else {
    ignore("pooler.dense");
  }
  if (task_ != Task::kPretraining) ignore("cls.seq_relationship");
  if (!guesses) {
    add_both("classifier", "classifier");
    ignore(decoder);
    ignore("cls.predictions.transform.dense");
    ignore("cls.predictions.transform.LayerNorm");
    table.ignored.push_back("cls.predictions.bias");
    return table;
  }
  add_both("head.transform", "cls.predictions.transform.dense");
  add_both("head.norm", "cls.predictions.transform.LayerNorm");
  add("head.bias", "cls.predictions.bias", {decoder + ".bias"});
  ignore("classifier");
  if (task_ == Task::kPretraining) add_both("next_sentence.dense", "cls.seq_relationship");
  return table;
}

void Bert::WriteConfig(nlohmann::ordered_json& config) const {
  const Settings& s = settings();
  config["architectures"] = {task_ == Task::kMaskedLm      ? "BertForMaskedLM"
                             : task_ == Task::kPretraining ? "BertForPreTraining"
                                                           : "BertForSequenceClassification"};
  config["model_type"] = kName;
  WriteEncoder(s, config);
  config["vocab_size"] = s.Int("vocab");
  config["max_position_embeddings"] = s.Int("max_sequence");
  config["type_vocab_size"] = kTokenTypes;
  config["position_embedding_type"] = "absolute";
  if (task_ != Task::kClassification) return;
  // As in transformers, null means the value of hidden_dropout_prob.
  const double rate = s.Float("classifier_dropout");
  config["classifier_dropout"] = nullptr;
  if (rate != s.Float("hidden_dropout")) config["classifier_dropout"] = rate;
  WriteClassifier(s, config);
}

// The task that a folder's weights are for: the task of the first known architecture.
std::string TaskIn(const JsonObject& config) {
  if (!config.Has("architectures")) return "masked_lm";
  for (const std::string& name : config.RequireStrings("architectures")) {
    if (name == "BertForSequenceClassification") return "classification";
    if (name == "BertForPreTraining") return "pretraining";
  }
  return "masked_lm";
}

void CompleteBert(Settings& s) {
  CompleteEncoder(s);
  if (!s.Has("max_sequence")) {
    s.Set("max_sequence", std::max<int64_t>(512, s.Int("sequence")));
  }
  if (!s.Has("padded")) s.Set("padded", s.Text("task") != "masked_lm");
  if (s.Int("sequence") > s.Int("max_sequence")) {
    throw SettingError("sequence",
                       fmt::format("{} tokens, but the model allows {} (model.max_sequence{}); "
                                   "shorten it",
                                   s.Int("sequence"), s.Int("max_sequence"), s.At("max_sequence")));
  }
  if (s.Text("task") == "classification") {
    if (!s.Has("classifier_dropout")) s.Set("classifier_dropout", s.Float("hidden_dropout"));
    return CompleteClassifier(s);
  }
  for (const char* name : {"classes", "problem_type", "label_smoothing", "classifier_dropout"}) {
    // A resolved run file contains the default, which counts as absent.
    const bool absent = name == std::string("label_smoothing") && s.Float(name) == 0;
    if (absent || !s.IsGiven(name)) continue;
    throw SettingError(name, fmt::format("has a meaning only for model.task: classification{}; "
                                         "remove it",
                                         s.At("task")));
  }
}

std::unique_ptr<Model> ReadBert(const JsonObject& config, Settings& s) {
  ReadEncoder(config, s);
  s.Derive("task", TaskIn(config));
  const int64_t stored = SizeIn(config, "vocab_size");
  VocabularyBeside(stored, s);
  s.Derive("max_sequence", SizeIn(config, "max_position_embeddings", 512));
  if (!s.Has("sequence")) s.Set("sequence", s.Int("max_sequence"));
  if (SizeIn(config, "type_vocab_size", kTokenTypes) != kTokenTypes) {
    config.Fail("type_vocab_size", fmt::format("only {} is supported", kTokenTypes));
  }
  if (config.GetString("position_embedding_type", "absolute") != "absolute") {
    config.Fail("position_embedding_type", "only \"absolute\" is supported");
  }
  RequireSwitch(config, "is_decoder", false);
  RequireSwitch(config, "add_cross_attention", false);
  if (s.Text("task") == "classification") {
    // A dropout rate that the run gives for the complete model takes precedence.
    if (config.Has("classifier_dropout") && !s.IsGiven("dropout")) {
      s.Derive("classifier_dropout", DropoutIn(config, "classifier_dropout", 0));
    }
    ReadClassifier(config, s);
  } else {
    RequireSwitch(config, "tie_word_embeddings", true);  // the decoder is the token embedding
  }
  Complete(*FindFamily(kName), s);
  auto model = std::make_unique<Bert>(s);
  model->set_new_tokens(stored, s.Int("vocab"), {"embed.token.weight", kHeadBias});
  return model;
}

std::vector<formats::KeyRule> BertKeys() {
  using formats::Harmless;
  using formats::Read;
  constexpr const char* kNote = "a note of the original BERT, which has no other form";
  return Joined(Joined(EncoderKeys(), ClassifierKeys()),
                {Read("architectures"), Read("vocab_size"), Read("max_position_embeddings"),
                 Read("type_vocab_size"), Read("position_embedding_type"), Read("is_decoder"),
                 Read("add_cross_attention"), Read("tie_word_embeddings"),
                 Read("classifier_dropout"), Harmless("directionality", kNote),
                 Harmless("head_dim", "hidden_size and num_attention_heads say it"),
                 Harmless("pooler_fc_size", kNote), Harmless("pooler_num_attention_heads", kNote),
                 Harmless("pooler_num_fc_layers", kNote), Harmless("pooler_size_per_head", kNote),
                 Harmless("pooler_type", kNote)});
}

std::vector<Setting> OwnSettings() {
  using Type = Setting::Type;
  using Loaded = Setting::WithLoadedWeights;
  std::vector<Setting> rows = EncoderSettings(1e-12);
  rows.push_back(GrowingVocabulary());
  rows.push_back(LanguageSetting("sequence"));
  rows.push_back(LanguageSetting("max_sequence", "512, or `sequence` if that is more"));
  rows.push_back({.name = "task",
                  .type = Type::kChoice,
                  .doc =
                      "What is learnt: to guess tokens that are left out (`masked_lm`), and also "
                      "whether one text follows the other (`pretraining`); or classes.",
                  .default_value = std::string("masked_lm"),
                  .choices = {"masked_lm", "pretraining", "classification"},
                  .with_loaded_weights = Loaded::kYes});
  rows.push_back(
      {.name = "padded",
       .type = Type::kBool,
       .doc = "Texts may be shorter than `sequence`: attention leaves their padding out.",
       .derived = "true but for `masked_lm`",
       .with_loaded_weights = Loaded::kYes});
  for (Setting& row : ClassifierSettings()) rows.push_back(std::move(row));
  rows.push_back({.name = "classifier_dropout",
                  .type = Type::kFloat,
                  .doc = "Probability of dropout on what the classifier reads.",
                  .derived = "`hidden_dropout`",
                  .min = 0,
                  .max = 1,
                  .below_max = true,
                  .with_loaded_weights = Loaded::kYes});
  return rows;
}

const FamilyRegistration kFamily({
    .name = kName,
    .settings = OwnSettings(),
    .complete = &CompleteBert,
    .make = [](const Settings& s) { return std::make_unique<Bert>(s); },
    .read_config = &ReadBert,
    .config_keys = BertKeys(),
});

}  // namespace
}  // namespace plimsoll::models
