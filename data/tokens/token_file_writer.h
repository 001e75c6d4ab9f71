// Writes a token file (see token_file.h) as a stream: into a temporary file beside it, which
// replaces the token file only when all data is on the disk. Without Commit() nothing is left
// behind. UserErrors name the file and the system's reason.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace plimsoll::data {

struct TokenFileForm {
  int width = 2;        // bytes a token: 2 or 4
  bool header = false;  // llm.c's
};

class TokenFileWriter {
 public:
  TokenFileWriter(std::string path, const TokenFileForm& form);
  TokenFileWriter(TokenFileWriter&& other) noexcept;
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  ~TokenFileWriter();

  // Ids must fit the form's width.
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

  std::string path_, target_, temporary_;  // as given; with links resolved; until the end
  TokenFileForm form_;
  std::FILE* file_ = nullptr;
  int64_t tokens_ = 0;
};

}  // namespace plimsoll::data
