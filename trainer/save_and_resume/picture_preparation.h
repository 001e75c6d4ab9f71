// How a trained model's pictures are prepared, as its run's data says it. What the folder of its
// weights says: data/images/preprocessor_config.h.
#pragma once

#include <optional>
#include <string>

#include "data/images/image_preparation.h"
#include "models/model.h"
#include "trainer/config/run_config.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

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

}  // namespace plimsoll::trainer
