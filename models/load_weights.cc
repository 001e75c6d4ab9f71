// Loads a checkpoint's tensors into parameters, in pieces and on several threads (LoadWeights).
//
// A tensor in its parameter's order is cut into pieces of a buffer's size, which are passed on
// unchanged. A tensor in another order is read by one thread completely, and permuted into buffers
// in its own type.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/checkpoint_parts.h"
#include "models/huggingface.h"
#include "models/permuted_copy.h"

namespace plimsoll::models {
namespace {

using formats::SafetensorsReader;
using formats::TensorEntry;
using formats::TensorType;
using graph::DType;
using graph::TypedElements;

// A gap of unwanted bytes up to this size costs less to read than another system call.
constexpr int64_t kSmallGap = int64_t{128} << 10;
// How many pieces in advance the system is asked to start reading.
constexpr size_t kAhead = 8;

// A range of a parameter's elements, and where they are stored.
struct Piece {
  const Part* part = nullptr;
  const SafetensorsReader* file = nullptr;  // nullptr: a count that no file has
  const TensorEntry* tensor = nullptr;
  bool whole = false;  // read completely: the tensor has another order or shape, or is a count
  int64_t begin = 0;   // range of the tensor's elements
  int64_t count = 0;

  int64_t at() const { return begin * formats::TypeBytes(tensor->type); }
  int64_t bytes() const { return count * formats::TypeBytes(tensor->type); }
};

DType TypeOf(TensorType type) {
  switch (type) {
    case TensorType::kBf16:
      return DType::kBFloat16;
    case TensorType::kF16:
      return DType::kFloat16;
    default:
      return DType::kFloat32;
  }
}

// Memory for tensors that are read completely. A thread waits until enough memory is free; a single
// tensor always gets its memory. Memory is reused for the next tensor, since allocating pages takes
// longer than reading into them.
class Scratch {
  struct Memory {
    std::unique_ptr<std::byte[]> data;
    int64_t bytes = 0;
  };

 public:
  class Block {
   public:
    Block(Scratch& scratch, int64_t bytes) : scratch_(scratch), memory_(scratch.Take(bytes)) {}
    ~Block() { scratch_.GiveBack(std::move(memory_)); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    std::byte* data() const { return memory_.data.get(); }

   private:
    Scratch& scratch_;
    Memory memory_;
  };

 private:
  Memory Take(int64_t bytes) {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= kMostPermutedBytes; });
    const auto found =
        std::ranges::find_if(free_, [&](const Memory& memory) { return memory.bytes >= bytes; });
    Memory memory;
    if (found != free_.end()) {
      memory = std::move(*found);
      free_.erase(found);
    } else {
      free_.clear();  // frees cached memory, so that never more is allocated than is accounted for
      memory = {std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes)), bytes};
    }
    taken_ += memory.bytes;
    return memory;
  }

  void GiveBack(Memory memory) {
    {
      const std::lock_guard lock(mutex_);
      taken_ -= memory.bytes;
      free_.push_back(std::move(memory));
    }
    left_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable left_;
  int64_t taken_ = 0;
  std::vector<Memory> free_;
};

class Loading {
 public:
  Loading(const OpenCheckpoint& checkpoint, std::span<const StagingBuffer> buffers,
          TakeElements take, const LoadOptions& options)
      : checkpoint_(checkpoint), take_(take) {
    if (buffers.empty() || buffers.front().bytes.size() < sizeof(double)) {
      throw InternalError("weights have no buffer to be read into");
    }
    MakePieces(static_cast<int64_t>(buffers.front().bytes.size()), options);
  }

  void Run(std::span<const StagingBuffer> buffers, ThreadPool& pool) {
    for (size_t i = 0; i < std::min(kAhead, pieces_.size()); ++i) WillRead(i);
    ForEachStaged(pool, buffers, pieces_.size(), [&](size_t i, StagingTurns& turns) {
      WillRead(i + kAhead);
      Read(pieces_[i], turns);
    });
    for (const SafetensorsReader& file : checkpoint_.file.files()) file.RequireUnchanged();
  }

 private:
  static std::vector<ElementRange> WantedOf(const ParameterInfo& parameter,
                                            const LoadOptions& options) {
    if (options.wanted) return options.wanted(parameter);
    return {{0, parameter.shape.elements()}};
  }

