// A SentencePiece model in memory, in the serialized form that the library loads.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

namespace cria {

/// Writes a ModelProto; the numbers are those of sentencepiece_model.proto.
class SentencePieceModel {
 public:
  enum PieceType : std::int32_t { Normal = 1, Unknown = 2, Unused = 5, Byte = 6 };

  /// Adds a piece; the library's id is the number of pieces before it.
  void piece(std::string_view text, float score, PieceType type);
  /// The bytes of the model: byte-pair merges, byte fallback, no normalization but spaces to U+2581.
  std::string finish();

 private:
  std::string bytes_;
  protozero::pbf_writer model_{bytes_};
};

}  // namespace cria
