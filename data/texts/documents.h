// Splits plain text into documents, and the documents into a training and a held-out part.
//
// A document ends at a line that only holds the delimiter ("%" in fortune files). Documents are
// shuffled by a seed of their own, so that the held-out part is a fair sample and does not change
// with the training seed. The last `eval_fraction` of them, by count and rounded up, is held out.
// In text without such lines, the tail of each file is held out, from the beginning of a line if
// possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "base/scratch_file.h"
#include "data/chats/chat_template.h"
#include "data/texts/text_file.h"
#include "data/texts/unreadable_examples.h"

namespace plimsoll::data {

// DocumentIndex copies documents into a scratch file, so that they can be read in a shuffled order.
// Its memory does not depend on their number and size, and the original texts may be unmapped.

// Sequential readers of mapped text release its pages after this many bytes, since pages of a
// mapping count as memory of the process.
inline constexpr size_t kReleaseBytes = size_t{8} << 20;

struct Document {
  std::string_view text;
  // The mapping that holds a long document, for readers of such documents.
  const MappedFile* mapping = nullptr;
};

class DocumentIndex {
 public:
  // Makes an index for the documents of `texts`.
  explicit DocumentIndex(const std::vector<MappedFile>& texts);

  void Append(std::string_view document);
  void Finish();

  int64_t size() const { return count_; }
  int64_t bytes() const { return text_.bytes(); }  // size of all documents
  // Call this after Finish. The text of a short document is copied into `buffer`.
  Document At(int64_t number, std::string* buffer) const;

 private:
  // Writes a scratch file in large pieces.
  class Writer {
   public:
    explicit Writer(ScratchFile file) : file_(std::move(file)) {}
    void Append(std::span<const std::byte> bytes);
    void Flush();
    const ScratchFile& file() const { return file_; }
    int64_t bytes() const { return file_.bytes() + std::ssize(buffer_); }

   private:
    ScratchFile file_;
    std::vector<std::byte> buffer_;
  };

  Writer text_;
  Writer ends_;  // the end of each document in text_, int64
  int64_t count_ = 0;
  std::optional<MappedFile> mapping_;
};

struct SplitOptions {
  std::string delimiter;     // a line that separates documents; "": no delimiter
  double eval_fraction = 0;  // in [0, 1)
  uint64_t seed = 1;
  ChatOptions chats = {};        // how chats among examples are rendered
  OnUnreadable unreadable = {};  // what an example that cannot be read does
};

// A list of documents in a given order.
class DocumentList {
 public:
  DocumentList() = default;
  // The documents [first, first + count) of the index; with an order, the documents to which it
  // maps these numbers.
  DocumentList(std::shared_ptr<const DocumentIndex> index, int64_t first, int64_t count,
               std::optional<Permutation> order = std::nullopt)
      : index_(std::move(index)), order_(order), first_(first), count_(count) {}

  // Appends a part of a text, which must outlive the list.
  void Append(const MappedFile& text, std::string_view part) { parts_.push_back({part, &text}); }

  int64_t size() const { return count_ + std::ssize(parts_); }
  bool empty() const { return size() == 0; }
  // The result is valid until the next call.
  Document operator[](int64_t i) const;
  // The size in bytes of all documents in the list; an estimate if the list is a part of an index.
  int64_t bytes() const;

 private:
  std::shared_ptr<const DocumentIndex> index_;
  std::optional<Permutation> order_;
  int64_t first_ = 0, count_ = 0;
  std::vector<Document> parts_;  // the documents of a list without an index
  mutable std::string buffer_;   // holds a document from the index
};

struct DocumentSplit {
  DocumentList train, eval;  // parts of the given texts, without delimiter lines
  bool delimited = false;    // whether any delimiter line was found
  int64_t bytes = 0;         // size of all documents
  bool chats = false;        // whether any example is a chat
  // Whether texts may contain the day on which they were read (ChatRenderer::dated).
  bool dated = false;
  int64_t examples = 0;  // the number of examples, with those that cannot be read
  UnreadableExamples unreadable = {};
};

// Splits the documents of `texts`, at least one of which must not be empty; they must outlive the
// result. Throws a UserError when eval_fraction is outside [0, 1) or leaves nothing for training,
// and for texts that only contain delimiters.
DocumentSplit SplitDocuments(const std::vector<MappedFile>& texts, const SplitOptions& options);

// Shuffles the documents by the seed and holds out the last fraction by count, rounded up. Throws a
// UserError, which calls the documents `things`, when none is left for training.
DocumentSplit SplitByCount(std::shared_ptr<const DocumentIndex> index, double eval_fraction,
                           uint64_t seed, std::string_view things);

// Calls visit(document) for the nonempty documents of `text`; with an empty delimiter, the text is
// one document. Returns whether a delimiter line was found. Releases the pages that it has read.
bool ForEachDocument(const MappedFile& text, std::string_view delimiter,
                     FunctionRef<void(std::string_view document)> visit);

// The text to append to a document so that the delimiter is on a line of its own.
std::string DelimiterAfter(std::string_view text, std::string_view delimiter);

// Lists the files that match the shell patterns, sorted by name; a file with several names (links)
// is listed once. A pattern that is an existing path only means that path. Leaves out folders, and
// names whose last component matches one of `exclude`. Throws a UserError, naming `key`, for a
// pattern without a remaining file.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& exclude,
                                     const std::string& key);

// True if the shell pattern matches a folder or a file; `exclude` does not apply.
bool MatchesAny(const std::string& pattern);

// The approximate size of the files that ExpandFiles lists. Compressed files count with their
// unpacked size.
int64_t BytesOfFiles(const std::vector<std::string>& patterns,
                     const std::vector<std::string>& exclude, const std::string& key);

// Throws a UserError, naming `key` and what to do, for a file whose extension, even if compressed,
// is neither that of text nor of examples nor of tokens: *.csv, *.parquet and the like.
void RequireReadableKind(const std::string& path, const std::string& key);

// Maps the texts of the files (text_file.h). Throws a UserError if all are empty, or one is of
// another kind (RequireReadableKind).
std::vector<MappedFile> MapTexts(const std::vector<std::string>& paths, const std::string& key,
                                 const Say& say = {});

}  // namespace plimsoll::data
