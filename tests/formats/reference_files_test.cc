// Checkpoints that Hugging Face's libraries wrote, read and written again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/model_safetensors.h"
#include "formats/safetensors_writer.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

namespace fs = std::filesystem;

TEST(ReferenceFiles, EveryCheckpointIsReadAndSurvivesRewritingInShards) {
  const auto shared = SharedFolder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  size_t checkpoints = 0;
  for (const auto& folder : fs::directory_iterator(fs::path(*shared) / "golden")) {
    for (const char* file : {"model.safetensors", "final.safetensors"}) {
      SCOPED_TRACE((folder.path() / file).string());
      const SafetensorsReader original((folder.path() / file).string());
      ++checkpoints;
      ASSERT_GT(original.tensors().size(), 5u);
      std::vector<TensorSpec> specs;
      for (const TensorEntry& tensor : original.tensors()) {
        specs.push_back({tensor.name, tensor.type, tensor.shape});
        std::vector<float> values(static_cast<size_t>(tensor.elements));
        original.ReadFloat32(tensor.name, values.data(), tensor.elements);
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float x) {
          return std::isfinite(x) && std::abs(x) < 100;
        })) << tensor.name;
      }
      const TempFolder copy;
      const auto write = [&](const TensorSpec& tensor, TensorSink& sink) {
        sink.Write(original.Raw(tensor.name));
      };
      WriteModelSafetensors(copy.path(), specs, 100'000, write, original.metadata());
      EXPECT_TRUE(fs::exists(copy / "model.safetensors.index.json"));
      const ModelSafetensors again(copy.path());
      ASSERT_EQ(again.Names().size(), specs.size());
      for (const TensorSpec& tensor : specs) {
        EXPECT_EQ(again.Require(tensor.name).shape, tensor.shape);
        EXPECT_TRUE(std::ranges::equal(again.Raw(tensor.name), original.Raw(tensor.name)))
            << tensor.name;
      }
    }
    const JsonObject expected = JsonObject::FromFile((folder.path() / "expected.json").string());
    EXPECT_GT(expected.RequireInt("batch", 1), 0);
    EXPECT_GT(expected.RequireInt("sequence", 1), 0);
    EXPECT_FALSE(JsonObject::FromFile((folder.path() / "config.json").string())
                     .RequireString("model_type")
                     .empty());
  }
  EXPECT_GE(checkpoints, 2u);
}

}  // namespace
}  // namespace plimsoll::formats
