#include "adapters/peft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "adapters/modules_to_save.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"
#include "tests/support/key_walk.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::adapters {
namespace {

using formats::TensorType;
using models::ParameterInfo;
using testing::ElementsAre;
using Values = std::map<std::string, std::vector<float>>;

class Peft : public testing::Test {
 protected:
  Peft() {
    lora_.rank = 2;
    lora_.alpha = 6;
    lora_.layers = SelectLayers(*model_, {"q_proj", "v_proj", "o_proj"});
    lora_.saved = SelectSaved(*model_, {"lm_head", "model.norm"});
    int64_t next = 0;  // of integers that bf16 holds
    for (const ParameterInfo& parameter : TrainedParameters(lora_)) {
      std::vector<float>& values = values_[parameter.name];
      for (int64_t i = 0; i < parameter.shape.elements(); ++i)
        values.push_back(static_cast<float>(next++ % 251));
    }
    Write();
  }

  void Write(TensorType type = TensorType::kF32) {
    WriteAdapter(folder_.path(), *model_, lora_, {"models/base", "1-abc"}, type,
                 [&](const ParameterInfo& parameter) { return values_.at(parameter.name).data(); });
  }
  Values Read() const {
    Values read;
    size_t finished = 0;
    ReadAdapter(
        folder_.path(), *model_, lora_,
        [&](const ParameterInfo& parameter) {
          std::vector<float>& values = read[parameter.name];
          values.resize(static_cast<size_t>(parameter.shape.elements()));
          return values.data();
        },
        [&](const ParameterInfo&) { EXPECT_EQ(++finished, read.size()); });
    EXPECT_EQ(finished, values_.size());
    return read;
  }
  // adapter_config.json with `from` replaced.
  void Edit(const std::string& from, const std::string& to) const {
    std::string text = folder_.Read(kConfigFile);
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << text;
    folder_.Write(kConfigFile, text.replace(at, from.size(), to));
  }
  void ExpectRefused(std::initializer_list<std::string_view> parts) const {
    ExpectUserError([&] { ReadSettings(folder_.path()); }, parts);
  }

