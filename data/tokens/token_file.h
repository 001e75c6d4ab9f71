// Token files, which are read through memory mappings and written as streams. Three formats, all
// little-endian:
//   raw uint16          ids only, as nanoGPT writes them (vocabularies up to 65,536)
//   raw uint32          ids only, for larger vocabularies
//   llm.c               256 int32: magic, version, number of tokens, zeros; then the ids as uint16
//                       (magic 20240520, version 1) or uint32 (magic 20240801, version 7)
// A header identifies the last format. Without a header, the width of ids follows from the
// vocabulary, or from an explicit format. A file FILE.mask next to FILE, with one byte for each
// token, says which tokens carry loss as targets (1) and which are ignored (0). A file FILE.begin
// has the ids of the tokens with which texts other than chats begin, as text; without it they begin
// with their own first token. UserErrors: a file is missing, empty or truncated, the header
// contradicts the file's size, an id is outside the vocabulary, the mask has another length, or
// FILE.begin has no ids.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokens/token_source.h"

namespace plimsoll::data {

enum class TokenFormat { kAuto, kUint16, kUint32 };
// "auto", "uint16", "uint32"; throws a UserError for other texts.
TokenFormat ParseTokenFormat(std::string_view text);

inline constexpr int64_t kHeaderInts = 256;
inline constexpr int32_t kUint16Magic = 20240520, kUint16Version = 1;
inline constexpr int32_t kUint32Magic = 20240801, kUint32Version = 7;

struct TokenFileOptions {
  TokenFormat format = TokenFormat::kAuto;
  int64_t vocab = 0;  // exclusive upper bound of ids; 0: unknown, any id that fits int32 is valid
  // Files up to this size are checked against the vocabulary when they are opened; larger files are
  // checked while they are read.
  int64_t scan_limit_bytes = int64_t{256} << 20;
};

class TokenFile : public TokenSource {
 public:
  virtual bool has_header() const = 0;
  virtual int width() const = 0;       // bytes in a token: 2 or 4
  virtual uint32_t MaxId() const = 0;  // reads the complete file
};

std::shared_ptr<const TokenFile> OpenTokenFile(const std::string& path,
                                               const TokenFileOptions& options);

// The suffixes of the files next to a token file.
inline constexpr std::string_view kMaskSuffix = ".mask", kBeginSuffix = ".begin";
bool IsNextToTokens(std::string_view path);
// The ids in FILE.begin; empty if there is no such file.
std::vector<int32_t> ReadBegins(const std::string& token_file);
// The text of such a file.
std::string BeginsText(const std::vector<int32_t>& begins);

struct TokenFileForm {
  int width = 2;        // bytes in a token: 2 or 4
  bool header = false;  // whether the file has llm.c's header
};

// Writes a token file as a stream into a temporary file next to it. The temporary file replaces the
// token file only when all data are on the disk; without Commit() it is deleted. UserErrors name
// the file and the system's reason.
class TokenFileWriter {
 public:
  TokenFileWriter(std::string path, const TokenFileForm& form);
  TokenFileWriter(TokenFileWriter&& other) noexcept;
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  // Appends ids, which must fit the form's width.
  void Append(std::span<const int32_t> ids);
  // Writes the header and syncs all data to the disk, still under the temporary name.
  void Finish();
  // Renames the finished file into place.
  void Commit();

  const std::string& path() const { return path_; }
  int64_t tokens() const { return tokens_; }

 private:
  void Write(const void* data, size_t bytes);
  [[noreturn]] void Fail(const char* what) const;

  // The path as given, the path with links resolved, and the temporary file's path.
  std::string path_, target_, temporary_;
  TokenFileForm form_;
  std::FILE* file_ = nullptr;
  int64_t tokens_ = 0;
};

}  // namespace plimsoll::data
