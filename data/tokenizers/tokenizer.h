// Converts text to token ids and back. Any bytes can be encoded.
//
//   byte           one token for each byte, vocabulary 256
//   GPT-2          encoder.json and vocab.bpe (or vocab.json and merges.txt)
//   Hugging Face   tokenizer.json of byte-level BPE (GPT-2, Llama 3, Qwen2 and the like), of BPE of
//                  characters with byte fallback, as converted from SentencePiece (Llama 2), and of
//                  WordPiece (BERT)
//   BERT           vocab.txt (wordpiece.h)
//
// For each kind, the other files of its folder are taken into account (tokenizer_config.h).
//
// Decode(Encode(x)) == x for any x (after NFC, if the tokenizer asks for it), with three
// exceptions. With byte fallback, x must be UTF-8. With added tokens that absorb white space, there
// must be no white space around them. WordPiece loses white space and more.
//
// Special and added tokens that are spelled out in the text become their ids. Encode adds no token
// at the beginning of a text; facts().begins says which ones belong there. UserErrors name the file
// and the field that is wrong or not supported.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// Facts from the files next to a vocabulary (tokenizer_config.h, generation_config.h).
struct TokenizerFacts {
  std::map<std::string, int32_t> named = {};  // ids by role: "eos_token", "mask_token"
  // The tokens before a text, usually one (BOS), as a call of transformers' tokenizer puts them
  // there (begin_tokens.h). Empty for WordPiece, whose sources of data place their own.
  std::vector<int32_t> begins = {};
  std::vector<int32_t> ends = {};          // end tokens of the folder's model
  std::optional<int32_t> chosen_end = {};  // takes precedence in EndOfText (data.end)
  std::vector<int32_t> added = {};         // tokens that are matched as a unit, sorted
  bool cuts_left = false;                  // truncation removes a text's beginning
  bool pads_left = false;                  // padding is placed before a text
  std::string folder = {};                 // the folder of these files; empty if none was read
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Whether a text is at the beginning: SentencePiece tokenizers put a space before a text unless
  // it continues another one.
  enum class Place { kStart, kWithin };

  // Appends the ids of `text` to `out`. Several threads may call it, but only one runs at a time.
  virtual void Encode(std::string_view text, std::vector<int32_t>* out,
                      Place place = Place::kStart) const = 0;
  std::vector<int32_t> Encode(std::string_view text) const;

  // Appends the bytes of one id to `out`. An id without bytes, which models with a padded
  // vocabulary can produce, becomes U+FFFD.
  virtual void Decode(int32_t id, std::string* out) const = 0;
  // Decodes all ids as the beginning of a text: removes the space that Encode has added there.
  virtual std::string Decode(const std::vector<int32_t>& ids) const;

  virtual int64_t vocab_size() const = 0;  // largest id + 1
  // The id of the token with exactly these bytes.
  virtual std::optional<int32_t> TokenId(std::string_view token) const = 0;

  // Whether the id continues a word that the id before it began. nullopt: the tokenizer's ids do
  // not show it.
  virtual std::optional<bool> ContinuesWord(int32_t /*id*/) const { return std::nullopt; }

  // Encodes a prefix of `text` whose ids do not depend on the text that follows `text`: appends the
  // ids and returns the prefix's length in bytes. Returns 0 if no prefix is certain; a longer text
  // may have one. The remaining text must then be encoded as kWithin.
  virtual size_t EncodeStart(std::string_view text, std::vector<int32_t>* out,
                             Place place = Place::kStart) const = 0;

  const TokenizerFacts& facts() const { return facts_; }
  TokenizerFacts& facts() { return facts_; }
  // The token with a role in transformers, such as "mask_token". nullopt: no file names one.
  std::optional<int32_t> Named(const std::string& role) const;

  // The token that ends a document: the chosen one (ChooseEnd); else the files' eos_token; else the
  // first end token of the folder's model; else sep_token (BERT); else, for vocabularies without
  // such files, a known name:
  // <|endoftext|> (GPT-2, Qwen2), <|end_of_text|> (Llama 3), </s> (Llama 2) or [SEP] (BERT).
  // nullopt: none of these exists.
  std::optional<int32_t> EndOfText() const;
  // Makes `token` the end of documents. Throws a UserError that begins with `key` if the vocabulary
  // lacks the token.
  void ChooseEnd(const std::string& token, const std::string& key);
  // Whether a text may stop at this token: it is the end of texts, an end token of the folder's
  // model, or an added token, such as the end of a turn.
  bool IsEnd(int32_t id) const;

 private:
  TokenizerFacts facts_;
};

std::unique_ptr<Tokenizer> MakeByteTokenizer();

// Opens a tokenizer. `spec` is "byte", a tokenizer.json, an encoder.json or vocab.json whose merges
// are next to it (the same name with vocab.bpe or merges.txt), a vocab.txt or another *.txt, or a
// folder that has one of these.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& spec);

// The existing files of a tokenizer; none for "byte".
struct TokenizerFiles {
  std::string vocabulary;  // the vocabulary, or a tokenizer.json
  std::string merges;      // empty for a tokenizer.json or a vocab.txt
  bool is_word_pieces() const { return vocabulary.ends_with(".txt"); }
  // The vocabulary's folder, if the vocabulary's name shows that the folder's other files belong to
  // the tokenizer; otherwise empty.
  std::string folder() const;
};
TokenizerFiles FindTokenizer(const std::string& spec);

}  // namespace plimsoll::data
