#include "trainer/language/predict.h"

#include <fmt/format.h>

#include <chrono>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "trainer/language/predictor.h"
#include "trainer/save_and_resume/picture_preparation.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

// Refuses options that only models of another kind have.
void RefuseOptions(const PredictCommand& command, const models::Model& model, bool segments,
                   bool tells_pictures) {
  for (const auto& [option, given, fits, kind] :
       {std::tuple("--to", !command.to.empty(), segments, "segment volumes"),
        std::tuple("--overwrite", command.overwrite, segments, "segment volumes"),
        std::tuple("--overlap", command.overlap.has_value(), segments, "segment volumes"),
        std::tuple("--features", !command.features.empty(), tells_pictures,
                   "tell pictures apart")}) {
    if (!given || fits) continue;
    throw UserError(
        fmt::format("{}: is for models that {}, and models of family {} do not; leave it out",
                    option, kind, model.family()));
  }
}

Predicted Predict(const PredictCommand& command, TrainedModel trained) {
  const bool reads_texts = trained.model->input_bounds().contains("tokens"),
             classifies = trained.model->problem_type().has_value(),
             segments = SegmentsPictures(*trained.model),
             tells_pictures = classifies && !reads_texts;
  RefuseOptions(command, *trained.model, segments, tells_pictures);
  if (reads_texts && classifies) return PredictTexts(command, trained);
  if (reads_texts) return FillMasks(command, std::move(trained));
  if (segments) return PredictVolumes(command, trained);
  if (tells_pictures) return PredictPictures(command, trained);
  throw UserError(fmt::format("{}: models of family {} predict neither classes nor masked words",
                              command.folder, trained.model->family()));
}

}  // namespace

void RunPredict(const PredictCommand& command) {
  TrainedModel trained =
      OpenTrainedModel(command.folder, command.sets, command.choice, command.run_file);
  if (trained.model->text_sizes()) {
    throw UserError(fmt::format(
        "{}: models of family {} continue texts and predict no classes: plimsoll generate {}",
        command.folder, trained.model->family(), command.folder));
  }
  if (models::MakesImages(*trained.model)) {
    throw UserError(fmt::format(
        "{}: models of family {} make images and predict no classes: plimsoll generate {} --images "
        "N --to FOLDER",
        command.folder, trained.model->family(), command.folder));
  }
  if (command.inputs.empty() && command.texts.empty()) {
    throw UserError("plimsoll predict: nothing to predict; name files or folders, or give --text");
  }
  if (!command.inputs.empty() && !command.texts.empty()) {
    throw UserError("--text: stands in place of files; leave out one of both");
  }
  const Clock::time_point start = Clock::now();
  const Predicted predicted = Predict(command, std::move(trained));
  PrintNote(
      fmt::format("{} inputs in {:.2f} s; arena {}: weights {}, rest {}{}\n", predicted.inputs,
                  std::chrono::duration<double>(Clock::now() - start).count(),
                  FormatBytes(predicted.memory.arena), FormatBytes(predicted.memory.weights),
                  FormatBytes(predicted.memory.rest),
                  predicted.map > 0 ? fmt::format("; map {}", FormatBytes(predicted.map)) : ""));
  if (!predicted.problem.empty()) throw UserError(predicted.problem);
}

}  // namespace plimsoll::trainer
