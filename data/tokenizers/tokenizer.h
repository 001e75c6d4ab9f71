// Converts text to token ids and back. Any bytes can be encoded.
//
//   byte           one token a byte, vocabulary 256
//   GPT-2          encoder.json and vocab.bpe (or vocab.json and merges.txt)
//   Hugging Face   tokenizer.json of byte-level BPE (GPT-2, Llama 3, Qwen2 and the like), and of
//                  BPE of characters with byte fallback, as made from SentencePiece (Llama 2), and
//                  of WordPiece (BERT)
//   BERT           vocab.txt (wordpiece.h)
//
// each with what the other files of its folder say about it (tokenizer_config.h).
//
// Decode(Encode(x)) == x for any x (after NFC, if the tokenizer asks for it); with byte fallback
// only for UTF-8; with added tokens that take white space only for texts without it around them;
// with WordPiece, which forgets white space and more, for no text.
//
// Special and added tokens that are spelled out in the text become their ids; no beginning-of-text
// token is added. UserErrors name the file and the field that is wrong or not supported.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// What the files next to a vocabulary say about it (tokenizer_config.h, generation_config.h).
struct TokenizerFacts {
  std::map<std::string, int32_t> named = {};  // ids by their roles: "eos_token", "mask_token"
  std::vector<int32_t> ends = {};             // of the model that the folder holds
  bool cuts_left = false;                     // a text that is too long loses its beginning
  bool pads_left = false;                     // padding is put before a text
  std::string folder = {};                    // that these files are in; empty: none was looked at
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // A text's position: SentencePiece tokenizers put a space before a text that is not a
  // continuation.
  enum class Place { kStart, kWithin };

  // Appends the ids of `text` to `out`. Several threads may call it; only one runs at a time.
  virtual void Encode(std::string_view text, std::vector<int32_t>* out,
                      Place place = Place::kStart) const = 0;
  std::vector<int32_t> Encode(std::string_view text) const;

  // Appends the bytes of one id to `out`: U+FFFD for an id without bytes, which models with a
  // padded vocabulary can draw.
  virtual void Decode(int32_t id, std::string* out) const = 0;
  // The text of all ids, as a start of text: without the space that Encode put there.
  virtual std::string Decode(const std::vector<int32_t>& ids) const;

  virtual int64_t vocab_size() const = 0;                                    // largest id + 1
  virtual std::optional<int32_t> TokenId(std::string_view token) const = 0;  // by its exact bytes

  // Whether the id goes on a word that the id before it has begun. nullopt: the tokenizer's ids
  // don't say.
  virtual std::optional<bool> ContinuesWord(int32_t /*id*/) const { return std::nullopt; }

  // Appends the ids of as much of the beginning of `text` as has the same ones whatever follows
  // `text`, and returns its bytes; 0: none, a longer text may have a beginning like that. The
  // remaining text is then encoded as kWithin.
  virtual size_t EncodeStart(std::string_view text, std::vector<int32_t>* out,
                             Place place = Place::kStart) const = 0;

  const TokenizerFacts& facts() const { return facts_; }
  TokenizerFacts& facts() { return facts_; }
  // The token with a role in transformers, such as "mask_token". nullopt: no file names it.
  std::optional<int32_t> Named(const std::string& role) const;

  // The token that ends a document: the one that the files call eos_token; else the first that ends
  // texts of the model in the same folder; else sep_token (BERT); else, for vocabularies without
  // such files, a known name: <|endoftext|> (GPT-2, Qwen2), <|end_of_text|> (Llama 3), </s>
  // (Llama 2) or [SEP] (BERT). nullopt: none of them.
  std::optional<int32_t> EndOfText() const;

 private:
  TokenizerFacts facts_;
};

std::unique_ptr<Tokenizer> MakeByteTokenizer();

// `spec` is "byte", a tokenizer.json, an encoder.json or vocab.json with its merges beside it (the
// same name with vocab.bpe or merges.txt), a vocab.txt or another file of that ending, or a folder
// that holds one of these.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& spec);

// The existing files of such a tokenizer; none for "byte".
struct TokenizerFiles {
  std::string vocabulary;  // or a tokenizer.json
  std::string merges;      // empty with a tokenizer.json or a vocab.txt
  bool is_word_pieces() const { return vocabulary.ends_with(".txt"); }
  // The folder of the vocabulary, if the vocabulary's name says that the folder's other files
  // belong to the tokenizer; otherwise empty.
  std::string folder() const;
};
TokenizerFiles FindTokenizer(const std::string& spec);

}  // namespace plimsoll::data
