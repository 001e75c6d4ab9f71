#include "data/texts/documents.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/amounts.h"
#include "base/error.h"
#include "formats/compression.h"

namespace plimsoll::data {
namespace {

constexpr size_t kWrittenAtOnce = size_t{256} << 10;
// Documents of this size or more are mapped instead of copied.
constexpr int64_t kLong = int64_t{1} << 20;

ScratchFile ScratchFor(const std::vector<MappedFile>& texts, int64_t wanted_bytes) {
  return ScratchFile({texts.front().path() + ": its documents cannot be copied",
                      "make token files of the text elsewhere (plimsoll data tokenize)"},
                     wanted_bytes);
}

int64_t BytesOf(const std::vector<MappedFile>& texts) {
  int64_t bytes = 0;
  for (const MappedFile& text : texts) bytes += std::ssize(text.bytes());
  return bytes;
}

// The beginning of the held-out tail of a text without delimiters: after a newline if one is near,
// and never within a UTF-8 sequence.
size_t TailStart(std::string_view text, double eval_fraction) {
  if (eval_fraction == 0) return text.size();
  const auto wanted = static_cast<size_t>(static_cast<double>(text.size()) * (1 - eval_fraction));
  const size_t newline = text.find('\n', wanted);
  const size_t tail = text.size() - wanted;
  if (newline != std::string_view::npos && newline - wanted < tail / 2) return newline + 1;
  size_t start = wanted;
  while (start < text.size() && (static_cast<uint8_t>(text[start]) & 0xc0) == 0x80) ++start;
  return start;
}

// Escapes the pattern's longest prefix that is an existing path, so that the prefix is taken
// literally: if a folder is called "run[1]", "run[1]/*.txt" are its files.
std::string WithPathsAsWritten(const std::string& pattern) {
  for (size_t end = pattern.size(); end != pattern.npos && end > 0;
       end = pattern.rfind('/', end - 1)) {
    std::error_code ignored;
    const std::string path = pattern.substr(0, end);
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) continue;
    std::string written;
    for (const char letter : path) {
      if (std::string_view("*?[]{}~\\").find(letter) != std::string_view::npos) written += '\\';
      written += letter;
    }
    return written + pattern.substr(end);
  }
  return pattern;
}

}  // namespace

DocumentIndex::DocumentIndex(const std::vector<MappedFile>& texts)
    : text_(ScratchFor(texts, BytesOf(texts))), ends_(ScratchFor(texts, 0)) {}

void DocumentIndex::Append(std::string_view document) {
  text_.Append(std::as_bytes(std::span(document)));
  const int64_t end = text_.bytes();
  ends_.Append(std::as_bytes(std::span(&end, 1)));
  ++count_;
}

void DocumentIndex::Finish() {
  text_.Flush();
  ends_.Flush();
  mapping_.emplace(text_.file().descriptor(), "documents");
}

Document DocumentIndex::At(int64_t number, std::string* buffer) const {
  if (number < 0 || number >= count_) throw InternalError("documents: no such number");
  std::array<int64_t, 2> bounds = {};  // the first document begins at 0
  const auto read = std::span(bounds).subspan(number == 0 ? 1 : 0);
  constexpr int64_t kBytes = sizeof(int64_t);
  ends_.file().Read(number == 0 ? 0 : (number - 1) * kBytes, std::as_writable_bytes(read));
  const auto begin = static_cast<size_t>(bounds[0]);
  const auto size = static_cast<size_t>(bounds[1] - bounds[0]);
  if (bounds[1] - bounds[0] > kLong) {
    return {.text = mapping_->text().substr(begin, size), .mapping = &*mapping_};
  }
  buffer->resize(size);
  text_.file().Read(bounds[0], std::as_writable_bytes(std::span(*buffer)));
  return {.text = *buffer, .mapping = nullptr};
}

