// `plimsoll generate` for models that generate images from noise, such as a DCGAN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

// Derives the seed of data::FillNoise for generated images from `seed`. The seed differs from that
// of training, so that the noise differs from the noise that the run has learned from.
uint64_t NoiseSeed(int64_t seed);

// The command that generates images with a folder's model, for messages.
std::string WayToImages(const std::string& folder);

struct ImageOptions {
  std::optional<int64_t> count;
  std::string to;                // the output folder
  bool overwrite = false;        // replace images in the output folder
  std::optional<int64_t> batch;  // number of images generated together; default: 64
};

// Writes PNG files, FOLDER/000001.png and so on: grey for models with one channel, in colour for
// models with three. An image's noise depends only on the seed (sample.seed) and the image's
// number; batch norms see the images that are generated together. Prints progress and a closing
// line. `dtype` is the type of weights and activations. Throws a UserError if no number or folder
// is given, if the folder is not empty, if images have neither one nor three channels, or if
// results are not finite (NotFinite).
void GenerateImages(const ImageOptions& options, const std::string& dtype,
                    const TrainedModel& trained);

}  // namespace plimsoll::trainer
