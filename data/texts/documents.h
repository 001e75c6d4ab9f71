// Splits plain text into documents, and the documents into a training and a held-out part.
//
// Documents end at lines that hold only the delimiter ("%" in fortune files). They are shuffled by
// a seed of their own, so that the held-out part is a fair sample and stays the same when the
// training seed changes. The last `eval_fraction` of them, by count and rounded up, is held out.
// Text without such lines is split within each file: its tail, from the start of a line if there is
// one, is held out.
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

namespace plimsoll::data {

// Documents to be read in an order of their own, one after the other in a scratch file: any number
// of any size takes as little memory, and the texts that they come from may go (DocumentIndex).

// Text that is read in order gives its pages back to the page cache each time so much was read:
// pages of a mapping count as memory of the process.
inline constexpr size_t kReleaseBytes = size_t{8} << 20;

struct Document {
  std::string_view text;
  const MappedFile* mapping = nullptr;  // that it is in, for those who read a long one
};

class DocumentIndex {
 public:
  // For the documents of `texts`.
  explicit DocumentIndex(const std::vector<MappedFile>& texts);

  void Append(std::string_view document);
  void Finish();

  int64_t size() const { return count_; }
  int64_t bytes() const { return text_.bytes(); }  // of all documents
  // Once finished. The text of a short document is in `buffer`.
  Document At(int64_t number, std::string* buffer) const;

 private:
  // A scratch file that is written a large piece at a time.
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
  Writer ends_;  // of each document in text_, int64
  int64_t count_ = 0;
  std::optional<MappedFile> mapping_;
};

struct SplitOptions {
  std::string delimiter;     // a line that separates documents; "": none
  double eval_fraction = 0;  // in [0, 1)
  uint64_t seed = 1;
  ChatOptions chats = {};  // of examples
};

// Some documents, in an order of their own.
class DocumentList {
 public:
  DocumentList() = default;
  // Numbers first, first + 1, … of the index, or, with an order, what it makes of them.
  DocumentList(std::shared_ptr<const DocumentIndex> index, int64_t first, int64_t count,
               std::optional<Permutation> order = std::nullopt)
      : index_(std::move(index)), order_(order), first_(first), count_(count) {}

  // A part of a text, which must outlive the list.
  void Append(const MappedFile& text, std::string_view part) { parts_.push_back({part, &text}); }

  int64_t size() const { return count_ + std::ssize(parts_); }
  bool empty() const { return size() == 0; }
  // Valid until another one is asked for.
  Document operator[](int64_t i) const;
  // Of all its documents; about so many if they are some of an index.
  int64_t bytes() const;

 private:
  std::shared_ptr<const DocumentIndex> index_;
  std::optional<Permutation> order_;
  int64_t first_ = 0, count_ = 0;
  std::vector<Document> parts_;  // in place of an index
  mutable std::string buffer_;   // a document from the index
};

struct DocumentSplit {
  DocumentList train, eval;  // of the texts given; without delimiter lines
  bool delimited = false;    // whether any delimiter line was found
  int64_t bytes = 0;         // of all documents
  bool chats = false;        // some are chats
  bool dated = false;        // some may hold the day on which they were read (ChatRenderer::dated)
};

// UserError when eval_fraction is outside [0, 1) or leaves nothing to train on, and for texts of
// delimiters alone. `texts`, of which one is not empty, must outlive the result.
DocumentSplit SplitDocuments(const std::vector<MappedFile>& texts, const SplitOptions& options);

// Shuffles by the seed and holds out the last fraction by count, rounded up. UserError when that
// leaves none to train on; it calls them `things`.
DocumentSplit SplitByCount(std::shared_ptr<const DocumentIndex> index, double eval_fraction,
                           uint64_t seed, std::string_view things);

// Calls visit(document) for the documents of `text` that aren't empty; an empty delimiter makes the
// text one. Returns whether a delimiter line was found. Gives back what it has read.
bool ForEachDocument(const MappedFile& text, std::string_view delimiter,
                     FunctionRef<void(std::string_view document)> visit);

// What follows a document's text for the delimiter to be on a line of its own.
std::string DelimiterAfter(std::string_view text, std::string_view delimiter);

// The files that match the shell patterns, sorted by name; a file with several names (links) is
// listed once. A path that exists is that path, whatever it holds of a pattern's letters. Leaves
// out folders and names whose last part matches one of `exclude`. UserError, naming `key`, for a
// pattern that leaves no file.
std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& exclude,
                                     const std::string& key);

// True if a file, whatever `exclude` says, or a folder matches the shell pattern.
bool MatchesAny(const std::string& pattern);

// The approximate bytes of the files that ExpandFiles finds. Compressed files count as unpacked.
int64_t BytesOfFiles(const std::vector<std::string>& patterns,
                     const std::vector<std::string>& exclude, const std::string& key);

// UserError, naming `key` and the way out, for a file that is neither text nor examples nor tokens
// by the end of its name, also compressed: *.csv, *.parquet and the like.
void RequireReadableKind(const std::string& path, const std::string& key);

// The texts of the files (text_file.h); UserError if all are empty, or one is of another kind
// (RequireReadableKind).
std::vector<MappedFile> MapTexts(const std::vector<std::string>& paths, const std::string& key,
                                 const Say& say = {});

}  // namespace plimsoll::data