void DocumentIndex::Writer::Append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kWrittenAtOnce) Flush();
  if (bytes.size() > kWrittenAtOnce) {
    file_.Write(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void DocumentIndex::Writer::Flush() {
  file_.Write(buffer_);
  buffer_.clear();
}

Document DocumentList::operator[](int64_t i) const {
  if (index_ == nullptr) return parts_[static_cast<size_t>(i)];
  const auto number = static_cast<uint64_t>(first_ + i);
  return index_->At(static_cast<int64_t>(order_ ? (*order_)(number) : number), &buffer_);
}

int64_t DocumentList::bytes() const {
  int64_t bytes = 0;
  for (const Document& part : parts_) bytes += std::ssize(part.text);
  if (count_ == 0) return bytes;
  return static_cast<int64_t>(static_cast<double>(index_->bytes()) * static_cast<double>(count_) /
                              static_cast<double>(index_->size()));
}

bool ForEachDocument(const MappedFile& file, std::string_view delimiter,
                     FunctionRef<void(std::string_view document)> visit) {
  const std::string_view text = file.text();
  if (delimiter.empty()) {
    if (!text.empty()) visit(text);
    return false;
  }
  bool found = false;
  size_t document = 0, released = 0;
  const auto end_at = [&](size_t end) {
    if (end > document) visit(text.substr(document, end - document));
  };
  for (size_t line = 0; line < text.size();) {
    const size_t newline = text.find('\n', line);
    const size_t end = newline == std::string_view::npos ? text.size() : newline;
    const size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
    std::string_view content = text.substr(line, end - line);
    if (!content.empty() && content.back() == '\r') content.remove_suffix(1);
    if (content == delimiter) {
      found = true;
      end_at(line);
      document = next;
    }
    line = next;
    if (line - released < kReleaseBytes) continue;
    released = line;
    file.Release();
  }
  end_at(text.size());
  return found;
}

DocumentSplit SplitDocuments(const std::vector<MappedFile>& texts, const SplitOptions& options) {
  if (!(options.eval_fraction >= 0 && options.eval_fraction < 1)) {
    throw UserError(fmt::format("data.eval_fraction: {} lies outside [0, 1); 0.05 is usual",
                                options.eval_fraction));
  }
  if (!options.delimiter.empty()) {
    auto documents = std::make_shared<DocumentIndex>(texts);
    bool delimited = false;
    for (const MappedFile& text : texts) {
      delimited |= ForEachDocument(text, options.delimiter,
                                   [&](std::string_view document) { documents->Append(document); });
    }
    if (delimited && documents->size() == 0) {
      throw UserError(fmt::format(
          "{}: holds no text but the lines that separate documents (data.document_separator: {}); "
          "name files that hold text",
          texts.front().path(), options.delimiter));
    }
    if (delimited) {
      documents->Finish();
      DocumentSplit split =
          SplitByCount(std::move(documents), options.eval_fraction, options.seed, "documents");
      split.delimited = true;
      return split;
    }
  }
  DocumentSplit split;
  for (const MappedFile& text : texts) {
    const std::string_view all = text.text();
    const size_t start = TailStart(all, options.eval_fraction);
    if (start > 0) split.train.Append(text, all.substr(0, start));
    if (start < all.size()) split.eval.Append(text, all.substr(start));
  }
  split.bytes = split.train.bytes() + split.eval.bytes();
  return split;
}

DocumentSplit SplitByCount(std::shared_ptr<const DocumentIndex> index, double eval_fraction,
                           uint64_t seed, std::string_view things) {
  const int64_t count = index->size();
  const auto held_out = static_cast<int64_t>(std::ceil(static_cast<double>(count) * eval_fraction));
  if (count == 0) throw InternalError(fmt::format("no {} to split", things));
  if (held_out >= count) {
    throw UserError(fmt::format(
        "data.eval_fraction: {0} of {1} {3} would hold out {2} and leave none to train on; give "
        "more {4} or a smaller fraction",
        eval_fraction, count, held_out, things, things == "documents" ? "text" : things));
  }
  const Permutation order(static_cast<uint64_t>(count), seed);
  return {.train = DocumentList(index, 0, count - held_out, order),
          .eval = DocumentList(index, count - held_out, held_out, order),
          .delimited = false,
          .bytes = index->bytes()};
}

std::string DelimiterAfter(std::string_view text, std::string_view delimiter) {
  const bool ended = !text.empty() && text.back() == '\n';
  return fmt::format("{}{}\n", ended ? "" : "\n", delimiter);
}

std::vector<std::string> ExpandFiles(const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& exclude,
                                     const std::string& key) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    glob_t matches = {};
    const int status =
        glob(WithPathsAsWritten(pattern).c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &matches);
    const size_t before = names.size();
    size_t left_out = 0;
    if (status == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) {
        const fs::path path = matches.gl_pathv[i];
        std::error_code ignored;
        const bool excluded =
            fs::is_directory(path, ignored) ||
            std::any_of(exclude.begin(), exclude.end(), [&](const std::string& unwanted) {
              return fnmatch(unwanted.c_str(), path.filename().c_str(), 0) == 0;
            });
        if (excluded) {
          ++left_out;
        } else {
          names.push_back(path.string());
        }
      }
    }
    globfree(&matches);
    if (names.size() > before) continue;
    if (left_out > 0) {
      throw UserError(
          fmt::format("{}: '{}' matches {}, all folders or excluded; name files, as in '{}/*'", key,
                      pattern, Counted(left_out, "name"), pattern));
    }
    throw UserError(fmt::format(
        "{}: no file matches '{}'; check the path, which is relative to the folder Plimsoll was "
        "started in",
        key, pattern));
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> files;
  std::set<fs::path> seen;
  for (std::string& name : names) {
    std::error_code error;
    const fs::path real = fs::canonical(name, error);
    if (seen.insert(error ? fs::path(name) : real).second) files.push_back(std::move(name));
  }
  return files;
}

