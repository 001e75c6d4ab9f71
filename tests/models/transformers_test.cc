// Checkpoints written by Hugging Face's transformers give the same logits and losses as in
// transformers. testdata/ is made by check_with_transformers.py --write-fixtures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "models/language_model.h"
#include "tests/models/forward.h"
#include "tests/models/loaded_weights.h"
#include "tests/models/recorded_case.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {
namespace {

namespace fs = std::filesystem;
using formats::JsonObject;

std::vector<std::string> Folders(const fs::path& parent) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(parent)) folders.push_back(entry.path().string());
  std::ranges::sort(folders);
  return folders;
}

TEST(Transformers, LogitsAndLossAgree) {
  const std::vector<std::string> folders = Folders("tests/models/testdata");
  ASSERT_EQ(folders.size(), 14u);
  for (const std::string& folder : folders) {
    const JsonObject expected = JsonObject::FromFile(folder + "/expected.json");
    std::vector<int32_t> tokens;
    for (int64_t token : expected.RequireInts("tokens")) {
      tokens.push_back(static_cast<int32_t>(token));
    }
    const Batch batch = {1, static_cast<int64_t>(tokens.size())};
    ExpectLogits(Forward(folder, batch, Head::kLogits).Logits(tokens),
                 expected.RequireFloats("logits"), 5e-6, folder);

    std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
    targets.push_back(-100);
    const double loss = Forward(folder, batch, Head::kLoss).Loss(tokens, targets);
    EXPECT_NEAR(loss / expected.RequireFloat("loss"), 1, 5e-6) << folder;
  }
}

// Reads and writes a checkpoint; names, shapes and bytes must be the original's.
void ExpectCopyEqual(const std::string& folder) {
  const auto model = ModelFromHuggingFace(folder);
  const LoadedWeights weights = ReadWeights(folder, *model);
  EXPECT_EQ(LoadPieces(folder, *model, {.buffers = 1, .buffer_bytes = 9}), weights) << folder;
  EXPECT_EQ(LoadPieces(folder, *model, {.threads = 3, .buffer_bytes = 1 << 20}), weights) << folder;
  const TempFolder copy;
  SaveWeights(copy.path(), *model, [&](const ParameterInfo& parameter) -> const float* {
    return weights.at(parameter.name).data();
  });
  EXPECT_EQ(LanguageSpec(*ModelFromHuggingFace(copy.path())), LanguageSpec(*model)) << folder;
  const formats::ModelSafetensors original(folder), written(copy.path());
  EXPECT_EQ(written.Names(), original.Names()) << folder;
  for (const std::string& name : original.Names()) {
    EXPECT_EQ(written.Require(name).shape, original.Require(name).shape) << name;
    EXPECT_TRUE(std::ranges::equal(written.Raw(name), original.Raw(name))) << folder << " " << name;
  }
}

TEST(Transformers, CheckpointsSurviveReadingAndWriting) {
  for (const std::string& folder : Folders("tests/models/testdata")) ExpectCopyEqual(folder);
}

std::vector<int32_t> ReadUint16(const std::string& path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) {
    const int low = file.get();
    tokens.push_back(low + 256 * file.get());
  }
  if (!file) throw InternalError(path + " is too short");
  return tokens;
}

TEST(Transformers, FirstLossesOfTheReferenceTrajectories) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  for (const std::string& folder : Folders(*shared + "/golden")) {
    ExpectCopyEqual(folder);
    const JsonObject expected = JsonObject::FromFile(folder + "/expected.json");
    const Batch batch = {expected.RequireInt("batch"), expected.RequireInt("sequence")};
    const int64_t micro_steps = expected.RequireInt("accumulate");
    const size_t window = static_cast<size_t>(batch.batch * batch.sequence);
    const std::vector<int32_t> tokens =
        ReadUint16(folder + "/tokens.bin", window * static_cast<size_t>(micro_steps) + 1);
    Forward forward(folder, batch, Head::kLoss);
    double loss = 0;
    for (int64_t step = 0; step < micro_steps; ++step) {
      const auto begin = tokens.begin() + static_cast<int64_t>(window) * step;
      const auto end = begin + static_cast<int64_t>(window);
      loss += forward.Loss({begin, end}, {begin + 1, end + 1}) / static_cast<double>(micro_steps);
    }
    EXPECT_NEAR(loss / expected.RequireObjects("steps").at(0).RequireFloat("loss"), 1, 1e-5)
        << folder;
  }
}

}  // namespace
}  // namespace plimsoll::models
