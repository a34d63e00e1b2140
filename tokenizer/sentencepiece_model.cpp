#include "tokenizer/sentencepiece_model.h"

#include <utility>

namespace cria {

void SentencePieceModel::piece(std::string_view text, float score, PieceType type) {
  protozero::pbf_writer message(model_, 1);
  message.add_string(1, text.data(), text.size());
  message.add_float(2, score);
  message.add_enum(3, type);
}

std::string SentencePieceModel::finish() {
  {
    protozero::pbf_writer trainer(model_, 2);
    trainer.add_enum(3, 2);      // model_type: BPE
    trainer.add_bool(35, true);  // byte_fallback
  }
  {
    protozero::pbf_writer normalizer(model_, 3);
    normalizer.add_string(1, "identity");
    normalizer.add_bool(3, false);  // add_dummy_prefix: done here, after every special token
    normalizer.add_bool(4, false);  // remove_extra_whitespaces
    normalizer.add_bool(5, true);   // escape_whitespaces
  }
  return std::move(bytes_);
}

}  // namespace cria
