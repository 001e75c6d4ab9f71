#include "trainer/language/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "formats/json.h"
#include "trainer/language/not_finite.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/picture_preparation.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// Refuses options for other kinds of models.
void RefuseOptions(const PredictCommand& command, const models::Model& model, bool segments,
                   bool tells_pictures) {
  for (const auto& [option, given, fits, kind] :
       {std::tuple("--to", !command.to.empty(), segments, "segment volumes"),
        std::tuple("--overwrite", command.overwrite, segments, "segment volumes"),
        std::tuple("--overlap", command.overlap.has_value(), segments, "segment volumes"),
        std::tuple("--host-budget", !command.host_budget.empty(), segments, "segment volumes"),
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

// The indices of the `count` largest logits. Among equal logits the smaller index comes first.
std::vector<int64_t> LargestOf(std::span<const float> logits, int64_t count) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto shown = static_cast<size_t>(std::min<int64_t>(count, std::ssize(order)));
  const auto at = [&](int64_t number) { return logits[static_cast<size_t>(number)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(shown), order.end(),
                    [&](int64_t a, int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  order.resize(shown);
  return order;
}

Json CandidateList(std::span<const Candidate> candidates, const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const auto& [number, probability] : candidates) {
    list.push_back(
        {{"class", number}, {"name", ClassName(names, number)}, {"probability", probability}});
  }
  return list;
}

void AddClass(std::span<const Candidate> candidates, const std::vector<std::string>& names,
              Json& line) {
  line["class"] = candidates.front().number;
  line["name"] = ClassName(names, candidates.front().number);
  line["probability"] = candidates.front().probability;
  line["candidates"] = CandidateList(candidates, names);
}

void AddLabels(std::span<const float> logits, const std::vector<std::string>& names, int64_t top,
               Json& line) {
  const auto said = PredictedClasses(logits, models::ProblemType::kMultiLabel);
  line["labels"] = CandidateList(LikeliestLabels(logits, std::ssize(said)), names);
  line["candidates"] = CandidateList(LikeliestLabels(logits, top), names);
}

// "cat 90.1 %, dog 60.0 %; then bird 0.3 %": the first `said` candidates are the prediction.
std::string CandidatesText(std::span<const Candidate> candidates, int64_t said,
                           const std::vector<std::string>& names) {
  std::string text = said == 0 ? "none" : "";
  for (int64_t i = 0; i < std::ssize(candidates); ++i) {
    const auto& [number, probability] = candidates[static_cast<size_t>(i)];
    text += i == said ? "; then " : i > 0 ? ", " : "";
    text += fmt::format("{} {}", formats::Printable(ClassName(names, number)),
                        PercentText(probability));
  }
  return text;
}

}  // namespace

void RunPredict(const PredictCommand& command) {
  std::vector<std::string> sets = command.sets;
  if (!command.host_budget.empty()) sets.push_back("memory.host_budget=" + command.host_budget);
  TrainedModel trained = OpenTrainedModel(command.folder, sets, command.choice, command.run_file);
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
    throw UserError("--text: replaces files; leave out one of both");
  }
  const Clock::time_point start = Clock::now();
  const Predicted predicted = Predict(command, std::move(trained));
  PrintNote(
      fmt::format("{} inputs in {:.2f} s; arena {}: weights {}, rest {}{}\n", predicted.inputs,
                  std::chrono::duration<double>(Clock::now() - start).count(),
                  FormatBytes(predicted.memory.arena), FormatBytes(predicted.memory.weights),
                  FormatBytes(predicted.memory.rest),
                  predicted.host > 0 ? fmt::format("; host {}", FormatBytes(predicted.host)) : ""));
  if (!predicted.problem.empty()) throw UserError(predicted.problem);
}

Predictor::Predictor(const TrainedModel& trained, const PredictCommand& command, int64_t rows,
                     bool masks)
    : trained_(trained), dtype_(command.dtype), rows_(rows) {
  CompileOptions options = InferenceOptions(trained, command.dtype);
  if (masks) {
    options.generate_rows = rows;
    options.generate_context = options.sequence;
    options.cache = false;
  } else {
    options.evaluate = true;
    options.features = !command.features.empty();
    options.micro_batch = rows;
  }
  pool_ = std::make_unique<ThreadPool>(options.threads);
  device_ = MakeDevice(trained.config(), *pool_);
  session_ = std::make_unique<Session>(Compile(*trained.model, options), *device_);
  LoadTrained(trained, *session_);
}

std::vector<float> Predictor::ClassLogits() {
  if (!session_->Carries(kClassLogits)) {
    throw UserError(
        fmt::format("{}: models of family {} do not say to which class an input belongs",
                    trained_.folder, trained_.model->family()));
  }
  const std::vector<int64_t> targets(session_->objectives(), 1);
  session_->Evaluate(targets, 1);
  std::vector<float> logits = session_->Read<float>(kClassLogits);
  RequireFinite(logits);
  return logits;
}

std::vector<float> Predictor::MaskLogits() {
  session_->GatherWeights();
  session_->executor(session_->compiled().step.logits).Run();
  std::vector<float> logits = session_->Read<float>("logits");
  RequireFinite(logits);
  return logits;
}

void Predictor::RequireFinite(std::span<const float> logits) {
  if (std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  throw ExplainNotFinite(trained_, *session_, dtype_, "the logits hold NaN or infinity");
}

int64_t RowsFor(const PredictCommand& command, const TrainedModel& trained, int64_t inputs) {
  const int64_t usual = std::max<int64_t>(1, trained.config().train.micro_batch);
  return std::max<int64_t>(1, std::min(command.batch.value_or(usual), inputs));
}

std::optional<config::RunConfig> DataConfigOf(const PredictCommand& command,
                                              const TrainedModel& trained) {
  if (trained.is_run || !command.run_file.empty()) return trained.config();
  if (!trained.snapshot) return std::nullopt;
  const std::string& path = trained.snapshot->path();
  return RecordedData(ParseRunRecord(trained.snapshot->manifest().run, path), path);
}

std::vector<Candidate> Likeliest(std::span<const float> logits, int64_t count) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<Candidate> candidates;
  for (const int64_t number : LargestOf(logits, count)) {
    candidates.push_back({number, std::exp(logits[static_cast<size_t>(number)] - largest) / sum});
  }
  return candidates;
}

std::vector<Candidate> LikeliestLabels(std::span<const float> logits, int64_t count) {
  std::vector<Candidate> candidates;
  for (const int64_t number : LargestOf(logits, count)) {
    const double logit = logits[static_cast<size_t>(number)];
    candidates.push_back({number, 1 / (1 + std::exp(-logit))});
  }
  return candidates;
}

std::string PercentText(double probability) { return fmt::format("{:.1f} %", 100 * probability); }

std::vector<std::string> ClassNamesOf(const TrainedModel& trained) {
  for (const char* key : {"class_names", "label_names"}) {
    const Settings& settings = trained.config().data.settings;
    if (settings.Has(key) && !settings.List(key).empty()) return settings.List(key);
  }
  return trained.model->class_names();
}

std::string ClassName(const std::vector<std::string>& names, int64_t number) {
  return number < std::ssize(names) ? names[static_cast<size_t>(number)] : std::to_string(number);
}

std::string PredictionLine(const InputPlace& place, std::span<const float> logits,
                           models::ProblemType problem, const std::vector<std::string>& names,
                           const PredictCommand& command) {
  if (command.json) {
    Json line = {{"file", place.file}};
    if (place.number >= 0) line[place.unit] = place.number;
    switch (problem) {
      case models::ProblemType::kSingleLabel:
        AddClass(Likeliest(logits, command.top), names, line);
        break;
      case models::ProblemType::kMultiLabel:
        AddLabels(logits, names, command.top, line);
        break;
      case models::ProblemType::kRegression:
        line["value"] = logits.front();
        break;
    }
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string line = place.file;
  if (place.number >= 0) line += fmt::format(":{}", place.number);
  line += ": ";
  switch (problem) {
    case models::ProblemType::kSingleLabel:
      line += CandidatesText(Likeliest(logits, command.top), 1, names);
      break;
    case models::ProblemType::kMultiLabel: {
      const int64_t said = std::ssize(PredictedClasses(logits, problem));
      line += CandidatesText(LikeliestLabels(logits, std::max(said, command.top)), said, names);
      break;
    }
    case models::ProblemType::kRegression:
      line += fmt::format("{:.6g}", logits.front());
      break;
  }
  return line + "\n";
}

std::vector<int64_t> PredictedClasses(std::span<const float> logits, models::ProblemType problem) {
  switch (problem) {
    case models::ProblemType::kSingleLabel:
      return LargestOf(logits, 1);
    case models::ProblemType::kMultiLabel:
      return LargestOf(logits, std::ranges::count_if(logits, [](float l) { return l > 0; }));
    case models::ProblemType::kRegression:
      break;
  }
  return {};
}

}  // namespace plimsoll::trainer
