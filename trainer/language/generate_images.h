// `plimsoll generate` of models that make images of noise, such as a DCGAN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {

// The seed of data::FillNoise for images of that seed. With one seed, a run learns from other noise
// than that of the images that are made with it later.
uint64_t NoiseSeed(int64_t seed);

// The command that makes images with the model of a folder, in words.
std::string WayToImages(const std::string& folder);

struct ImageOptions {
  std::optional<int64_t> count;
  std::string to;                // the folder of their files
  bool overwrite = false;        // images that it holds are replaced
  std::optional<int64_t> batch;  // images at a time; default: 64
};

// Writes PNG files, FOLDER/000001.png and so on: grey of models with one channel, colours of three.
// The noise of an image follows from the seed (sample.seed) and the image's number alone; batch
// norms see the images that are made together. Prints progress and a closing line.
// `dtype`: of weights and activations. UserErrors: no number or folder, a folder that holds
// anything, images of other channels, numbers that are not finite (NotFinite).
void GenerateImages(const ImageOptions& options, const std::string& dtype,
                    const TrainedModel& trained);

}  // namespace plimsoll::trainer
