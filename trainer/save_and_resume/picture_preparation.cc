#include "trainer/save_and_resume/picture_preparation.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "trainer/resolve/from_config.h"
#include "trainer/resolve/source_from.h"
#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {

bool ClassifiesPictures(const models::Model& model) {
  return model.problem_type() && !model.input_bounds().contains("tokens");
}

bool SegmentsPictures(const models::Model& model) {
  const auto images = model.inputs().find("images"), labels = model.inputs().find("labels");
  return images != model.inputs().end() && labels != model.inputs().end() &&
         labels->second.shape == images->second.shape.DropLast();
}

config::RunConfig RecordedData(const RunRecord& record, const std::string& snapshot) {
  std::vector<std::string> sets = ModelSets(record);
  for (const auto& [key, value] : record.config) {
    if (key.starts_with("data.")) sets.push_back(fmt::format("{}={}", key, value));
  }
  return LoadRunText("", snapshot, sets).config;
}

std::optional<data::ImagePreparation> PreparationBy(const config::RunConfig& config,
                                                    const models::Model& model) {
  const std::unique_ptr<data::Source> source = SourceFrom(config, model, {});
  const data::ImagePreparation* const own = source->image_preparation();
  return own == nullptr ? std::nullopt : std::optional(*own);
}

}  // namespace plimsoll::trainer
