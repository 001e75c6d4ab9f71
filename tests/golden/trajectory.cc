#include "tests/golden/trajectory.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include "adapters/peft.h"
#include "base/error.h"
#include "data/tokens/dataset.h"
#include "data/tokens/loader.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/huggingface.h"
#include "runtime/cuda/gpu_memory.h"
#include "tests/models/loaded_weights.h"
#include "trainer/language/generate.h"
#include "trainer/resolve/muon_matrices.h"
#include "trainer/step/adapter.h"
#include "trainer/step/session.h"

namespace plimsoll::golden {
namespace {

optim::MuonOptions MuonFrom(const formats::JsonObject& optimizer, const models::Model& model,
                            int64_t sequence) {
  using AdjustLr = optim::MuonOptions::AdjustLr;
  const std::string adjust = optimizer.RequireString("adjust_lr");
  if (adjust != "original" && adjust != "match_rms_adamw")
    optimizer.Fail("adjust_lr", "is unknown");
  return {.matrices = trainer::MuonMatrices(model, sequence),
          .newton_schulz_steps = optimizer.RequireInt("newton_schulz_steps", 1, 99),
          .adjust_lr = adjust == "original" ? AdjustLr::kOriginal : AdjustLr::kMatchRmsAdamW};
}

optim::UpdateOptions OptimizerFrom(const formats::JsonObject& optimizer, const models::Model& model,
                                   int64_t sequence) {
  const std::string name = optimizer.RequireString("name");
  if (name != "adamw" && name != "muon") optimizer.Fail("name", "must be adamw or muon");
  const std::vector<double> betas = optimizer.RequireFloats("betas");
  if (betas.size() != 2) optimizer.Fail("betas", "must be two numbers");
  optim::UpdateOptions options;
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  options.eps = optimizer.RequireFloat("eps");
  options.weight_decay = optimizer.RequireFloat("weight_decay");
  options.clip_grad_norm = optimizer.RequireFloat("clip_grad_norm");
  if (name == "adamw") return options;
  options.algorithm = optim::UpdateOptions::Algorithm::kMuon;
  options.momentum = optimizer.RequireFloat("momentum");
  options.nesterov = optimizer.RequireBool("nesterov");
  options.muon = MuonFrom(optimizer, model, sequence);
  return options;
}

double Relative(double value, double expected) {
  // NaN counts as infinitely far.
  const double difference = std::abs(value - expected) / std::abs(expected);
  return std::isnan(difference) ? INFINITY : difference;
}

// Reads the weights from a checkpoint's file, or from an adapter's folder.
std::map<std::string, std::vector<float>> ReadFinal(const std::string& folder,
                                                    const models::Model& model,
                                                    const adapters::Lora& lora) {
  if (!lora.enabled()) return models::ReadWeights(folder + "/final.safetensors", model);
  std::map<std::string, std::vector<float>> values;
  adapters::ReadAdapter(
      folder + "/final", model, lora,
      [&](const models::ParameterInfo& parameter) {
        auto& to = values[parameter.name];
        to.resize(parameter.shape.elements());
        return to.data();
      },
      [](const models::ParameterInfo&) {});
  return values;
}

void CompareWeights(const std::map<std::string, std::vector<float>>& expected,
                    trainer::Session& session, Deviations& result) {
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

adapters::Lora ReadLora(const std::string& folder, const models::Model& model) {
  const adapters::Settings settings = adapters::ReadSettings(folder);
  return {.rank = settings.rank,
          .alpha = settings.alpha,
          .rslora = settings.rslora,
          .layers = adapters::SelectLayers(model, settings.targets)};
}

// Compares the logits of every prefix of the window.
double CompareLogits(const std::string& file, std::span<const int32_t> window,
                     trainer::Session& session) {
  const formats::SafetensorsReader expected(file);
  const formats::TensorEntry& entry = expected.Require("logits");
  std::vector<float> logits(static_cast<size_t>(entry.elements));
  expected.ReadFloat32("logits", logits.data(), entry.elements);
  const size_t vocab = logits.size() / window.size();
  trainer::NextToken next(session);
  double d = 0, n = 0;
  std::vector<int32_t> text;
  for (size_t t = 0; t < window.size(); ++t) {
    text.push_back(window[t]);
    const std::span<const float> ours = next.Logits({&text, 1});
    for (size_t i = 0; i < vocab; ++i) {
      d += std::pow(static_cast<double>(ours[i]) - logits[t * vocab + i], 2);
      n += std::pow(static_cast<double>(logits[t * vocab + i]), 2);
    }
  }
  return std::sqrt(d / n);
}

}  // namespace

Deviations FollowTrajectory(const std::string& folder, runtime::Device& device) {
  const auto expected = formats::JsonObject::FromFile(folder + "/expected.json");
  const bool adapts = std::filesystem::exists(folder + "/adapter");
  const std::string base =
      expected.Has("base") ? folder + "/../" + expected.RequireString("base") : folder;
  const auto model = models::ModelFromHuggingFace(base);
  const formats::JsonObject optimizer = expected.RequireObject("optimizer");

  trainer::CompileOptions options;
  options.micro_batch = expected.RequireInt("batch", 1, 1 << 20);
  options.sequence = expected.RequireInt("sequence", 1, 1 << 20);
  options.accumulate = expected.RequireInt("accumulate", 1, 1 << 20);
  options.update = OptimizerFrom(optimizer, *model, options.sequence);
  options.device = device.kind();
  options.capability = runtime::PresentCapability();
  options.threads = device.pool().size();
  if (adapts) {
    options.lora = ReadLora(folder + "/adapter", *model);
    options.frozen = adapters::FrozenParameters(*model, options.lora);
  }
  const std::string logits = folder + "/logits.safetensors";
  const bool has_logits = std::filesystem::exists(logits);
  if (has_logits) {
    options.generate_rows = 1;
    options.generate_context = options.sequence;
  }
  trainer::Session session(trainer::Compile(*model, options), device);
  session.LoadWeights(*model, base);
  if (adapts) trainer::LoadAdapter(session, *model, folder + "/adapter");

  data::DataOptions files;
  files.train = {{.files = {base + "/tokens.bin"}}};
  files.vocab = models::TextSizesOf(*model).vocab;
  const data::DataSet data = data::OpenData(files);
  const data::BatchLoader loader(data.train, {.order = data::DataOrder::kConsecutive,
                                              .batch = options.micro_batch,
                                              .sequence = options.sequence,
                                              .accumulate = options.accumulate});

  Deviations result;
  if (has_logits) {
    loader.Fill(0, 0, session.batch().tokens.data(), session.batch().targets.data());
    result.logits = CompareLogits(logits, session.batch().tokens.first(options.sequence), session);
  }
  for (const formats::JsonObject& step : expected.RequireObjects("steps")) {
    session.BeginStep(loader.CountTargets(result.steps), optimizer.RequireFloat("lr"), 0);
    for (int64_t micro = 0; micro < options.accumulate; ++micro) {
      loader.Fill(result.steps, micro, session.batch().tokens.data(),
                  session.batch().targets.data());
      session.Run(result.steps, micro);
    }
    const trainer::StepMetrics metrics = session.Metrics();
    result.loss = std::max(result.loss, Relative(metrics.loss, step.RequireFloat("loss")));
    result.grad_norm =
        std::max(result.grad_norm, Relative(metrics.grad_norm, step.RequireFloat("grad_norm")));
    ++result.steps;
  }
  if (result.steps == 0) expected.Fail("steps", "is empty");
  CompareWeights(ReadFinal(folder, *model, options.lora), session, result);
  return result;
}

}  // namespace plimsoll::golden
