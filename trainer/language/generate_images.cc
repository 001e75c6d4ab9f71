#include "trainer/language/generate_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "data/noise.h"
#include "formats/png.h"
#include "trainer/language/not_finite.h"
#include "trainer/language/predict.h"
#include "trainer/record/sample_grid.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBatch = 64;        // number of images at a time
constexpr double kQuietSeconds = 10;  // least time between two lines of progress

void CheckOptions(const ImageOptions& options, const TrainedModel& trained) {
  if (!options.count) {
    throw UserError(fmt::format("{}: models of family {} make images; say how many: {}",
                                trained.folder, trained.model->family(),
                                WayToImages(trained.folder)));
  }
  if (options.to.empty()) {
    throw UserError("--to: images are files, and need a folder to be written to; give --to FOLDER");
  }
}

// Whether this command wrote the file: its name is like "000001.png".
bool IsMade(const std::filesystem::path& path) {
  const std::string stem = path.stem();
  return path.extension() == ".png" && stem.size() == 6 &&
         stem.find_first_not_of("0123456789") == stem.npos;
}

// Makes sure that the folder is new or empty, so that no file is overwritten. With `overwrite`,
// returns the folder's images that will be replaced.
std::vector<std::filesystem::path> MakeImageFolder(const std::string& folder, bool overwrite) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("--to {}: the folder cannot be made: {}; name another one", folder,
                                error.message()));
  }
  std::vector<std::filesystem::path> made;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!overwrite) {
      throw UserError(
          fmt::format("--to {}: holds files already; name another folder, empty it, or "
                      "give --overwrite to replace the images that it holds",
                      folder));
    }
    if (IsMade(entry.path())) made.push_back(entry.path());
  }
  if (error) {
    throw UserError(fmt::format("--to {}: {}; name another folder", folder, error.message()));
  }
  return made;
}

// The objective whose evaluation generates images.
size_t ObjectiveOfImages(const CompiledStep& compiled) {
  const std::vector<int>& programs = compiled.step.evaluations;
  const auto found = std::ranges::find_if(programs, [&](int program) {
    return compiled.programs[program]->Find(kMadeImages) != graph::kNoTensor;
  });
  if (found == programs.end()) throw InternalError("no evaluation leaves images");
  return static_cast<size_t>(found - programs.begin());
}

// A model in memory that generates images from noise.
class ImageMaker {
 public:
  ImageMaker(int64_t batch, const std::string& dtype, const TrainedModel& trained)
      : trained_(trained), dtype_(dtype), seed_(NoiseSeed(trained.config().sample.seed)) {
    CompileOptions options = InferenceOptions(trained, dtype);
    options.evaluate = true;
    options.micro_batch = batch;
    pool_ = std::make_unique<ThreadPool>(options.threads);
    device_ = MakeDevice(trained.config(), *pool_);
    session_ = std::make_unique<Session>(Compile(*trained.model, options), *device_);
    objective_ = ObjectiveOfImages(session_->compiled());
    noise_ = session_->FindSlot("noise");
    if (noise_ == nullptr || !data::IsNoise(*noise_)) {
      throw UserError(trained.folder + ": the model makes its images of other inputs than noise");
    }
    const int64_t channels = shape().dim(3);
    if (channels != 1 && channels != 3) {
      throw UserError(fmt::format("{}: the model makes images of {}; PNG files have 1 or 3",
                                  trained.folder, Counted(channels, "channel")));
    }
    LoadTrained(trained, *session_);
  }

  const CompiledStep& compiled() const { return session_->compiled(); }
  graph::Shape shape() const { return session_->ShapeOf(kMadeImages); }  // [B,H,W,C]

  // Generates a batch: images `first`, `first` + 1, …
  std::vector<float> Make(int64_t first) {
    data::FillNoise(*noise_, first, seed_);
    session_->RunEvaluation(objective_);
    std::vector<float> images = session_->Read<float>(kMadeImages);
    if (std::ranges::all_of(images, [](float value) { return std::isfinite(value); })) {
      return images;
    }
    throw ExplainNotFinite(trained_, *session_, dtype_, "the images hold NaN or infinity");
  }

 private:
  const TrainedModel& trained_;
  std::string dtype_;
  uint64_t seed_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<Session> session_;
  size_t objective_ = 0;
  const Slot* noise_ = nullptr;
};

// Writes a PNG file; `image` is [H,W,C].
void WriteImage(const std::string& path, const graph::Shape& shape, std::span<const float> image) {
  std::vector<uint8_t> pixels(image.size());
  std::ranges::transform(image, pixels.begin(), &Brightness);
  const std::vector<uint8_t> bytes = formats::EncodePng(shape.dim(2), shape.dim(1), pixels);
  OutputFile file(path);
  file.Write(std::as_bytes(std::span(bytes)));
  file.Commit(OutputFile::Sync::kNo);
}

}  // namespace

std::string WayToImages(const std::string& folder) {
  return fmt::format("plimsoll generate {} --images N --to FOLDER", folder);
}

uint64_t NoiseSeed(int64_t seed) {
  constexpr uint64_t kPurpose = 0x67656e6572617465;  // "generate" in ASCII
  return Hash(static_cast<uint64_t>(seed), kPurpose);
}

void GenerateImages(const ImageOptions& options, const std::string& dtype,
                    const TrainedModel& trained) {
  CheckOptions(options, trained);
  const auto replaced = MakeImageFolder(options.to, options.overwrite);
  ImageMaker maker(options.batch.value_or(kBatch), dtype, trained);
  for (const std::filesystem::path& path : replaced) {
    std::error_code error;
    std::filesystem::remove(path, error);
  }
  const graph::Shape shape = maker.shape();
  const int64_t count = *options.count;
  const auto elements = static_cast<size_t>(shape.elements() / shape.dim(0));

  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  double said = 0;
  for (int64_t first = 0; first < count; first += shape.dim(0)) {
    const std::vector<float> images = maker.Make(first);
    const int64_t end = std::min(first + shape.dim(0), count);
    for (int64_t i = first; i < end; ++i) {
      WriteImage((std::filesystem::path(options.to) / fmt::format("{:06}.png", i + 1)).string(),
                 shape,
                 std::span(images).subspan(static_cast<size_t>(i - first) * elements, elements));
    }
    if (end == count || seconds() < said + kQuietSeconds) continue;
    said = seconds();
    PrintProgress(fmt::format("{} of {}\n", end, Counted(count, "image")));
  }
  const double taken = seconds();
  const InferenceMemory memory = MemoryOf(maker.compiled());
  PrintProgress(fmt::format("{} of {} × {} in {}, {:.1f} images/s; arena {}: weights {}\n",
                            Counted(count, "image"), shape.dim(1), shape.dim(2), options.to,
                            static_cast<double>(count) / taken, FormatBytes(memory.arena),
                            FormatBytes(memory.weights)));
}

}  // namespace plimsoll::trainer