bool MatchesAny(const std::string& pattern) {
  glob_t matches = {};
  const int status =
      glob(WithPathsAsWritten(pattern).c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &matches);
  globfree(&matches);
  return status == 0;
}

int64_t BytesOfFiles(const std::vector<std::string>& patterns,
                     const std::vector<std::string>& exclude, const std::string& key) {
  constexpr int64_t kUnpacked = 5;  // estimated ratio of unpacked to compressed size
  int64_t bytes = 0;
  for (const std::string& path : ExpandFiles(patterns, exclude, key)) {
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (error) continue;  // opening the file will report the error
    const bool packed = formats::CompressionByName(path) != formats::Compression::kNone;
    bytes += packed ? kUnpacked * size : size;
  }
  return bytes;
}

void RequireReadableKind(const std::string& path, const std::string& key) {
  std::string name(formats::WithoutCompression(path));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string ending = std::filesystem::path(name).extension();
  constexpr std::array kTables = {".csv",     ".tsv", ".parquet", ".arrow",
                                  ".feather", ".orc", ".xls",     ".xlsx"};
  if (std::ranges::find(kTables, ending) == kTables.end()) return;
  const bool converted = ending == ".csv" || ending == ".tsv" || ending == ".parquet";
  throw UserError(fmt::format(
      "{}: {} is a table; {}convert it to lines (python3 tools/to_jsonl.py {} FILE.jsonl; "
      "plimsoll-to-jsonl where pip has installed it), or leave it out with an exclude; a text that "
      "is only called so needs another ending",
      key, path, converted ? "" : "save it as Parquet or CSV and ", converted ? path : "TABLE"));
}

std::vector<MappedFile> MapTexts(const std::vector<std::string>& paths, const std::string& key,
                                 const Say& say) {
  std::vector<MappedFile> files;
  size_t bytes = 0;
  for (const std::string& path : paths) RequireReadableKind(path, key);
  for (const std::string& path : paths) {
    files.push_back(OpenText(path, say));
    bytes += files.back().bytes().size();
  }
  if (bytes == 0) {
    throw UserError(fmt::format("{}: {} is empty; name files that hold text", key,
                                paths.empty() ? std::string("the list of files") : paths.front()));
  }
  return files;
}

}  // namespace plimsoll::data