  void MakePieces(int64_t buffer_bytes, const LoadOptions& options) {
    std::map<std::string, std::vector<ElementRange>> wanted;
    for (const Part& part : checkpoint_.parts) {
      const std::string& name = part.parameter.name;
      if (checkpoint_.misfitting.fresh.contains(name)) continue;
      const auto [ranges, is_new] = wanted.try_emplace(name);
      if (is_new) ranges->second = WantedOf(part.parameter, options);
      AddPieces(part, ranges->second, buffer_bytes);
    }
    std::map<const SafetensorsReader*, size_t> numbers = {{nullptr, 0}};
    for (const SafetensorsReader& file : checkpoint_.file.files()) {
      numbers.emplace(&file, numbers.size());
    }
    const auto place = [&](const Piece& piece) {
      const int64_t at = piece.file == nullptr ? 0 : piece.tensor->begin + piece.at();
      return std::pair(numbers.at(piece.file), at);
    };
    std::ranges::stable_sort(pieces_, {}, place);
  }

  void AddPieces(const Part& part, const std::vector<ElementRange>& wanted, int64_t buffer_bytes) {
    Piece piece{.part = &part, .tensor = checkpoint_.file.Find(part.name)};
    if (piece.tensor != nullptr) piece.file = &checkpoint_.file.Shard(part.name);
    const bool fitted = checkpoint_.misfitting.fitted.contains(part.parameter.name);
    piece.whole = part.count || fitted || !part.order.empty();
    const int64_t first = part.first(), end = first + part.elements();
    const int64_t size = piece.whole ? 1 : formats::TypeBytes(piece.tensor->type);
    // The wanted ranges of the part, joined over small gaps.
    std::vector<ElementRange> ranges;
    for (const ElementRange& range : wanted) {
      const ElementRange own{std::max(range.begin, first) - first,
                             std::min(range.end, end) - first};
      if (own.begin >= own.end) continue;
      if (!ranges.empty() && (own.begin - ranges.back().end) * size <= kSmallGap) {
        ranges.back().end = own.end;
      } else {
        ranges.push_back(own);
      }
    }
    if (ranges.empty()) return;
    if (piece.whole) {
      piece.count = piece.tensor == nullptr ? 0 : piece.tensor->elements;
      pieces_.push_back(piece);
      return;
    }
    const int64_t most = buffer_bytes / size;
    for (const ElementRange& range : ranges) {
      for (piece.begin = range.begin; piece.begin < range.end; piece.begin += most) {
        piece.count = std::min(most, range.end - piece.begin);
        pieces_.push_back(piece);
      }
    }
  }

  void WillRead(size_t i) const {
    if (i >= pieces_.size() || pieces_[i].file == nullptr) return;
    const Piece& piece = pieces_[i];
    piece.file->WillRead(*piece.tensor, piece.at(), piece.bytes());
  }

  void Read(const Piece& piece, StagingTurns& turns) {
    const Part& part = *piece.part;
    if (piece.whole) {
      const bool fitted = checkpoint_.misfitting.fitted.contains(part.parameter.name);
      if (!part.count && !fitted) return ReadPermuted(piece, turns);
      const int64_t elements = fitted ? part.parameter.shape.elements() : part.elements();
      std::vector<float> values(static_cast<size_t>(elements));
      if (fitted) {
        checkpoint_.ReadFitted(part, values.data());
      } else {
        checkpoint_.ReadStored(part, values.data());
      }
      return GiveValues(part, values, turns);
    }
    const std::span<std::byte> bytes = turns.Next().first(static_cast<size_t>(piece.bytes()));
    piece.file->Read(*piece.tensor, piece.at(), bytes);
    Give(part, part.first() + piece.begin, piece.tensor->type, bytes);
  }

  void GiveValues(const Part& part, std::span<const float> values, StagingTurns& turns) {
    const size_t most = turns.bytes() / sizeof(float);
    const int64_t first = part.count ? part.first() : 0;
    for (size_t at = 0; at < values.size(); at += most) {
      const auto some = std::as_bytes(values.subspan(at, std::min(most, values.size() - at)));
      const std::span<std::byte> bytes = turns.Next().first(some.size());
      std::ranges::copy(some, bytes.begin());
      Give(part, first + static_cast<int64_t>(at), TensorType::kF32, bytes);
    }
  }

