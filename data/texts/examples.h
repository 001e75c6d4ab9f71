// Examples for fine-tuning: prompts with their answers, and chats. A file has one JSON object on
// each line (*.jsonl), or is an array of them (*.json).
//
//   {"prompt": "2 + 2 =", "completion": " 4"}     loss on the completion and the end
//   {"text": "2 + 2 = 4"}                         loss on the complete text
//   {"messages": [{"role", "content"}, …]}        and other forms of chats (data/chats/chat.h):
//                                                 loss on the assistant's turns
//
//   {"prompt", "chosen", "rejected"}              a preference (preference_pairs.h), which has
//                                                 two texts
//
// "answer" and "response" are other names of "completion". Further members are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "data/chats/chat_renderer.h"
#include "data/chats/chat_template.h"
#include "data/texts/documents.h"
#include "data/tokenizers/tokenizer.h"

namespace plimsoll::data {

bool HoldsExamples(
    std::string_view path);  // by its extension: *.jsonl, *.ndjson, *.json, also if compressed

// Calls visit(line, "FILE:NUMBER") for the lines that are not blank. Releases the pages that it has
// read.
void ForEachLine(const MappedFile& file,
                 FunctionRef<void(std::string_view line, const std::string& where)> visit);

// Calls visit(object, where) for each example of a file: a line, or in a *.json an element of the
// array.
void ForEachExample(const MappedFile& file,
                    FunctionRef<void(std::string_view object, const std::string& where)> visit);

// Converts examples to the input of EncodeExample; chats are rendered as text. The first chat
// starts a process that renders them.
class ExampleReader {
 public:
  // `tokenizer` must outlive the reader.
  ExampleReader(const ChatOptions& chats, const Tokenizer& tokenizer)
      : chats_(chats), tokenizer_(tokenizer) {}

  // Converts an example. UserErrors begin with `where`.
  std::string Read(std::string_view object, const std::string& where);

  bool chats() const { return renderer_.has_value(); }  // whether any example read so far is a chat
  // Whether a chat read so far may contain today's date (ChatRenderer::dated).
  bool dated() const { return renderer_ && renderer_->dated(); }

 private:
  void StartRenderer(const std::string& where);
  std::string ReadPair(std::string_view object, const std::string& where);

  ChatOptions chats_;
  const Tokenizer& tokenizer_;
  std::optional<ChatRenderer> renderer_;
};

// Throws a UserError if `count`, the number of examples in the files, is 0; the message says what
// the files contain instead.
void RequireExamples(const std::vector<MappedFile>& files, int64_t count);

// The examples of the files, converted by ExampleReader, in order. `dated`: see ExampleReader.
// UserErrors name the file and line, or say that the files have no examples.
struct FoundExamples {
  std::shared_ptr<const DocumentIndex> index;
  bool chats = false;  // whether any example is a chat
  bool dated = false;
};
FoundExamples FindExamples(const std::vector<MappedFile>& files, const ChatOptions& chats,
                           const Tokenizer& tokenizer);

// Checks the first example in the beginning of a file's text, if it is complete there; if it is a
// chat, checks that a chat template exists. Throws the errors of FindExamples.
void CheckFirstExample(std::string_view start, const std::string& path, const ChatOptions& chats,
                       const Tokenizer& tokenizer);

// Receives the ids of a text in one or more calls. `carries_loss`: whether these ids carry loss as
// targets. `text_bytes`: 0, except in the last call for a text, so that the receiver knows where
// texts end. In that call it is the size of the example as ExampleReader converted it; each of the
// two texts of a preference has half of this size.
using ExampleSink =
    FunctionRef<void(std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss)>;

// Encodes an example that ExampleReader has converted.
//
// A prompt and its completion are encoded separately, so that no token spans both. They end with
// the tokenizer's end-of-text token or, without one, with `delimiter` on a line of its own (a
// newline if the delimiter is empty). A chat is encoded in one piece and ends as its template says.
// UserErrors name the file and line.
void EncodeExample(std::string_view example, const Tokenizer& tokenizer,
                   const std::string& delimiter, ExampleSink sink);

// Encodes all examples in order.
void EncodeExamples(const DocumentList& examples, const Tokenizer& tokenizer,
                    const std::string& delimiter, ExampleSink sink);

}  // namespace plimsoll::data
