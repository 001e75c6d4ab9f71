// Every file of configs/ loads, and the models have exactly the published number of parameters.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "models/family.h"
#include "tests/trainer/config/config_files.h"
#include "trainer/config/load.h"
#include "trainer/config/overrides.h"
#include "trainer/config/shipped.h"

namespace plimsoll::config {
namespace {

int64_t Parameters(const ModelConfig& model) {
  return models::MakeModel(*models::FindFamily(model.family), model.settings)->parameter_count();
}

TEST(Configs, EveryFileLoadsToItself) {
  const std::vector<std::string> files = ConfigFiles();
  EXPECT_GE(files.size(), 12u);
  for (const std::string& file : files) {
    const Loaded loaded = Load(file);
    EXPECT_TRUE(loaded.warnings.empty()) << file << ": " << loaded.warnings.front();
    EXPECT_EQ(LoadText(loaded.resolved_yaml, "resolved.yaml").resolved_yaml, loaded.resolved_yaml)
        << file;
  }
}

TEST(Configs, TheProgramHoldsEveryFile) {
  const std::vector<std::string> files = ConfigFiles();
  EXPECT_EQ(ShippedFiles().size(), files.size() + ShippedNames("configs/studies").size());
  for (const std::string& file : files) {
    const ShippedFile* const shipped = FindShipped("./" + file);
    ASSERT_NE(shipped, nullptr) << file;
    EXPECT_EQ(shipped->text, ReadFile(file)) << file;
  }
  EXPECT_EQ(FindShipped("models/gpt2-124m.yaml"), nullptr);
  const std::vector<std::string> names = ShippedNames("configs/models");
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::count(names, "gpt2-124m"), 1);
}

TEST(Configs, ModelsHaveThePublishedNumberOfParameters) {
  // GPT-2's counts are for 50257 tokens; the files pad the vocabulary to 50304 (47 rows more).
  const std::map<std::string, int64_t> published = {
      {"bert-base", 109'514'298},
      {"bert-large", 335'174'458},
      {"dcgan-64", 3'576'704 + 2'765'568},
      {"gemma-2-2b", 2'614'341'888},
      {"gemma-3-1b", 999'885'952},
      {"gpt2-124m", 124'439'808 + 47 * 768},
      {"gpt2-355m", 354'823'168 + 47 * 1024},
      {"gpt2-774m", 774'030'080 + 47 * 1280},
      {"gpt2-1558m", 1'557'611'200 + 47 * 1600},
      {"llama-1b", 1'235'814'400},
      {"llama-3b", 3'212'749'824},
      {"llama-8b", 8'030'261'248},
      {"llama-13b", 13'015'864'320},
      {"mistral-7b", 7'248'023'552},
      {"phi-3-mini", 3'821'079'552},
      {"phi-4-mini", 3'836'021'760},
      {"qwen2-0.5b", 494'032'768},
      {"qwen2-1.5b", 1'543'714'304},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},
      {"resnet-18", 11'689'512},
      {"resnet-50", 25'557'032},
      {"resnet-152", 60'192'808},
      {"unet-3d", 16'544'163},
      {"vit-tiny", 5'717'416},
      {"vit-small", 22'050'664},
      {"vit-base", 86'567'656},
      {"vit-large", 304'326'632},
  };
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(Parameters(Load("configs/models/" + name + ".yaml").config.model), parameters)
        << name;
  }
  // GPT-3's count is published in millions (Brown et al. 2020, table D.1): 174,600, with an
  // unpadded vocabulary.
  const ModelConfig gpt3 = Load("configs/models/gpt3-175b.yaml").config.model;
  EXPECT_NEAR(static_cast<double>(Parameters(gpt3) - 47 * gpt3.settings.Int("width")) / 1e6,
              174'600, 5);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/models")) {
    files += entry.path().extension() == ".yaml";
  }
  EXPECT_EQ(files, published.size() + 1);
}

TEST(Configs, ModelsCanBeExtended) {
  const FileReader read = ReadFile;
  const RunConfig config =
      LoadText("extends: models/gpt2-124m.yaml\nmodel: {sequence: 256}\ndata: {train: x.bin}\n",
               "configs/run.yaml", {}, 1, read)
          .config;
  EXPECT_EQ(config.model.settings.Int("width"), 768);
  EXPECT_EQ(config.model.sequence(), 256);
  EXPECT_EQ(config.model.settings.Int("max_sequence"), 1024);
  EXPECT_FALSE(config.data.synthetic);
}

}  // namespace
}  // namespace plimsoll::config
