#include "trainer/language/volume_needs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/volumes/volume_resampling.h"
#include "tests/support/expect_error.h"

namespace plimsoll::trainer {
namespace {

using data::VolumeFile;
using data::VolumeShape;
using data::VolumeSize;

// Five classes; windows of 8 × 4 × 4 voxels and two channels, three at a time.
WindowOptions Options() {
  return {.patch = {.size = {8, 4, 4}, .channels = 2}, .classes = 5, .overlap = 0.5, .batch = 3};
}

VolumeToPredict Volume(const std::string& name, const VolumeSize& size,
                       const VolumeSize& file_size) {
  return {.file = {.name = name, .images = {name + ".nii.gz"}, .label = ""},
          .shape = {.channels = 2, .size = size, .file_size = file_size}};
}

config::RunConfig Within(int64_t bytes) {
  config::RunConfig config;
  config.memory.host_budget = config::MemorySize{.bytes = bytes};
  config.origins["memory.host_budget"] = "run.yaml:7";
  return config;
}

TEST(VolumeNeeds, AreCountedByPart) {
  const VolumeToPredict volume = Volume("a", {20, 10, 12}, {20, 10, 12});
  const VolumeNeeds needs = NeedsOf(volume.file, volume.shape, Options());
  EXPECT_EQ(needs.inputs, 0);                  // in the arena
  EXPECT_EQ(needs.reading, 2 * 4 * 2 * 2400);  // as read, and reordered
  EXPECT_EQ(needs.voxels, 4 * 2 * 2400);       // two channels
  // Eight slices of 20, and weights of a window and of a slice.
  EXPECT_EQ(needs.sums, 4 * (8 * 10 * 12 * 5 + 8 * 16 + 10 * 12));
  EXPECT_EQ(needs.windows, 4 * 4 * 5 * 9 * 8);  // 4, 4 and 5 of them along the axes
  EXPECT_EQ(needs.logits, 3 * 8 * 16 * 5 * 4);
  EXPECT_EQ(needs.slice, data::LikeliestClasses::Bytes({20, 10, 12}, {20, 10, 12}, 5));
  EXPECT_EQ(needs.classes, 2400);
  EXPECT_EQ(needs.writing, 2 * 4 * 2400);  // read again, as floats
  EXPECT_EQ(needs.bytes(), VolumeNeeds::kBuffers + needs.merging());
  EXPECT_EQ(needs.merging(),
            needs.voxels + needs.sums + needs.windows + needs.logits + needs.slice + needs.classes);

  // The slab is that of a window, however deep the volume.
  const VolumeToPredict deep = Volume("b", {2000, 10, 12}, {2000, 10, 12});
  EXPECT_EQ(NeedsOf(deep.file, deep.shape, Options()).sums, needs.sums);

  WindowOptions on_gpu = Options();
  on_gpu.fills_on_host = true;
  const VolumeNeeds with_inputs = NeedsOf(volume.file, volume.shape, on_gpu);
  EXPECT_EQ(with_inputs.inputs, 3 * 8 * 16 * (2 + 1) * 4);
  EXPECT_EQ(with_inputs.bytes(), needs.bytes() + with_inputs.inputs);
}

TEST(VolumeNeeds, ReadingAndWritingAreInTheVoxelsOfTheFile) {
  VolumeToPredict volume = Volume("a", {10, 10, 10}, {20, 20, 20});
  VolumeNeeds needs = NeedsOf(volume.file, volume.shape, Options());
  EXPECT_EQ(needs.reading, 2 * 4 * 2 * 8000);
  EXPECT_EQ(needs.voxels, 4 * 2 * 1000);
  EXPECT_EQ(needs.slice, data::LikeliestClasses::Bytes({10, 10, 10}, {20, 20, 20}, 5));
  EXPECT_EQ(needs.classes, 8000);
  EXPECT_EQ(needs.writing, 2 * 4 * 8000);  // read again
  // Room for the channels of several files grows with each of them.
  volume.file.images = {"a_0000.nii.gz", "a_0001.nii.gz"};
  EXPECT_EQ(NeedsOf(volume.file, volume.shape, Options()).reading, 3 * 4 * 2 * 8000);
  // Next to the segmentation, the label is read as floats.
  volume.file.label = "label.nii.gz";
  needs = NeedsOf(volume.file, volume.shape, Options());
  EXPECT_EQ(needs.writing, 4 * 8000 + 2 * 4 * 8000);
  // Resampled to more voxels than the file has.
  volume = Volume("a", {40, 40, 40}, {20, 20, 20});
  EXPECT_EQ(NeedsOf(volume.file, volume.shape, Options()).reading, 4 * 2 * (8000 + 64000));
}

TEST(VolumeNeeds, AreRefusedBeyondTheBudget) {
  const std::vector<VolumeToPredict> volumes = {Volume("small", {8, 4, 4}, {8, 4, 4}),
                                                Volume("large", {20, 10, 12}, {20, 10, 12})};
  const VolumeNeeds needs = NeedsOf(volumes[1].file, volumes[1].shape, Options());
  EXPECT_EQ(RequireHostMemory(volumes, Options(), {}), needs.bytes());  // no budget
  EXPECT_EQ(RequireHostMemory(volumes, Options(), Within(needs.bytes())), needs.bytes());
  EXPECT_EQ(RequireHostMemory({}, Options(), Within(1)), 0);

  const std::string bytes = std::to_string(needs.bytes());
  const auto refused = [&](int64_t budget) {
    try {
      RequireHostMemory(volumes, Options(), Within(budget));
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kBudgetNotMet);
    }
    return MessageOf<UserError>([&] { RequireHostMemory(volumes, Options(), Within(budget)); });
  };
  const int64_t logits = needs.logits / 3;  // of a window
  ExpectMessage(refused(needs.bytes() - 1),
                {"run.yaml:7: memory.host_budget: ", "large.nii.gz, 20 × 10 × 12 voxels, needs ",
                 "(" + bytes + " bytes): ", "sums of 8 of 20 slices ",
                 "give --batch 2 in place of 3, or --host-budget " + bytes, "nothing was written"});
  ExpectMessage(refused(needs.bytes() - logits), {"nothing was written"});
}

TEST(VolumeNeeds, TheBatchThatIsNamedFits) {
  for (const bool on_gpu : {false, true}) {
    WindowOptions options = Options();
    options.fills_on_host = on_gpu;
    const std::vector<VolumeToPredict> volumes = {Volume("small", {8, 4, 4}, {8, 4, 4}),
                                                  Volume("large", {20, 10, 12}, {20, 10, 12})};
    const auto needs_with = [&](int64_t batch) {
      WindowOptions other = options;
      other.batch = batch;
      return NeedsOf(volumes[1].file, volumes[1].shape, other).bytes();
    };
    for (const int64_t batch : {1, 2}) {
      for (const int64_t budget : {needs_with(batch), needs_with(batch + 1) - 1}) {
        ExpectUserError([&] { RequireHostMemory(volumes, options, Within(budget)); },
                        {"give --batch " + std::to_string(batch) + " in place of 3"});
        WindowOptions fits = options;
        fits.batch = batch;
        EXPECT_EQ(RequireHostMemory(volumes, fits, Within(budget)), needs_with(batch));
      }
    }
    const auto message = MessageOf<UserError>(
        [&] { RequireHostMemory(volumes, options, Within(needs_with(1) - 1)); });
    ExpectMessage(message, {"or leave out volumes of such a size"});
    EXPECT_EQ(message->find("--batch"), message->npos) << *message;
  }
}

// What is read does not get smaller with the batch.
TEST(VolumeNeeds, NoBatchHelpsReading) {
  const std::vector<VolumeToPredict> volumes = {Volume("a", {8, 4, 4}, {80, 80, 80})};
  const VolumeNeeds needs = NeedsOf(volumes[0].file, volumes[0].shape, Options());
  ASSERT_EQ(needs.bytes(), VolumeNeeds::kBuffers + needs.reading);
  const auto message = MessageOf<UserError>(
      [&] { RequireHostMemory(volumes, Options(), Within(needs.bytes() - 1)); });
  ExpectMessage(message,
                {"give --host-budget " + std::to_string(needs.bytes()), "crop the volume"});
  EXPECT_EQ(message->find("--batch"), message->npos) << *message;
}

}  // namespace
}  // namespace plimsoll::trainer
