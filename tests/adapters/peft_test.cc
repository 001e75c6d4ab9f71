#include "adapters/peft.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
    float next = 0;
    for (const ParameterInfo& parameter : Parameters(lora_)) {
      std::vector<float>& values = values_[parameter.name];
      for (int64_t i = 0; i < parameter.shape.elements(); ++i) values.push_back(next++);
    }
    Write();
  }

  void Write(TensorType type = TensorType::kF32) {
    WriteAdapter(folder_.path(), *model_, lora_, "models/base", type,
                 [&](const ParameterInfo& parameter) { return values_.at(parameter.name).data(); });
  }
  Values Read() const {
    Values read;
    size_t finished = 0;
    ReadAdapter(
        folder_.path(), lora_,
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
  EXPECT_EQ(file.tensors().size(), 6u);
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
  Edit("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]");
  ExpectRefused({"modules_to_save", "lm_head", "not supported"});
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
              return fmt::format("{} {} {} {}", read.rank, read.alpha, read.rslora,
                                 fmt::join(read.targets, " "));
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
  ExpectUserError([&] { Read(); }, {"o_proj.lora_A.weight", "belongs to no linear layer"});
  lora_.layers = SelectLayers(*model_, {"q_proj", "v_proj", "o_proj", "k_proj"});
  ExpectUserError([&] { Read(); }, {"k_proj.lora_A.weight"});
}

TEST_F(Peft, ChecksShapes) {
  const std::string name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  lora_.layers = SelectLayers(*model_, {"q_proj"});
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
