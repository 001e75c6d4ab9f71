// Recognises weights and tokenizers in formats of other programs by their contents, and says how to
// convert them to formats that Plimsoll reads.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "formats/json.h"

namespace plimsoll::formats {

// Describes a file in a foreign format: "is …; …", what it is and what to do. nullopt: the format
// is not among these. Weights: PyTorch pickles (torch.save, alone or in a zip archive), GGUF and
// its predecessors, llama2.c. Tokenizers: SentencePiece, tiktoken (Llama 3), llama2.c. Also
// recognises a Git LFS pointer in place of a file.
std::optional<std::string> DescribeForeignFile(const std::string& path);

// Throws a UserError if `path` is a file in a foreign format, or a folder that has such weights
// instead of a Hugging Face model. Also refuses safetensors files with Meta's tensor names.
void RefuseForeignModel(const std::string& path);

// Describes a file whose tensors have foreign names: "has …; …", where the names are from and what
// to do. Recognised are names of Meta's models, timm, compiled or distributed modules, and
// PeftModel. nullopt: the names are none of these.
std::optional<std::string> DescribeForeignNames(std::span<const std::string> names);

// Throws a UserError if config.json describes a timm model, or a ResNet of transformers.
void RefuseForeignConfig(const JsonObject& config);

// Throws a UserError if `path` is a file in a foreign format (DescribeForeignFile).
void RefuseForeignFile(const std::string& path);

}  // namespace plimsoll::formats
