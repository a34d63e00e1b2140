#include "tokenizer/hf/formats.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "model/limits.h"

namespace cria {
namespace {

// Numbers of the fields, as in sentencepiece_model.proto.
namespace model_field {
constexpr protozero::pbf_tag_type kPiece = 1, kTrainer = 2, kNormalizer = 3;
}
namespace piece_field {
constexpr protozero::pbf_tag_type kText = 1, kScore = 2, kType = 3;
}
namespace trainer_field {
constexpr protozero::pbf_tag_type kModelType = 3, kVocabularySize = 4, kByteFallback = 35,
                                  kUnknown = 40, kBos = 41, kEos = 42, kPad = 43;
}
namespace normalizer_field {
constexpr protozero::pbf_tag_type kName = 1, kCharsmap = 2, kDummyPrefix = 3, kExtraSpaces = 4,
                                  kEscapeSpaces = 5;
}
constexpr std::int32_t kUnigram = 1, kBpe = 2;

/// A field with its wire type: with another type, it is skipped as unknown.
constexpr std::uint32_t bytes_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr std::uint32_t number_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}
constexpr std::uint32_t float_field(protozero::pbf_tag_type tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed32);
}

/// Unlike get_bool(), does not read past a truncated field.
bool flag(protozero::pbf_reader& from) { return from.get_uint64() != 0; }

std::string_view text_of(protozero::data_view view) { return {view.data(), view.size()}; }

void read_piece(protozero::pbf_reader piece, std::size_t id, const std::string& file,
                VocabularyBuilder& to) {
  std::string_view text;
  float score = 0;
  std::int32_t type =
      static_cast<std::int32_t>(TokenType::Normal);  // GGUF numbers the types as the library does
  while (piece.next()) {
    switch (piece.tag_and_type()) {
      case bytes_field(piece_field::kText):
        text = text_of(piece.get_view());
        break;
      case float_field(piece_field::kScore):
        score = piece.get_float();
        break;
      case number_field(piece_field::kType):
        type = piece.get_enum();
        break;
      default:
        piece.skip();
    }
  }
  if (type < static_cast<std::int32_t>(TokenType::Normal) ||
      type > static_cast<std::int32_t>(TokenType::Byte))
    throw Error(file, "unknown type of a piece: expected 1 to 6, got " + std::to_string(type),
                "piece " + std::to_string(id));
  to.add(id, text, static_cast<TokenType>(type), score);
}

struct Trainer {
  std::int32_t model_type = kUnigram, unknown = 0, bos = 1, eos = 2,
               pad = -1;  // the format's defaults
};

Trainer read_trainer(protozero::pbf_reader from) {
  Trainer to;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case number_field(trainer_field::kModelType):
        to.model_type = from.get_enum();
        break;
      case number_field(trainer_field::kUnknown):
        to.unknown = from.get_int32();
        break;
      case number_field(trainer_field::kBos):
        to.bos = from.get_int32();
        break;
      case number_field(trainer_field::kEos):
        to.eos = from.get_int32();
        break;
      case number_field(trainer_field::kPad):
        to.pad = from.get_int32();
        break;
      default:
        from.skip();
    }
  }
  return to;
}

void read_normalizer(protozero::pbf_reader from, Vocabulary& to) {
  to.add_space_prefix = to.remove_extra_whitespaces = true;  // the format's defaults
  while (from.next()) {
    switch (from.tag_and_type()) {
      case bytes_field(normalizer_field::kCharsmap):
        to.precompiled_charsmap = text_of(from.get_view());
        break;
      case number_field(normalizer_field::kDummyPrefix):
        to.add_space_prefix = flag(from);
        break;
      case number_field(normalizer_field::kExtraSpaces):
        to.remove_extra_whitespaces = flag(from);
        break;
      default:
        from.skip();
    }
  }
}

