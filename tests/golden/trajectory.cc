#include "tests/golden/trajectory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "models/huggingface.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/session.h"

namespace plimsoll::golden {
namespace {

optim::UpdateOptions OptimizerFrom(const formats::JsonObject& optimizer) {
  if (optimizer.RequireString("name") != "adamw") optimizer.Fail("name", "must be adamw");
  const std::vector<double> betas = optimizer.RequireFloats("betas");
  if (betas.size() != 2) optimizer.Fail("betas", "must be two numbers");
  optim::UpdateOptions options;
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  options.eps = optimizer.RequireFloat("eps");
  options.weight_decay = optimizer.RequireFloat("weight_decay");
  options.clip_grad_norm = optimizer.RequireFloat("clip_grad_norm");
  return options;
}

double Relative(double value, double expected) {
  // Not a number compares as infinitely far.
  const double difference = std::abs(value - expected) / std::abs(expected);
  return std::isnan(difference) ? INFINITY : difference;
}

void CompareWeights(const std::string& file, const models::Model& model, trainer::Session& session,
                    Deviations& result) {
  std::map<std::string, std::vector<float>> expected;
  models::LoadWeights(file, model, [&](const models::ParameterInfo& parameter) {
    auto& values = expected[parameter.name];
    values.resize(parameter.shape.elements());
    return values.data();
  });
  double difference = 0, norm = 0;
  for (const auto& [name, values] : expected) {
    const std::vector<float> ours = session.ReadParameter(name);
    double d = 0, n = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      d += std::pow(static_cast<double>(ours[i]) - values[i], 2);
      n += std::pow(static_cast<double>(values[i]), 2);
    }
    const double relative = std::sqrt(d / n);
    if (!(relative <= result.worst_parameter_deviation)) {
      result.worst_parameter = name;
      result.worst_parameter_deviation = relative;
    }
    difference += d;
    norm += n;
  }
  result.weights = std::sqrt(difference / norm);
}

}  // namespace

Deviations FollowTrajectory(const std::string& folder, runtime::Device& device) {
  const auto expected = formats::JsonObject::FromFile(folder + "/expected.json");
  const auto model = models::MakeModel(models::SpecFromHuggingFace(folder));
  const formats::JsonObject optimizer = expected.RequireObject("optimizer");

  trainer::CompileOptions options;
  options.micro_batch = expected.RequireInt("batch", 1, 1 << 20);
  options.sequence = expected.RequireInt("sequence", 1, 1 << 20);
  options.accumulate = expected.RequireInt("accumulate", 1, 1 << 20);
  options.update = OptimizerFrom(optimizer);
  options.device = device.kind();
  options.threads = device.pool().size();
  trainer::Session session(trainer::Compile(*model, options), device);
  session.LoadWeights(*model, folder);

  data::DataOptions files;
  files.train = {folder + "/tokens.bin"};
  files.vocab = model->spec().vocab;
  const data::DataSet data = data::OpenData(files);
  const data::BatchLoader loader(data.train, {.order = data::DataOrder::kConsecutive,
                                              .batch = options.micro_batch,
                                              .sequence = options.sequence,
                                              .accumulate = options.accumulate});

  Deviations result;
  for (const formats::JsonObject& step : expected.RequireObjects("steps")) {
    session.BeginStep(loader.CountTargets(result.steps), optimizer.RequireFloat("lr"), 0);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      loader.Fill(result.steps, micro, session.batch().tokens.data(),
                  session.batch().targets.data());
      session.RunMicroStep(result.steps, micro);
    }
    const trainer::StepMetrics metrics = session.Metrics();
    result.loss = std::max(result.loss, Relative(metrics.loss, step.RequireFloat("loss")));
    result.grad_norm =
        std::max(result.grad_norm, Relative(metrics.grad_norm, step.RequireFloat("grad_norm")));
    ++result.steps;
  }
  if (result.steps == 0) expected.Fail("steps", "is empty");
  CompareWeights(folder + "/final.safetensors", *model, session, result);
  return result;
}

}  // namespace plimsoll::golden
