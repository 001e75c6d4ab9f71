#include "trainer/language/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "formats/json.h"
#include "trainer/language/not_finite.h"
#include "trainer/settle/run_device.h"
#include "trainer/snapshot/picture_preparation.h"
#include "trainer/snapshot/run_record.h"

namespace plimsoll::trainer {

using Json = nlohmann::ordered_json;

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
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto shown = static_cast<size_t>(std::min<int64_t>(count, std::ssize(order)));
  const auto at = [&](int64_t number) { return logits[static_cast<size_t>(number)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(shown), order.end(),
                    [&](int64_t a, int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<Candidate> candidates;
  for (const int64_t number : std::span(order).first(shown)) {
    candidates.push_back({number, std::exp(at(number) - largest) / sum});
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

std::string ClassLine(const InputPlace& place, std::span<const float> logits,
                      const std::vector<std::string>& names, const PredictCommand& command) {
  const std::vector<Candidate> candidates = Likeliest(logits, command.top);
  if (command.json) {
    Json line = {{"file", place.file}};
    if (place.number >= 0) line[place.unit] = place.number;
    line["class"] = candidates.front().number;
    line["name"] = ClassName(names, candidates.front().number);
    line["probability"] = candidates.front().probability;
    line["candidates"] = Json::array();
    for (const auto& [number, probability] : candidates) {
      line["candidates"].push_back(
          {{"class", number}, {"name", ClassName(names, number)}, {"probability", probability}});
    }
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string line = place.file;
  if (place.number >= 0) line += fmt::format(":{}", place.number);
  for (size_t i = 0; i < candidates.size(); ++i) {
    line += fmt::format("{}{} {}",
                        i == 0   ? ": "
                        : i == 1 ? "; then "
                                 : ", ",
                        formats::Printable(ClassName(names, candidates[i].number)),
                        PercentText(candidates[i].probability));
  }
  return line + "\n";
}

}  // namespace plimsoll::trainer
