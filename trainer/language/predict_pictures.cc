// `plimsoll predict` for models that classify pictures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/amounts.h"
#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "data/images/image_preparation.h"
#include "data/images/picture_files.h"
#include "data/images/preprocessor_config.h"
#include "formats/json.h"
#include "formats/npy.h"
#include "trainer/language/predict.h"
#include "trainer/save_and_resume/picture_preparation.h"

namespace plimsoll::trainer {
namespace {

data::ImagePreparation PreparationOf(const PredictCommand& command, const TrainedModel& trained,
                                     const data::ImageSize& model) {
  // The preparation file next to an adapter's base weights does not describe the run.
  const std::string file = trained.weights + "/" + data::kPreparationFile;
  const bool is_its_own = command.run_file.empty() && !trained.config().lora.asked();
  if (std::error_code ignored; is_its_own && std::filesystem::exists(file, ignored)) {
    return data::ReadPreparation(file, model);
  }
  if (const auto config = DataConfigOf(command, trained)) {
    if (const auto preparation = PreparationBy(*config, *trained.model)) return *preparation;
    throw UserError(fmt::format(
        "{}: its data.source, {}, does not say how pictures are prepared; name a Hugging Face "
        "folder, such as {}/model, with --run-file and a file whose data.source is images",
        command.folder, config->data.source, command.folder));
  }
  throw UserError(fmt::format(
      "{}: nothing says how its pictures are prepared (there is no {}); name a run file whose data "
      "says it with --run-file",
      command.folder, data::kPreparationFile));
}

// The model's image input, [B,H,W,C]. Its label inputs are left unfilled.
const Slot& ImagesOf(const Session& session, const PredictCommand& command) {
  const Slot* images = nullptr;
  for (const Slot& slot : session.slots()) {
    if (slot.name == "images" && slot.type.dtype == graph::DType::kFloat32 &&
        slot.type.shape.rank() == 4) {
      images = &slot;
    } else if (slot.name == "labels" && slot.type.dtype == graph::DType::kInt32) {
      std::ranges::fill(slot.values<int32_t>(), -1);
    } else if (slot.name == "label_values" && slot.type.dtype == graph::DType::kFloat32) {
      std::ranges::fill(slot.values<float>(), std::numeric_limits<float>::quiet_NaN());
    } else {
      throw UserError(fmt::format("{}: pictures have nothing for the model's input '{}', {}",
                                  command.folder, slot.name, slot.type.ToString()));
    }
  }
  if (images == nullptr) {
    throw UserError(command.folder + ": the model reads no pictures (an input 'images')");
  }
  return *images;
}

// Writes features of pictures, one row each, in NumPy's format. The file appears with Write().
class FeatureFile {
 public:
  FeatureFile(const std::string& path, int64_t width) : path_(path), file_(path), width_(width) {}

  // Adds the first `rows` of a batch.
  void Add(std::span<const float> batch, int64_t rows) {
    const std::span<const float> taken = batch.first(static_cast<size_t>(rows * width_));
    features_.insert(features_.end(), taken.begin(), taken.end());
  }
  void Write() {
    RefuseInput(path_, "--features");
    const int64_t rows = std::ssize(features_) / width_;
    file_.Write(formats::NpyHeader(std::vector{rows, width_}));
    file_.Write(std::as_bytes(std::span(features_)));
    file_.Commit();
  }

