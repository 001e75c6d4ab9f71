// Text to token ids, piece by piece: a text of any length takes as little memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "data/texts/documents.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// What follows each document: a token, or the line that parted documents in their text.
struct DocumentEnd {
  std::optional<int32_t> token;
  std::string delimiter;  // empty: no line
};

// The token or, if there is none, the line if documents were parted by it.
DocumentEnd DocumentEndOf(std::optional<int32_t> token, const DocumentSplit& split,
                          const std::string& delimiter);

// Receives ids, and the number of bytes of text that they stand for.
using IdSink = FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes)>;

// The ids of the documents, one after the other: those that the tokenizer gives for each document
// as a whole.
void EncodeDocuments(const DocumentList& documents, const Tokenizer& tokenizer,
                     const DocumentEnd& end, IdSink sink);

}  // namespace plimsoll::data
