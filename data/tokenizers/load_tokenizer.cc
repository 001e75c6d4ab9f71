// Implements LoadTokenizer of tokenizer.h: finds the files of a tokenizer and opens it.
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/tokenizers/generation_config.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_config.h"
#include "data/tokenizers/tokenizer_json.h"
#include "data/tokenizers/wordpiece.h"
#include "formats/foreign_files.h"

namespace plimsoll::data {

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
  tokenizer->facts().folder = files.folder();
  if (files.folder().empty()) return tokenizer;
  for (const int64_t id : EndTokensIn(files.folder())) {
    // Defaults in a model's configuration may be outside its vocabulary.
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
    if (!spec.ends_with(vocab)) continue;
    const std::string stem = spec.substr(0, spec.size() - vocab.size());
    for (const char* merges : {"vocab.bpe", "merges.txt"}) {
      if (exists(stem + merges)) return {spec, stem + merges};
    }
    if (!exists(spec)) break;
    throw UserError(spec + ": its merges are missing: put " + stem + "vocab.bpe or " + stem +
                    "merges.txt next to it");
  }
  if (!exists(spec)) {
    throw UserError(spec +
                    ": no such tokenizer; give byte, a tokenizer.json, an encoder.json, a "
                    "vocab.txt or a folder that holds one");
  }
  formats::RefuseForeignFile(spec);
  return {.vocabulary = spec, .merges = ""};
}

}  // namespace plimsoll::data
