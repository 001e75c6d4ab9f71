// Any bytes as tokenizer.json give a tokenizer or a UserError, nothing else. The tokenizer's ids
// must stay within its vocabulary, and decode to the same bytes unless it normalises or maps added
// tokens.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/tokenizers/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = plimsoll::data::ParseTokenizerJson(text, "fuzz.json");
    // The beginning of the file itself serves as the text to encode.
    const std::string_view sample = text.substr(0, 512);
    const std::vector<int32_t> ids = tokenizer->Encode(sample);
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    }
    if (!sample.empty() && tokenizer->Decode(ids).empty()) std::abort();
  } catch (const plimsoll::UserError&) {
  }
  return 0;
}
