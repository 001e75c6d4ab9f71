// Files to take tokens from, as `train` and `data tokenize` read them: text, or examples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "data/texts/documents.h"
#include "data/texts/text_file.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

// Text files or files of examples (*.jsonl, *.json), and which of the two they are.
struct Texts {
  std::vector<MappedFile> files;
  bool examples = false;
};

// The files that match the patterns (ExpandFiles). UserError, naming `key`, for files of other
// kinds, and for text together with examples.
std::vector<std::string> TextPaths(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& exclude, const std::string& key);
Texts OpenTexts(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude,
                const std::string& key, const Say& say = {});

// Returns the documents or examples of `texts`, a part of which is held out. `texts` must outlive
// the result. Chats are rendered as text by the template of the tokenizer or of options.chats.
DocumentSplit SplitTexts(const Texts& texts, const SplitOptions& options,
                         const Tokenizer& tokenizer);

// Receives ids that carry loss as targets or don't, and the number of bytes of text that they stand
// for.
using TokenSink =
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)>;

struct EncodingOptions {
  std::string delimiter;    // SplitOptions::delimiter
  bool end_of_text = true;  // a document is followed by the tokenizer's token; examples always are
  std::string name;         // of the files, for messages
};

// The tokens of `part`, a part of `split` (examples.h).
void EncodeTexts(const Texts& texts, const DocumentSplit& split, const DocumentList& part,
                 const Tokenizer& tokenizer, const EncodingOptions& options, TokenSink sink);

// What ends examples where the tokenizer has no token for it: "examples end with …", without an end
// of the line. Empty for text, and where there is a token.
std::string NoteOfEnds(const Texts& texts, const Tokenizer& tokenizer,
                       const std::string& delimiter);

}  // namespace plimsoll::data