 private:
  std::string path_;
  OutputFile file_;
  int64_t width_;
  std::vector<float> features_;
};

// The fraction of each class as text: "200 pictures: Trouser 9.5 %, Dress 90.5 %", ordered by class
// number.
std::string SharesText(const std::map<int64_t, int64_t>& counts, int64_t pictures,
                       const std::vector<std::string>& names) {
  constexpr size_t kMost = 100;  // classes in a line
  if (counts.size() > kMost) {
    return fmt::format("{} of {}\n", Counted(pictures, "picture"), Counted(counts.size(), "class"));
  }
  std::vector<std::string> shares;
  for (const auto& [number, count] : counts) {
    shares.push_back(
        fmt::format("{} {}", formats::Printable(ClassName(names, number)),
                    PercentText(static_cast<double>(count) / static_cast<double>(pictures))));
  }
  return fmt::format("{}: {}\n", Counted(pictures, "picture"), fmt::join(shares, ", "));
}

int64_t MostPictures(const std::vector<std::string>& files) {
  return std::ranges::any_of(files, &data::HoldsSeveral) ? std::numeric_limits<int64_t>::max()
                                                         : std::ssize(files);
}

}  // namespace

Predicted PredictPictures(const PredictCommand& command, const TrainedModel& trained) {
  if (!command.texts.empty()) {
    throw UserError("--text: the model reads pictures; name files of them");
  }
  if (!command.tokenizer.empty()) {
    throw UserError("--tokenizer: the model reads pictures, which have no tokens; leave it out");
  }
  const std::vector<std::string> files = data::FindPictures(command.inputs);
  Predictor predictor(trained, command, RowsFor(command, trained, MostPictures(files)), false);
  const Slot& images = ImagesOf(predictor.session(), command);
  const graph::Shape& shape = images.type.shape;
  const data::ImageSize size = {shape.dim(1), shape.dim(2), shape.dim(3)};
  if (size.channels != 1 && size.channels != 3) {
    throw UserError(fmt::format("{}: the model reads images of {}; pictures have 1 or 3",
                                command.folder, Counted(size.channels, "channel")));
  }
  const data::ImagePreparation preparation = PreparationOf(command, trained, size);
  if (preparation.canvas != size) {
    throw UserError(fmt::format(
        "{}: the model reads images of {} × {} × {}, and its data makes such of {} × {} × {}; name "
        "another --run-file",
        command.folder, size.height, size.width, size.channels, preparation.canvas.height,
        preparation.canvas.width, preparation.canvas.channels));
  }
  const std::vector<std::string> names = ClassNamesOf(trained);
  const models::ProblemType problem = trained.model->problem_type().value();
  std::optional<FeatureFile> features;  // only if the command asks for them
  if (!command.features.empty()) {
    features.emplace(command.features, predictor.session().ShapeOf(kClassFeatures).dim(1));
  }
  const auto elements = static_cast<size_t>(size.elements());
  std::ranges::fill(images.values<float>(), 0.0f);

  Predicted predicted;
  std::map<int64_t, int64_t> counts;  // maps a predicted class to its number of pictures
  std::vector<InputPlace> waiting;    // inputs of the batch's filled rows
  bool reading = false;               // whether a file is being read, not predicted
  const auto run = [&] {
    if (waiting.empty()) return;
    reading = false;
    const std::vector<float> logits = predictor.ClassLogits();
    const size_t classes = logits.size() / static_cast<size_t>(predictor.rows());
    std::string lines;
    for (size_t row = 0; row < waiting.size(); ++row) {
      const auto of_row = std::span(logits).subspan(row * classes, classes);
      for (const int64_t predicted_class : PredictedClasses(of_row, problem)) {
        ++counts[predicted_class];
      }
      lines += PredictionLine(waiting[row], of_row, problem, names, command);
    }
    PrintAnswer(lines);
    if (features) features->Add(predictor.ClassFeatures(), std::ssize(waiting));
    predicted.inputs += std::ssize(waiting);
    waiting.clear();
    reading = true;
  };
  const auto add = [&](const data::Picture& picture) {
    preparation.DrawPicture(picture.pixels, picture.size,
                            images.values<float>().subspan(waiting.size() * elements, elements));
    waiting.push_back({.file = picture.file, .unit = "index", .number = picture.number});
    if (std::ssize(waiting) == predictor.rows()) run();
  };
  int64_t unread = 0;
  for (const std::string& file : files) {
    reading = true;
    try {
      data::ForEachPicture(file, add);
    } catch (const UserError& error) {
      if (!reading || files.size() == 1) throw;
      PrintWarning(error.what());
      ++unread;
    }
  }
  run();
  if (predicted.inputs > 1 && !counts.empty() && !command.json) {
    PrintAnswer(SharesText(counts, predicted.inputs, names));
  }
  if (features) features->Write();
  if (unread > 0) {
    predicted.problem = fmt::format("{} of {} could not be read; the warnings above name them",
                                    unread, Counted(files.size(), "file"));
  }
  predicted.memory = MemoryOf(predictor.session().compiled());
  return predicted;
}

}  // namespace plimsoll::trainer