void read_model(std::span<const std::byte> bytes, const std::string& file, VocabularyBuilder& to) {
  protozero::pbf_reader model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t pieces = 0;
  Trainer trainer;
  while (model.next()) {
    switch (model.tag_and_type()) {
      case bytes_field(model_field::kPiece):
        read_piece(model.get_message(), pieces++, file, to);
        break;
      case bytes_field(model_field::kTrainer):
        trainer = read_trainer(model.get_message());
        break;
      case bytes_field(model_field::kNormalizer):
        read_normalizer(model.get_message(), to.vocabulary());
        break;
      default:
        model.skip();
    }
  }
  if (pieces == 0) throw Error(file, "not a SentencePiece model: expected pieces, got none");
  if (trainer.model_type != kBpe && trainer.model_type != kUnigram)
    throw Error(file,
                "unsupported type of SentencePiece model: expected Unigram (1) or BPE (2), got " +
                    std::to_string(trainer.model_type));
  const auto known = [&](std::int32_t id) {
    return id >= 0 && to.has(static_cast<std::uint64_t>(id)) ? std::optional<TokenId>(id)
                                                             : std::nullopt;
  };
  Vocabulary& vocabulary = to.vocabulary();
  if (trainer.model_type == kUnigram) {
    vocabulary.model = "t5";
    vocabulary.add_bos = false;
    vocabulary.add_eos = true;
  }
  vocabulary.unk = known(trainer.unknown);
  vocabulary.bos = known(trainer.bos);
  vocabulary.eos = known(trainer.eos);
  vocabulary.pad = known(trainer.pad);
}

}  // namespace

void read_sentencepiece_model(std::span<const std::byte> bytes, const std::string& file,
                              VocabularyBuilder& to) {
  Vocabulary& vocabulary = to.vocabulary();
  vocabulary.model = "llama";
  vocabulary.pre = "default";
  vocabulary.add_bos = true;
  try {
    read_model(bytes, file, to);
  } catch (const protozero::exception& error) {
    throw Error(file, std::string("not a SentencePiece model: ") + error.what());
  }
}

std::string sentencepiece_model(const Vocabulary& vocabulary) {
  std::string bytes;
  protozero::pbf_writer model(bytes);
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    protozero::pbf_writer piece(model, model_field::kPiece);
    piece.add_string(piece_field::kText, vocabulary.tokens[id].data(),
                     vocabulary.tokens[id].size());
    piece.add_float(piece_field::kScore, vocabulary.scores.empty() ? 0.F : vocabulary.scores[id]);
    const TokenType type =
        vocabulary.types[id] == TokenType::Undefined ? TokenType::Normal : vocabulary.types[id];
    if (type != TokenType::Normal)
      piece.add_enum(piece_field::kType, static_cast<std::int32_t>(type));
  }
  {
    protozero::pbf_writer trainer(model, model_field::kTrainer);
    const bool unigram = vocabulary.model == "t5";
    trainer.add_enum(trainer_field::kModelType, unigram ? kUnigram : kBpe);
    trainer.add_int32(trainer_field::kVocabularySize,
                      static_cast<std::int32_t>(vocabulary.tokens.size()));
    trainer.add_bool(trainer_field::kByteFallback, !unigram);
    trainer.add_int32(trainer_field::kUnknown, vocabulary.unk.value_or(0));
    trainer.add_int32(trainer_field::kBos, vocabulary.bos.value_or(-1));
    trainer.add_int32(trainer_field::kEos, vocabulary.eos.value_or(-1));
    trainer.add_int32(trainer_field::kPad, vocabulary.pad.value_or(-1));
  }
  protozero::pbf_writer normalizer(model, model_field::kNormalizer);
  normalizer.add_string(normalizer_field::kName,
                        vocabulary.precompiled_charsmap.empty() ? "identity" : "user_defined");
  if (!vocabulary.precompiled_charsmap.empty())
    normalizer.add_bytes(normalizer_field::kCharsmap, vocabulary.precompiled_charsmap);
  normalizer.add_bool(normalizer_field::kDummyPrefix, vocabulary.add_space_prefix);
  normalizer.add_bool(normalizer_field::kExtraSpaces, vocabulary.remove_extra_whitespaces);
  normalizer.add_bool(normalizer_field::kEscapeSpaces, true);
  return bytes;
}

}  // namespace cria
