// How a trained model's pictures are prepared: as its run's data says it, and as transformers'
// image processors say it, in preprocessor_config.json beside the weights.
#pragma once

#include <optional>
#include <string>

#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/data/image_preparation.h"
#include "trainer/snapshot/run_record.h"

namespace plimsoll::trainer {

inline constexpr const char* kPreparationFile = "preprocessor_config.json";

// True of a model that tells classes of pictures apart.
bool ClassifiesPictures(const models::Model& model);
// True of a model that gives each pixel of pictures, or voxel of volumes, a class.
bool SegmentsPictures(const models::Model& model);

// The data of the run that wrote a snapshot, as the snapshot records it.
config::RunConfig RecordedData(const RunRecord& record, const std::string& snapshot);

// Reads the configuration's data. Nothing when it holds no pictures; UserError when it cannot be
// read.
std::optional<data::ImagePreparation> PreparationBy(const config::RunConfig& config,
                                                    const models::Model& model);

// The file in a model's folder, for a model of such images. UserError for a preparation that
// Plimsoll does not have.
data::ImagePreparation ReadPreparation(const std::string& file, const data::ImageSize& model);

// The file's text.
std::string PreparationText(const data::ImagePreparation& preparation);

// Writes the file into a model's folder; without a text it removes the one that is there.
void WritePreparation(const std::string& text, const std::string& folder);

}  // namespace plimsoll::trainer
