// Opens files of text or examples whose tokens `train` and `data tokenize` read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "data/texts/documents.h"
#include "data/texts/text_file.h"
#include "data/texts/unreadable_examples.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// Files that are either all text or all examples (*.jsonl, *.json).
struct Texts {
  std::vector<MappedFile> files;
  bool examples = false;
};

// Lists the files that match the patterns (ExpandFiles). Throws a UserError, naming `key`, for
// files of other kinds, and if the patterns match both text and examples.
std::vector<std::string> TextPaths(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& exclude, const std::string& key);
Texts OpenTexts(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude,
                const std::string& key, const Say& say = {});

// Splits `texts` into documents or examples, and holds out a part of them. `texts` must outlive the
// result. Chats are rendered as text by the template of the tokenizer or of options.chats.
DocumentSplit SplitTexts(const Texts& texts, const SplitOptions& options,
                         const Tokenizer& tokenizer);

// Receives ids, whether they carry loss as targets, and the number of bytes of text that they
// encode.
using TokenSink =
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)>;

struct EncodingOptions {
  std::string delimiter;    // SplitOptions::delimiter
  bool end_of_text = true;  // append the end-of-text token to documents; examples always get it
  OnUnreadable unreadable = {};
};

// What is to be said of encoded examples.
struct EncodingNotes {
  UnreadableExamples unreadable;  // examples of the part that were left out
  std::string ends = {};          // WarningOfEnds
};

// Encodes the documents or examples of `part`, a part of `split` (encode_examples.h). Documents
// begin with the tokenizer's begin tokens, which carry loss.
EncodingNotes EncodeTexts(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                          const Tokenizer& tokenizer, const EncodingOptions& options,
                          TokenSink sink);

// Says what ends examples if the tokenizer has no end-of-text token: "examples end with …", without
// a line end. Empty for text, and if the tokenizer has such a token.
std::string NoteOfEnds(const Texts& texts, const Tokenizer& tokenizer,
                       const std::string& delimiter);

}  // namespace plimsoll::data
