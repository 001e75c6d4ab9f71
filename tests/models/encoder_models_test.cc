// BERT and ViT: their sizes are those of transformers and timm, they learn, and their training does
// not depend on what is kept for the backward pass.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "models/huggingface.h"
#include "tests/models/model_of.h"
#include "tests/models/trained.h"
#include "tests/support/expect_error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

using Policy = checkpointing::Options::Policy;
using models::ModelOf;
using models::Values;

Values Encoder(int64_t layers, int64_t width, int64_t heads) {
  return {{"layers", layers}, {"width", width}, {"heads", heads}};
}

Values operator+(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr int64_t kVocab = 37, kClasses = 7, kBatch = 6;

struct Case {
  std::string name, family;
  Values values;
  int64_t sequence = 1;
};

std::vector<Case> Cases() {
  const Values bert =
      Encoder(3, 16, 2) + Values{{"vocab", kVocab}, {"sequence", int64_t{10}}, {"dropout", 0.1}};
  return {
      {"ViT", "vit",
       Encoder(3, 16, 2) +
           Values{{"image_size", int64_t{8}}, {"patch", int64_t{4}}, {"classes", kClasses}}},
      {"MaskedLm", "bert", bert, 10},
      {"MaskedLmPadded", "bert", bert + Values{{"padded", true}}, 10},
      {"Pretraining", "bert", bert + Values{{"task", std::string("pretraining")}}, 10},
      {"Classification", "bert",
       bert + Values{{"task", std::string("classification")}, {"classes", kClasses}}, 10},
      {"SeveralLabels", "bert",
       bert + Values{{"task", std::string("classification")},
                     {"classes", kClasses},
                     {"problem_type", std::string("multi_label_classification")}},
       10},
      {"Regression", "bert",
       bert + Values{{"task", std::string("classification")},
                     {"problem_type", std::string("regression")},
                     {"classifier_dropout", 0.2}},
       10},
  };
}

// A head that predicts tokens has the weights of their embedding.
TEST(EncoderModels, ShareParametersIfTheyPredictTokens) {
  for (const Case& c : Cases()) {
    const bool predicts = c.name.starts_with("Masked") || c.name == "Pretraining";
    EXPECT_EQ(ModelOf(c.family, c.values)->shares_parameters(), predicts) << c.name;
  }
}

TEST(EncoderModels, HaveTheSizesOfTransformers) {
  const Values vocab = {{"vocab", int64_t{30522}}, {"sequence", int64_t{512}}};
  // BertForMaskedLM of bert-base-uncased and bert-large-uncased.
  EXPECT_EQ(ModelOf("bert", Encoder(12, 768, 12) + vocab)->parameter_count(), 109'514'298);
  EXPECT_EQ(ModelOf("bert", Encoder(24, 1024, 16) + vocab)->parameter_count(), 335'174'458);
  // vit_tiny, small, base and large_patch16_224.
  const auto vit = [](int64_t layers, int64_t width, int64_t heads) {
    return ModelOf("vit", Encoder(layers, width, heads) +
                              Values{{"image_size", int64_t{224}}, {"classes", int64_t{1000}}})
        ->parameter_count();
  };
  EXPECT_EQ(vit(12, 192, 3), 5'717'416);
  EXPECT_EQ(vit(12, 384, 6), 22'050'664);
  EXPECT_EQ(vit(12, 768, 12), 86'567'656);
  EXPECT_EQ(vit(24, 1024, 16), 304'326'632);
}

TEST(EncoderModels, RefuseWhatTheyCannotBe) {
  const auto message = [](const std::string& family, const Values& values) {
    return MessageOf<SettingError>([&] { ModelOf(family, values); }).value_or("");
  };
  const Values images = {{"image_size", int64_t{30}}, {"classes", int64_t{2}}};
  EXPECT_EQ(message("vit", Encoder(1, 16, 2) + images),
            "patches of 16 do not divide images of model.image_size 30 (test); choose another size "
            "of either");
  EXPECT_EQ(message("vit", Encoder(1, 16, 3) + images),
            "3 heads do not divide model.width 16 (test); use 2 or 4");
  const Values texts = {{"vocab", kVocab}, {"sequence", int64_t{10}}};
  EXPECT_EQ(message("bert", Encoder(1, 16, 2) + texts + Values{{"max_sequence", int64_t{8}}}),
            "10 tokens, but the model allows 8 (model.max_sequence (test)); shorten it");
  const Values classifies =
      Encoder(1, 16, 2) + texts + Values{{"task", std::string("classification")}};
  EXPECT_EQ(message("bert", classifies), "give the number of classes");
  const auto of = [&](const char* problem, const Values& more) {
    return message("bert", classifies + Values{{"problem_type", std::string(problem)}} + more);
  };
  EXPECT_EQ(of("regression", {{"classes", int64_t{3}}}),
            "3 with model.problem_type: regression (test), which is of one number; set "
            "model.classes to 1, or model.problem_type to single_label_classification or "
            "multi_label_classification");
  for (const std::string problem : {"single_label_classification", "multi_label_classification"}) {
    EXPECT_EQ(of(problem.c_str(), {{"classes", int64_t{1}}}),
              "1 with model.problem_type: " + problem +
                  " (test); give 2 or more classes, or set model.problem_type to regression");
  }
  EXPECT_EQ(of("multi_label_classification", {{"classes", int64_t{3}}, {"label_smoothing", 0.1}}),
            "needs model.problem_type: single_label_classification, which is "
            "multi_label_classification (test); set it to 0");
  EXPECT_EQ(message("vit", Encoder(1, 16, 2) + Values{{"image_size", int64_t{32}},
                                                      {"classes", int64_t{1}},
                                                      {"mixed_labels", true}}),
            "needs model.problem_type: single_label_classification, which is regression; leave out "
            "data.mixup and data.cutmix");
  for (const Values& lost :
       {Values{{"problem_type", std::string("regression")}}, Values{{"classifier_dropout", 0.1}}}) {
    EXPECT_EQ(message("bert", Encoder(1, 16, 2) + texts + lost),
              "has a meaning only for model.task: classification; remove it");
  }
}

// As in transformers: one class without a problem_type is a number.
TEST(EncoderModels, ReadTheirProblemType) {
  const auto settings_of = [](const std::string& change, const Values& given) {
    nlohmann::json config = {{"model_type", "bert"},
                             {"num_hidden_layers", 1},
                             {"hidden_size", 8},
                             {"num_attention_heads", 2},
                             {"intermediate_size", 8},
                             {"vocab_size", 9},
                             {"max_position_embeddings", 8},
                             {"architectures", {"BertForSequenceClassification"}}};
    config.update(nlohmann::json::parse(change));
    Settings settings;
    for (const auto& [name, value] : given) settings.Set(name, value, "test");
    models::ModelFromConfig(formats::JsonObject::FromText(config.dump(), "config.json"), settings);
    return std::pair(settings.Text("problem_type"), settings.Int("classes"));
  };
  using Read = std::pair<std::string, int64_t>;
  const std::string single = "single_label_classification", multi = "multi_label_classification";
  const std::string three = R"({"id2label": {"0": "a", "1": "b", "2": "c"}})";
  EXPECT_EQ(settings_of("{}", {}), Read(single, 2));
  EXPECT_EQ(settings_of(three, {}), Read(single, 3));
  EXPECT_EQ(settings_of(R"({"num_labels": 1})", {}), Read("regression", 1));
  EXPECT_EQ(settings_of(R"({"id2label": {"0": "LABEL_0"}, "problem_type": null})", {}),
            Read("regression", 1));
  EXPECT_EQ(settings_of(R"({"num_labels": 4, "problem_type": "multi_label_classification"})", {}),
            Read(multi, 4));
  // What a run says comes first.
  EXPECT_EQ(settings_of(three, {{"problem_type", multi}}), Read(multi, 3));
  EXPECT_EQ(settings_of(three, {{"problem_type", std::string("regression")}}),
            Read("regression", 1));
  EXPECT_EQ(settings_of(R"({"num_labels": 1})", {{"classes", int64_t{5}}}), Read(single, 5));
  ExpectUserError([&] { settings_of(R"({"problem_type": "ranking"})", {}); },
                  {"config.json: problem_type", "\"ranking\" is not supported", multi});
  EXPECT_THROW(settings_of(R"({"num_labels": 3, "problem_type": "regression"})", {}), SettingError);
}

// Fills the data of a batch; each row's tokens say what its labels are.
void Fill(std::span<const graph::Slot> slots, int64_t sequence, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<int32_t> lengths(kBatch);
  for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random() % sequence);
  for (const graph::Slot& slot : slots) {
    if (slot.name == "images") {
      for (float& pixel : slot.values<float>()) pixel = normal(random);
      continue;
    }
    if (slot.name == "label_values") {
      for (float& value : slot.values<float>()) value = static_cast<float>(random() % 2);
      continue;
    }
    const std::span<int32_t> values = slot.values<int32_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto draw = static_cast<int64_t>(random() % 1000);
      const auto row = static_cast<int64_t>(i) / sequence,
                 place = static_cast<int64_t>(i) % sequence;
      if (slot.name == "tokens") {
        values[i] = static_cast<int32_t>(draw % kVocab);
      } else if (slot.name == "token_types" || slot.name == "next_sentence") {
        values[i] = static_cast<int32_t>(draw % 2);
      } else if (slot.name == "labels") {
        values[i] = static_cast<int32_t>(draw % kClasses);
      } else if (slot.name == "lengths") {
        values[i] = lengths[i];
      } else if (slot.name == "targets") {
        const bool counts = place == 0 || (place % 3 == 0 && place < lengths[row]);
        values[i] = counts ? static_cast<int32_t>(draw % kVocab) : -100;
      } else {
        FAIL() << slot.name;
      }
    }
  }
}

