#include "data/tokenizers/tokenizer.h"

#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/tokenizers/generation_config.h"
#include "data/tokenizers/tokenizer_config.h"
#include "data/tokenizers/tokenizer_json.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/foreign_files.h"

namespace plimsoll::data {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

class ByteTokenizer : public Tokenizer {
 public:
  void Encode(std::string_view text, std::vector<int32_t>* out, Place) const override {
    out->reserve(out->size() + text.size());
    for (const char c : text) out->push_back(static_cast<uint8_t>(c));
  }
  void Decode(int32_t id, std::string* out) const override {
    if (id >= 0 && id < 256) {
      out->push_back(static_cast<char>(id));
    } else {
      out->append(kReplacement);
    }
  }
  size_t EncodeStart(std::string_view text, std::vector<int32_t>* out, Place place) const override {
    Encode(text, out, place);
    return text.size();
  }
  int64_t vocab_size() const override { return 256; }
  std::optional<int32_t> TokenId(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<uint8_t>(token[0]);
  }
};

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  Encode(text, &ids);
  return ids;
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string bytes;
  for (const int32_t id : ids) Decode(id, &bytes);
  return bytes;
}

std::optional<int32_t> Tokenizer::Named(const std::string& role) const {
  const auto found = facts_.named.find(role);
  if (found == facts_.named.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Tokenizer::EndOfText() const {
  if (const auto end = Named("eos_token")) return end;
  if (!facts_.ends.empty()) return facts_.ends.front();
  if (const auto separator = Named("sep_token")) return separator;
  for (const std::string_view name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"}) {
    if (const auto id = TokenId(name)) return id;
  }
  return std::nullopt;
}

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& spec) {
  const TokenizerFiles files = FindTokenizer(spec);
  if (files.vocabulary.empty()) return MakeByteTokenizer();
  const TokenizerConfig config(files.folder());
  const MappedFile vocabulary(files.vocabulary);
  const auto parse = [&] {
    if (files.is_word_pieces()) {
      return ParseWordPieceFiles(vocabulary.text(), files.vocabulary, config);
    }
    if (files.merges.empty()) {
      return ParseTokenizerJson(vocabulary.text(), files.vocabulary, config);
    }
    const MappedFile merges(files.merges);
    return ParseGpt2Files(vocabulary.text(), files.vocabulary, merges.text(), files.merges, config);
  };
  std::unique_ptr<Tokenizer> tokenizer = parse();
  if (files.folder().empty()) return tokenizer;
  for (const int64_t id : EndTokensIn(files.folder())) {
    // A model's configuration may have defaults that are beyond its vocabulary.
    if (id < tokenizer->vocab_size()) tokenizer->facts().ends.push_back(static_cast<int32_t>(id));
  }
  return tokenizer;
}

std::string TokenizerFiles::folder() const {
  const std::filesystem::path path = vocabulary;
  const std::string name = path.filename();
  const bool known = is_word_pieces() || name == "tokenizer.json" || name == "encoder.json" ||
                     name == "vocab.json";
  if (!known) return "";
  return path.has_parent_path() ? path.parent_path().string() : ".";
}

TokenizerFiles FindTokenizer(const std::string& spec) {
  namespace fs = std::filesystem;
  if (spec == "byte") return {};
  const auto exists = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
  };
  std::error_code ignored;
  if (fs::is_directory(spec, ignored)) {
    for (const char* name : {"tokenizer.json", "encoder.json", "vocab.json", "vocab.txt"}) {
      if (exists(fs::path(spec) / name)) return FindTokenizer((fs::path(spec) / name).string());
    }
    for (const char* name : {"tokenizer.model", "tokenizer.bin"}) {
      formats::RefuseForeignFile((fs::path(spec) / name).string());
    }
    if (exists(fs::path(spec) / "tokenizer.model")) {
      throw UserError(spec +
                      ": holds a tokenizer.model but no tokenizer.json; transformers makes one: "
                      "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
    }
    throw UserError(
        spec + ": holds no tokenizer.json, encoder.json, vocab.json or vocab.txt; name the file");
  }
  for (const std::string_view vocab : {"encoder.json", "vocab.json"}) {
    if (!EndsWith(spec, vocab)) continue;
    const std::string stem = spec.substr(0, spec.size() - vocab.size());
    for (const char* merges : {"vocab.bpe", "merges.txt"}) {
      if (exists(stem + merges)) return {spec, stem + merges};
    }
    if (!exists(spec)) break;
    throw UserError(spec + ": its merges are missing: put " + stem + "vocab.bpe or " + stem +
                    "merges.txt beside it");
  }
  if (!exists(spec)) {
    throw UserError(spec +
                    ": no such tokenizer; give byte, a tokenizer.json, an encoder.json, a "
                    "vocab.txt or a folder that holds one");
  }
  formats::RefuseForeignFile(spec);
  return {.vocabulary = spec, .merges = ""};
}

char32_t CodePoint(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7f >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

size_t Utf8Length(std::string_view text, bool* incomplete) {
  if (incomplete != nullptr) *incomplete = false;
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  // Unicode 15, table 3-7: the second byte's range excludes overlong forms, surrogates and code
  // points above U+10FFFF.
  size_t length = 0;
  uint8_t low = 0x80, high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      if (incomplete != nullptr) *incomplete = true;
      return 0;
    }
    if (byte(i) < low || byte(i) > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}

std::string Utf8Stream::Push(std::string_view bytes) {
  pending_.append(bytes);
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    bool incomplete = false;
    const size_t length = Utf8Length(rest, &incomplete);
    if (length > 0) {
      out.append(rest.substr(0, length));
      rest.remove_prefix(length);
    } else if (incomplete) {
      break;
    } else {
      out.append(kReplacement);
      rest.remove_prefix(1);
    }
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Stream::Finish() {
  std::string out;
  if (!pending_.empty()) out = kReplacement;
  pending_.clear();
  return out;
}

}  // namespace plimsoll::data
