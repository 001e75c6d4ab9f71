// preprocessor_config.json, in which transformers' image processors say how pictures are prepared
// for a model, next to the model's weights.
#pragma once

#include <span>
#include <string>

#include "data/images/image_preparation.h"
#include "formats/key_rules.h"

namespace plimsoll::data {

inline constexpr const char* kPreparationFile = "preprocessor_config.json";

// What is known of the file's keys.
std::span<const formats::KeyRule> PreparationKeys();

// The file's preparation, for a model of such images. Read are the processors of ViT, DeiT, BEiT,
// BiT, CLIP, ConvNeXT and SigLIP, slow and fast ones; of a file that names none, what it leaves out
// is as ViT's. UserError, which names the file and the key: a preparation that Plimsoll does not
// have, or of images of another size.
ImagePreparation ReadPreparation(const std::string& file, const ImageSize& model);

// The file's text.
std::string PreparationText(const ImagePreparation& preparation);

// Writes the file into a model's folder; without a text it removes the one that is there.
void WritePreparation(const std::string& text, const std::string& folder);

}  // namespace plimsoll::data