  const TempFolder folder_;
  const std::unique_ptr<models::Model> model_ =
      models::MakeModel(models::LlamaSpec({1, 8, 2, 1, 6, 10, 20, 4, false}));
  Lora lora_;
  Values values_;
};

TEST_F(Peft, ReadsWhatItWrote) {
  EXPECT_EQ(Read(), values_);
  const Settings settings = ReadSettings(folder_.path());
  EXPECT_EQ(settings.rank, 2);
  EXPECT_EQ(settings.alpha, 6);
  EXPECT_FALSE(settings.rslora);
  EXPECT_THAT(settings.targets, ElementsAre("o_proj", "q_proj", "v_proj"));
  EXPECT_THAT(settings.modules_to_save, ElementsAre("lm_head", "model.norm"));
  EXPECT_EQ(settings.dropout, 0);
  EXPECT_EQ(BaseChecksumOf(folder_.path()), "1-abc");
  Write(TensorType::kBf16);
  EXPECT_EQ(Read(), values_);  // small integers
}

TEST_F(Peft, RefusesScalesThatAreNone) {
  for (const char* alpha : {"0", "-6", "1e308", "1000001"}) {
    Write(TensorType::kF32);
    Edit("\"lora_alpha\": 6", std::string("\"lora_alpha\": ") + alpha);
    ExpectRefused({"adapter_config.json", "lora_alpha", "above 0 and at most 1e+06"});
  }
}

// Each module's rows, under PEFT's names.
TEST_F(Peft, CutsStackedParametersIntoModules) {
  const formats::SafetensorsReader file(folder_ / "adapter_model.safetensors");
  EXPECT_EQ(file.tensors().size(), 6u + 2u);
  const std::string v = "base_model.model.model.layers.0.self_attn.v_proj.lora_";
  EXPECT_THAT(file.Require(v + "A.weight").shape, ElementsAre(2, 8));
  EXPECT_THAT(file.Require(v + "B.weight").shape, ElementsAre(6, 2));
  std::vector<float> a(16), b(12);
  file.ReadFloat32(v + "A.weight", a.data(), 16);
  file.ReadFloat32(v + "B.weight", b.data(), 12);
  const std::vector<float>& all_a = values_.at("block.0.attn.qkv.lora_a");
  const std::vector<float>& all_b = values_.at("block.0.attn.qkv.lora_b");
  EXPECT_EQ(a, std::vector<float>(all_a.begin() + 16, all_a.end()));
  EXPECT_EQ(b, std::vector<float>(all_b.begin() + 24, all_b.end()));
}

TEST_F(Peft, RefusesSettingsThatItCannotFollow) {
  Edit("\"LORA\"", "\"IA3\"");
  ExpectRefused({kConfigFile, "peft_type", "IA3", "LORA"});
  Write();
  Edit("\"bias\": \"none\"", "\"bias\": \"lora_only\"");
  ExpectRefused({"bias", "lora_only"});
  Write();
  Edit("\"lora_dropout\": 0", "\"lora_dropout\": 1");
  ExpectRefused({"lora_dropout", "is 1;", "below 1"});
  for (const std::string setting : {"\"use_dora\": true", "\"rank_pattern\": {\"q_proj\": 4}",
                                    "\"layers_to_transform\": [1]", "\"lora_bias\": true"}) {
    Write();
    Edit("\"bias\"", setting + ", \"bias\"");
    ExpectRefused({"not supported"});
  }
  Write();
  Edit("\"bias\"", "\"something_new\": 3, \"bias\"");
  ExpectRefused({"something_new", "is 3", "doesn't know"});
  Write();
  Edit("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"");
  ExpectRefused({"init_lora_weights", "pissa", "base"});
}

TEST_F(Peft, KnowsEachKeyOfAConfig) {
  WalkKeys({.rules = ConfigKeys(),
            .valid = nlohmann::json::parse(folder_.Read(kConfigFile)),
            .read = [&](const nlohmann::json& config) {
              folder_.Write(kConfigFile, config.dump());
              const Settings read = ReadSettings(folder_.path());
              return fmt::format("{} {} {} {} {} {} {}", read.rank, read.alpha, read.rslora,
                                 read.ties, read.dropout, fmt::join(read.targets, " "),
                                 fmt::join(read.modules_to_save, " "));
            }});
}

TEST_F(Peft, TakesSettingsThatChangeNothing) {
  Edit("\"bias\"",
       "\"use_dora\": false, \"rank_pattern\": {}, \"layers_to_transform\": null, "
       "\"peft_version\": \"1\", \"exclude_modules\": [], \"bias\"");
  EXPECT_EQ(Read(), values_);
}

TEST_F(Peft, TargetsMayBeAllLinearButNoRegularExpression) {
  const std::string targets = folder_.Read(kConfigFile);
  const size_t begin = targets.find('['), end = targets.find(']');
  const std::string list = targets.substr(begin, end + 1 - begin);
  Edit(list, "\"all-linear\"");
  EXPECT_THAT(ReadSettings(folder_.path()).targets, ElementsAre("all-linear"));
  Edit("\"all-linear\"", "\".*_proj\"");
  ExpectRefused({"target_modules", "regular expression", "list"});
}

TEST_F(Peft, RefusesAnotherAdapterThanTheOneAskedFor) {
  Edit("\"r\": 2", "\"r\": 4");
  ExpectUserError([&] { Read(); }, {"rank 4", "lora.rank is 2"});
  Write();
  Edit("\"lora_alpha\": 6", "\"lora_alpha\": 8");
  ExpectUserError([&] { Read(); }, {"lora_alpha 8", "lora.alpha is 6"});
  Write();
  lora_.layers = SelectLayers(*model_, {"q_proj", "v_proj"});
  ExpectUserError([&] { Read(); }, {"o_proj.lora_A.weight", "belongs to no module"});
  lora_.layers = SelectLayers(*model_, {"q_proj", "v_proj", "o_proj", "k_proj"});
  ExpectUserError([&] { Read(); }, {"k_proj.lora_A.weight"});
}

// As PEFT does: the name has neither the adapter's nor modules_to_save in it.
TEST_F(Peft, KeepsSavedModulesUnderTheirOwnNames) {
  const formats::SafetensorsReader file(folder_ / "adapter_model.safetensors");
  std::vector<float> head(160);
  file.ReadFloat32("base_model.model.lm_head.weight", head.data(), 160);
  EXPECT_EQ(head, values_.at("head.weight"));
  EXPECT_NE(file.Find("base_model.model.model.norm.weight"), nullptr);
  const nlohmann::json config = nlohmann::json::parse(folder_.Read(kConfigFile));
  EXPECT_EQ(config["modules_to_save"], (nlohmann::json{"lm_head", "model.norm"}));
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  lora_.saved.clear();
  ExpectUserError([&] { Read(); },
                  {"lm_head.weight", "belongs to no module", "model.vocab", "modules_to_save"});
  Write();
  EXPECT_TRUE(nlohmann::json::parse(folder_.Read(kConfigFile))["modules_to_save"].is_null());
  lora_.saved = SelectSaved(*model_, {"lm_head"});
  ExpectUserError([&] { Read(); }, {"base_model.model.lm_head.weight"});
}

// Only a parameter that has begun afresh may be absent.
TEST_F(Peft, LeavesOutWhatIsOptionalAndAbsent) {
  Lora written = lora_;
  std::erase_if(written.saved, [](const auto& saved) { return saved.name == "head.weight"; });
  WriteAdapter(folder_.path(), *model_, written, {"models/base", ""}, TensorType::kF32,
               [&](const ParameterInfo& parameter) { return values_.at(parameter.name).data(); });
  EXPECT_EQ(BaseChecksumOf(folder_.path()), "");
  std::vector<std::string> finished;
  std::vector<float> values(1000);
  const std::string optional[] = {"head.weight", "norm.weight"};
  ReadAdapter(
      folder_.path(), *model_, lora_, [&](const ParameterInfo&) { return values.data(); },
      [&](const ParameterInfo& parameter) { finished.push_back(parameter.name); }, optional);
  EXPECT_THAT(finished, testing::Contains("norm.weight"));
  EXPECT_THAT(finished, testing::Not(testing::Contains("head.weight")));
}

// PEFT lists both names that heads of classifiers have; a model has one of them.
TEST_F(Peft, LeavesOutTheHeadsThatPeftNamesInAdvance) {
  const std::string list = "[\n    \"lm_head\",\n    \"model.norm\"\n  ]";
  Edit(list, "[\"lm_head\", \"model.norm\", \"classifier\", \"score\"]");
  EXPECT_THAT(ReadSettings(folder_.path()).modules_to_save, ElementsAre("lm_head", "model.norm"));
  Edit("[\"lm_head\", \"model.norm\", \"classifier\", \"score\"]", "[\"lm_head\", \"other\"]");
  EXPECT_THAT(ReadSettings(folder_.path()).modules_to_save, ElementsAre("lm_head", "other"));
}

// As PEFT writes and reads it: under both names, and tied.
TEST(PeftOfATiedModel, HasTheHeadUnderBothNames) {
  const auto model = models::MakeModel(models::LlamaSpec({1, 8, 2, 1, 6, 10, 20, 4, true}));
  Lora lora;
  lora.rank = lora.alpha = 1;
  lora.layers = SelectLayers(*model, {"q_proj"});
  lora.saved = SelectSaved(*model, {"embed_tokens"});
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TempFolder folder;
  WriteAdapter(folder.path(), *model, lora, {}, TensorType::kF32,
               [&](const ParameterInfo&) { return values.data(); });
  const std::string name = folder / "adapter_model.safetensors";
  const std::string table = "base_model.model.model.embed_tokens.weight",
                    head = "base_model.model.lm_head.weight";
  {
    const formats::SafetensorsReader file(name);
    EXPECT_THAT(file.Require(head).shape, ElementsAre(20, 8));
    EXPECT_TRUE(std::ranges::equal(file.Raw(head), file.Raw(table)));
  }
  const auto read = [&] {
    size_t parameters = 0;
    std::vector<float> to(1000);
    ReadAdapter(
        folder.path(), *model, lora, [&](const ParameterInfo&) { return to.data(); },
        [&](const ParameterInfo&) { ++parameters; });
    EXPECT_EQ(parameters, 3u);
  };
  read();
  const std::string config = folder.Read(kConfigFile);
  nlohmann::json other = nlohmann::json::parse(config);
  EXPECT_EQ(other["ensure_weight_tying"], true);
  other["ensure_weight_tying"] = false;
  folder.Write(kConfigFile, other.dump());
  ExpectUserError(read, {"ensure_weight_tying", "is the head as well", "merge"});
  folder.Write(kConfigFile, config);
  const std::string prefix = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  float next = 0;
  formats::WriteSafetensors(name,
                            {{prefix + "A.weight", TensorType::kF32, {1, 8}},
                             {prefix + "B.weight", TensorType::kF32, {12, 1}},
                             {table, TensorType::kF32, {20, 8}},
                             {head, TensorType::kF32, {20, 8}}},
                            [&](const formats::TensorSpec& tensor, formats::TensorSink& sink) {
                              const int64_t elements = tensor.shape[0] * tensor.shape[1];
                              sink.WriteFloat32(std::vector<float>(elements, ++next));
                            });
  ExpectUserError(read, {"lm_head.weight", "differ", "ties them into one"});
}

// transformers' Conv1D is stored transposed.
TEST(PeftOfGpt2, StoresSavedModulesAsTheModelsFilesDo) {
  const auto model = models::MakeModel(models::Gpt2Spec(1, 2, 1, 20, 4));
  Lora lora;
  lora.rank = lora.alpha = 1;
  lora.layers = SelectLayers(*model, {"c_attn"});
  lora.saved = SelectSaved(*model, {"mlp.c_fc"});
  Values values;
  for (const ParameterInfo& parameter : TrainedParameters(lora)) {
    std::vector<float>& of = values[parameter.name];
    for (int64_t i = 0; i < parameter.shape.elements(); ++i) of.push_back(static_cast<float>(i));
  }
  const TempFolder folder;
  WriteAdapter(folder.path(), *model, lora, {}, TensorType::kF32,
               [&](const ParameterInfo& parameter) { return values.at(parameter.name).data(); });
  const formats::SafetensorsReader file(folder / "adapter_model.safetensors");
  const std::string name = "base_model.model.transformer.h.0.mlp.c_fc.weight";
  EXPECT_THAT(file.Require(name).shape, ElementsAre(2, 8));
  std::vector<float> stored(16);
  file.ReadFloat32(name, stored.data(), 16);
  EXPECT_EQ(stored[1], values.at("block.0.mlp.fc.weight")[2]);  // row 1 of column 0
  Values read;
  ReadAdapter(
      folder.path(), *model, lora,
      [&](const ParameterInfo& parameter) {
        read[parameter.name].resize(static_cast<size_t>(parameter.shape.elements()));
        return read[parameter.name].data();
      },
      [](const ParameterInfo&) {});
  EXPECT_EQ(read, values);
}

TEST_F(Peft, ChecksShapes) {
  const std::string name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  lora_.layers = SelectLayers(*model_, {"q_proj"});
  lora_.saved.clear();
  Write();
  formats::WriteSafetensors(folder_ / "adapter_model.safetensors",
                            {{name + "A.weight", TensorType::kF32, {2, 8}},
                             {name + "B.weight", TensorType::kF32, {8, 2}}},
                            [](const formats::TensorSpec&, formats::TensorSink& sink) {
                              sink.WriteFloat32(std::vector<float>(16));
                            });
  ExpectUserError([&] { Read(); }, {"q_proj.lora_B.weight", "[8, 2]", "[12, 2]"});
}

}  // namespace
}  // namespace plimsoll::adapters
