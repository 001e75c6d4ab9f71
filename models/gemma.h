// The forward pass of Gemma 2 and of the text part of Gemma 3. Each family is a file with a
// LanguageFamilyRegistration: gemma2.cc, gemma3.cc.
#pragma once

#include <memory>

#include "models/language_model.h"

namespace plimsoll::models {

struct GemmaParts {
  // Whether each head of q and k has an RMS norm before the rotary embedding (ops/norms/qk_norm.h).
  bool qk_norm = false;
};

std::unique_ptr<LanguageModel> MakeGemma(ModelSpec spec, const GemmaParts& parts);

}  // namespace plimsoll::models