  void ReadPermuted(const Piece& piece, StagingTurns& turns) {
    const Scratch::Block stored(scratch_, piece.bytes());
    piece.file->Read(*piece.tensor, 0, {stored.data(), static_cast<size_t>(piece.bytes())});
    const std::vector<int64_t> strides = piece.part->StoredStrides();
    const int64_t size = formats::TypeBytes(piece.tensor->type);
    const auto give = [&](auto element) {
      using Element = decltype(element);
      Permute<Element>({.piece = &piece, .turns = &turns, .most = Most(turns, size)},
                       reinterpret_cast<const Element*>(stored.data()), piece.part->shape, strides,
                       piece.part->first());
    };
    if (size == 2) {
      give(uint16_t());
    } else if (size == 4) {
      give(uint32_t());
    } else {
      give(uint64_t());
    }
  }

  struct Permutation {
    const Piece* piece;
    StagingTurns* turns;
    int64_t most;  // elements that fit in a buffer
  };
  static int64_t Most(const StagingTurns& turns, int64_t size) {
    return static_cast<int64_t>(turns.bytes()) / size;
  }

  // Passes on as many rows of the parameter as fit in a buffer at a time. If a single row does not
  // fit, it is divided along its next dimension.
  template <typename Element>
  void Permute(const Permutation& of, const Element* from, std::span<const int64_t> shape,
               std::span<const int64_t> strides, int64_t first) {
    int64_t row = 1;
    for (size_t i = 1; i < shape.size(); ++i) row *= shape[i];
    if (row > of.most) {
      for (int64_t i = 0; i < shape[0]; ++i) {
        Permute(of, from + i * strides[0], shape.subspan(1), strides.subspan(1), first + i * row);
      }
      return;
    }
    int64_t rows = of.most / row;
    if (rows > kTile<Element>) rows -= rows % kTile<Element>;
    std::vector<int64_t> some(shape.begin(), shape.end());
    for (int64_t i = 0; i < shape[0]; i += some[0]) {
      some[0] = std::min(rows, shape[0] - i);
      const int64_t count = some[0] * row;
      const auto bytes = of.turns->Next().first(static_cast<size_t>(count) * sizeof(Element));
      CopyPermuted(from + i * strides[0], some, strides, reinterpret_cast<Element*>(bytes.data()));
      Give(*of.piece->part, first + i * row, of.piece->tensor->type, bytes);
    }
  }

  // Passes on elements of the parameter, starting at number `first`. Doubles are first converted to
  // floats in place.
  void Give(const Part& part, int64_t first, TensorType type, std::span<std::byte> bytes) {
    const auto count = static_cast<int64_t>(bytes.size()) / formats::TypeBytes(type);
    if (type == TensorType::kF64) {
      for (int64_t i = 0; i < count; ++i) {
        double value = 0;
        std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof(value)), sizeof(value));
        const auto rounded = static_cast<float>(value);
        std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(rounded)), &rounded,
                    sizeof(rounded));
      }
    }
    take_(part.parameter, first, TypedElements{TypeOf(type), bytes.data(), count});
  }

  const OpenCheckpoint& checkpoint_;
  TakeElements take_;
  std::vector<Piece> pieces_;
  Scratch scratch_;
};

}  // namespace

std::vector<ParameterInfo> LoadWeights(const std::string& folder, const Model& model,
                                       std::span<const StagingBuffer> buffers, ThreadPool& pool,
                                       TakeElements take, const LoadOptions& options) {
  const OpenCheckpoint checkpoint(folder, model, options.misfits, options.left_out);
  Loading(checkpoint, buffers, take, options).Run(buffers, pool);
  return checkpoint.Fresh();
}

std::vector<ParameterInfo> FreshParameters(const std::string& folder, const Model& model) {
  if (!formats::HasModelSafetensors(folder)) return {};
  return OpenCheckpoint(folder, model, Misfits::kAllowed).Fresh();
}

}  // namespace plimsoll::models
