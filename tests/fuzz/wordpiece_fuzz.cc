// Any bytes as vocab.txt and tokenizer_config.json give a tokenizer or a UserError, nothing else. A
// tokenizer's ids stay within its vocabulary, whatever the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/tokenizers/wordpiece.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // A byte 0 parts the two files; the vocabulary gets an unknown token, so that most are read.
  const size_t end = text.find('\0');
  const std::string vocab = "[UNK]\n" + std::string(text.substr(0, end));
  const std::string_view config = end == text.npos ? "" : text.substr(end + 1);
  try {
    const auto tokenizer = plimsoll::data::ParseWordPieceFiles(
        vocab, "v.txt",
        config.empty() ? plimsoll::data::TokenizerConfig()
                       : plimsoll::data::TokenizerConfig(config, "c.json"));
    for (const int32_t id : tokenizer->Encode(text)) {
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    }
    tokenizer->Decode(tokenizer->Encode(text));
  } catch (const plimsoll::UserError&) {
  }
  return 0;
}
