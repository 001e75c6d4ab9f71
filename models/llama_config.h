// The configuration of the families "llama" and "qwen2": their settings, and config.json.
#pragma once

namespace plimsoll::models {

inline constexpr const char* kLlama = "llama";
inline constexpr const char* kQwen2 = "qwen2";

}  // namespace plimsoll::models
