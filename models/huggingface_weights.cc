// Reads and writes a model's parameters and states in safetensors files, one tensor at a time.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "formats/safetensors_writer.h"
#include "models/checkpoint_parts.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

namespace fs = std::filesystem;
using formats::TensorType;

// Receives a part's elements in their stored order.
using Take = FunctionRef<void(std::span<const float>)>;

// Such values must not become infinities, which would change the model.
void RequireWithinF16(const std::string& folder, const std::string& tensor,
                      std::span<const float> values) {
  constexpr float kFirstBeyond = 65520;  // the smallest value that is rounded to infinity
  for (const float value : values) {
    if (std::abs(value) < kFirstBeyond || !std::isfinite(value)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" has a value of {:g}, which fp16 cannot hold; "
                    "use bf16 or fp32",
                    folder, tensor, value));
  }
}

// `give` must call its last argument once, with the part's elements.
void Write(const std::string& folder, const Model& model, const std::vector<Part>& parts,
           int64_t max_file_bytes, TensorType type, FunctionRef<void(const Part&, Take)> give) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: cannot create this folder: {}", folder, error.message()));
  }
  std::map<std::string, const Part*> by_name;
  std::vector<formats::TensorSpec> specs;
  for (const Part& part : parts) {
    by_name[part.name] = &part;
    specs.push_back({part.name, part.count ? TensorType::kI64 : type, part.StoredShape()});
  }
  formats::WriteModelSafetensors(folder, specs, max_file_bytes,
                                 [&](const formats::TensorSpec& tensor, formats::TensorSink& sink) {
                                   give(*by_name.at(tensor.name),
                                        [&](std::span<const float> values) {
                                          if (tensor.type == TensorType::kF16)
                                            RequireWithinF16(folder, tensor.name, values);
                                          sink.WriteFloat32(values);
                                        });
                                 },
                                 {{"format", "pt"}});
  WriteWhole((fs::path(folder) / "config.json").string(), ConfigJson(model, type));
}

}  // namespace

struct WeightReader::Parts {
  Parts(const std::string& folder, const Model& model, Misfits misfits,
        const std::set<std::string>& left_out)
      : checkpoint(folder, model, misfits, left_out) {
    for (const Part& part : checkpoint.parts) by_parameter[part.parameter.name].push_back(part);
  }

  OpenCheckpoint checkpoint;
  std::map<std::string, std::vector<Part>, std::less<>> by_parameter;
};

WeightReader::WeightReader(const std::string& folder, const Model& model, Misfits misfits,
                           const std::set<std::string>& left_out)
    : parts_(std::make_unique<Parts>(folder, model, misfits, left_out)) {}
WeightReader::~WeightReader() = default;

bool WeightReader::Has(const ParameterInfo& parameter) const {
  return !parts_->checkpoint.misfitting.fresh.contains(parameter.name);
}

void WeightReader::Read(const ParameterInfo& parameter, float* to) const {
  if (parts_->checkpoint.misfitting.fitted.contains(parameter.name)) {
    return parts_->checkpoint.ReadFitted(parts_->by_parameter.at(parameter.name).front(), to);
  }
  for (const Part& part : parts_->by_parameter.at(parameter.name)) {
    TakeStored(
        part, [&](float* stored) { parts_->checkpoint.ReadStored(part, stored); }, to);
  }
}

void SaveWeights(const std::string& folder, const Model& model,
                 FunctionRef<const float*(const ParameterInfo&)> source, int64_t max_file_bytes,
                 TensorType type) {
  Write(folder, model, PartsOf(model), max_file_bytes, type,
        [&](const Part& part, Take take) { GiveStored(part, source(part.parameter), take); });
}

void CopyWeights(const std::string& from, const std::string& to, TensorType type) {
  const std::unique_ptr<Model> model = ModelFromHuggingFace(from);
  const OpenCheckpoint checkpoint(from, *model, Misfits::kRefused);
  // The copy uses the family's own names, even if the original uses the name of a tied copy or
  // lacks the prefix.
  const std::vector<Part> parts = PartsOf(*model);
  std::vector<float> values;
  Write(to, *model, parts, kMaxCheckpointFileBytes, type, [&](const Part& part, Take take) {
    const Part& stored = checkpoint.parts[static_cast<size_t>(&part - parts.data())];
    values.resize(static_cast<size_t>(part.elements()));
    checkpoint.ReadStored(stored, values.data());
    take(values);
  });
}

}  // namespace plimsoll::models