Trained Train(const Case& c, const CompileOptions& options, int steps, bool by_heart = false) {
  return TrainSteps(*ModelOf(c.family, c.values), options, steps, 0.01,
                    [&](Session& session, int step, int64_t micro) {
                      const auto seed = static_cast<unsigned>(by_heart ? 0 : step * 10 + micro);
                      Fill(session.slots(0), c.sequence, seed);
                    });
}

CompileOptions OptionsOf(const Case& c, int64_t accumulate = 1) {
  CompileOptions options;
  options.micro_batch = kBatch;
  options.sequence = c.sequence;
  options.accumulate = accumulate;
  options.threads = 2;
  return options;
}

class EncoderModelTest : public testing::TestWithParam<Case> {};

TEST_P(EncoderModelTest, LearnsByHeart) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    CompileOptions options = OptionsOf(GetParam());
    options.amp.dtype = dtype;
    const Trained result = Train(GetParam(), options, 60, /*by_heart=*/true);
    EXPECT_LT(result.losses.back(), 0.3 * result.losses.front());
    EXPECT_EQ(result.used, result.arena);
  }
}

TEST_P(EncoderModelTest, HasTheSameBitsUnderAllPolicies) {
  for (const int64_t accumulate : {1, 3}) {
    const Trained kept = Train(GetParam(), OptionsOf(GetParam(), accumulate), 3);
    for (const Policy policy : {Policy::kBlock, Policy::kEvery, Policy::kSelective}) {
      SCOPED_TRACE(static_cast<int>(policy));
      CompileOptions options = OptionsOf(GetParam(), accumulate);
      options.checkpointing.policy = policy;
      options.checkpointing.every = 2;
      options.checkpointing.recompute = {{"activations"}, "checkpointing.recompute"};
      const Trained again = Train(GetParam(), options, 3);
      ExpectSame(again, kept);
      EXPECT_LE(again.arena, kept.arena);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderModelTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll::trainer
