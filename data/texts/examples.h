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
// "answer" and "response" are other names of "completion". Further members are used or refused by
// name where they change what an example means (example_members.h).
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
#include "data/texts/unreadable_examples.h"
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

// Converts examples to the input of ExampleEncoder (encode_examples.h); chats are rendered as text.
// The first chat starts a process that renders them.
class ExampleReader {
 public:
  // `tokenizer` must outlive the reader.
  ExampleReader(const ChatOptions& chats, const Tokenizer& tokenizer)
      : chats_(chats), tokenizer_(tokenizer) {}

  // Converts an example. Throws an UnreadableExample, which begins with `where`, if this one cannot
  // be converted, and another UserError if no chat can be rendered.
  std::string Read(std::string_view object, const std::string& where);

  bool chats() const { return has_chats_; }  // whether any example read so far is a chat
  // Whether a chat read so far may contain today's date (ChatRenderer::dated).
  bool dated() const { return dated_; }

 private:
  ChatRenderer& Renderer(const std::string& where);
  template <typename Render>
  auto WithRenderer(const std::string& where, const Render& render);
  std::string ReadPair(std::string_view object, const std::string& where);

  ChatOptions chats_;
  const Tokenizer& tokenizer_;
  std::optional<ChatRenderer> renderer_;
  bool has_chats_ = false, dated_ = false;
};

// Throws a UserError if `count`, the number of examples in the files, is 0; the message says what
// the files contain instead.
void RequireExamples(const std::vector<MappedFile>& files, int64_t count);

// The examples of the files, converted by ExampleReader, in order. UserErrors name the files and
// lines, or say that the files have no examples.
struct FoundExamples {
  std::shared_ptr<const DocumentIndex> index;
  int64_t examples = 0;           // with those that cannot be read
  UnreadableExamples unreadable;  // left out of the index
  bool chats = false;             // whether any example is a chat
  bool dated = false;             // see ExampleReader
};
FoundExamples FindExamples(const std::vector<MappedFile>& files, const ChatOptions& chats,
                           const OnUnreadable& unreadable, const Tokenizer& tokenizer);

// Checks the first example in the beginning of a file's text, if it is complete there; if it is a
// chat, checks that a chat template exists. Throws the errors of FindExamples.
void CheckFirstExample(std::string_view start, const std::string& path, const ChatOptions& chats,
                       const OnUnreadable& unreadable, const Tokenizer& tokenizer);

}  // namespace plimsoll::data
